import jax.numpy as jnp
import numpy as np
import pytest

import softqd
from softqd.ops.level import declared_level, first_level, within_fences


def problem(**settings):
    return softqd.Problem(lambda x: (x.sum(), x), **settings)


def test_what_is_declared_counts():
    quality = jnp.array([-5.0, 3.0])
    assert float(first_level(problem(quality_level=-2.0), quality)) == -2.0
    assert float(first_level(problem(quality_bounds=(1.0, 9.0)), quality)) == 1.0
    both = problem(quality_level=-2.0, quality_bounds=(1.0, 9.0))
    assert declared_level(both) == -2.0
    assert declared_level(problem(quality_bounds=(-np.inf, 9.0))) is None


def test_positive_qualities_are_measured_from_zero():
    assert float(first_level(problem(), jnp.array([0.0, 3.0]))) == 0.0


def test_one_terrible_solution_does_not_matter():
    quality = np.linspace(-1.0, 1.0, 101)
    level = float(first_level(problem(), jnp.asarray(quality)))
    assert level == pytest.approx(-0.8)
    quality[0] = -1e6
    assert float(first_level(problem(), jnp.asarray(quality))) == pytest.approx(-0.8)


def test_many_terrible_solutions_do_not_matter():
    """Energies over twenty orders of magnitude: most are set aside."""
    good = np.linspace(-2.0, 1.0, 31)
    terrible = -np.logspace(2, 20, 40)
    level = first_level(problem(), jnp.asarray(np.r_[terrible, good], jnp.float32))
    assert float(level) == -2.0
    # Few of them: the quantile of all.
    level = first_level(problem(), jnp.asarray(np.r_[terrible[:2], good], jnp.float32))
    assert float(level) == pytest.approx(np.quantile(np.r_[terrible[:2], good], 0.1))


def test_nothing_is_set_aside_among_the_ordinary():
    rng = np.random.default_rng(0)
    for quality in (rng.normal(size=500), rng.random(500), -np.ones(9)):
        found = within_fences(jnp.asarray(quality, jnp.float32))
        np.testing.assert_array_equal(found, quality.astype(np.float32))


def test_a_constant_moves_the_level_with_the_quality():
    quality = jnp.asarray(np.random.default_rng(0).normal(size=50))
    level = first_level(problem(), quality)
    for offset in (-40.0, -3.0):
        moved = first_level(problem(), quality + offset)
        assert float(moved - offset) == pytest.approx(float(level), abs=1e-5)


def test_empty_rows_do_not_count():
    quality, occupied = jnp.array([-9.0, 1.0, 2.0]), jnp.array([False, True, True])
    assert float(first_level(problem(), quality, occupied)) == 0.0


@pytest.mark.parametrize("level", [np.nan, np.inf, "low"])
def test_levels_are_finite_numbers(level):
    with pytest.raises(ValueError, match="quality_level must be a finite number"):
        problem(quality_level=level)
