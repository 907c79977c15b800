import jax.numpy as jnp
import pytest

from softqd.algorithms._pace import ANNEALING, LIMITS, REACH, steered_pace


def test_steps_that_lead_too_far_become_shorter_by_as_much():
    pace = steered_pace()
    # At the end of a run, REACH bandwidths are allowed; 1.5 times as many were gone.
    moved = 1.5 * REACH * 2.0
    found = pace.update(jnp.float32(0.9), jnp.float32(moved), jnp.float32(4.0), 1.0)
    assert float(found) == pytest.approx(0.6, rel=1e-5)


def test_more_is_allowed_at_the_start():
    pace = steered_pace()
    moved = jnp.float32(ANNEALING * REACH)
    assert float(pace.update(jnp.float32(0.5), moved, jnp.float32(1.0), 0.0)) == 0.5


def test_the_pace_never_exceeds_one_and_never_vanishes():
    pace, one = steered_pace(), jnp.float32(1.0)
    assert float(pace.init()) == 1.0
    assert float(pace.update(one, jnp.float32(0.0), one, 0.5)) == 1.0
    least = jnp.float32(LIMITS[0])
    assert float(pace.update(least, jnp.float32(1e9), one, 1.0)) == least
