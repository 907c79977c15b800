import jax
import jax.numpy as jnp
import numpy as np
import pytest

import softqd
from softqd.algorithms._bandwidth import (
    ANNEALING,
    annealed,
    crowding,
    first_gamma_sq,
    fixed_bandwidth,
    mean_overlap,
    overlap_slope,
    scale_of,
    steer,
    steered_bandwidth,
)


def test_mean_overlap_of_equal_members_is_theirs():
    assert float(mean_overlap(jnp.full(5, 0.7))) == pytest.approx(0.7, rel=1e-6)
    # Shares 1 and 1/4: mean 5/8, which is the share of an overlap of 3/5.
    assert float(mean_overlap(jnp.array([0.0, 3.0]))) == pytest.approx(0.6)


def test_target_falls_by_the_same_factor_every_iteration():
    at = [float(annealed(0.25, 8.0, progress)) for progress in (0, 1 / 3, 2 / 3, 1)]
    np.testing.assert_allclose(at, [2.0, 1.0, 0.5, 0.25], rtol=1e-5)


def test_first_bandwidth_gives_the_target():
    z = jax.random.normal(jax.random.key(0), (100, 3))
    gamma_sq = first_gamma_sq(z, 10, jnp.float32(1.5))
    dist_sq = ((z[:, None] - z[None]) ** 2).sum(-1) + jnp.diag(jnp.full(100, jnp.inf))
    near = jnp.sort(dist_sq, axis=1)[:, :10]
    overlap = jnp.exp(-near / gamma_sq).sum(1)
    assert 1 / float((1 / (1 + overlap)).mean()) - 1 == pytest.approx(1.5, rel=1e-3)


@pytest.mark.parametrize("progress", [0.0, 1.0])
@pytest.mark.parametrize(("size", "more"), [(9, 1.0), (1024, 1.0), (4096, 2.0)])
def test_steering_reaches_the_target_where_neighbors_are_at_one_distance(
    progress, size, more
):
    gamma_sq, dist_sq = jnp.float32(0.7), 2.0
    bandwidth = steered_bandwidth(0.4, 8, size)
    for _ in range(12):
        overlap = 8 * jnp.exp(-dist_sq / gamma_sq)
        gamma_sq = bandwidth.update(gamma_sq, overlap, progress)
    # At most half of what coinciding solutions have.
    wanted = min(0.4 * more * ANNEALING ** (1 - progress), 4.0)
    assert float(8 * jnp.exp(-dist_sq / gamma_sq)) == pytest.approx(wanted, rel=1e-3)


def power_of(dist_sq, gamma_sq):
    """Overlap at this bandwidth, and by what power of it that grows."""
    near, far = (np.exp(-dist_sq / g).sum() for g in (gamma_sq, 1.001 * gamma_sq))
    return near, np.log(far / near) / np.log(1.001)


def test_overlap_slope_is_that_of_neighbors_at_one_distance_and_else_larger():
    overlap, power = power_of(np.full(8, 2.0), 0.7)
    assert float(overlap_slope(overlap, 8)) == pytest.approx(power, rel=2e-3)
    for seed in range(5):
        dist_sq = np.random.default_rng(seed).uniform(1.0, 4.0, 8)
        overlap, power = power_of(dist_sq, 0.7)
        assert float(overlap_slope(overlap, 8)) > power
    assert float(overlap_slope(jnp.float32(4.0), 8)) == 1.0


def test_steering_is_limited():
    zero, one = jnp.float32(0.0), jnp.float32(1.0)
    grown = steer(jnp.float32(2.0), zero, one, 1.0, (0.0, 100.0))
    assert float(grown) == pytest.approx(2 * np.e, rel=1e-5)
    assert float(steer(jnp.float32(2.0), zero, one, 1.0, (0.0, 3.0))) == 3.0


def test_a_fixed_bandwidth_stays():
    bandwidth = fixed_bandwidth(0.3)
    first = bandwidth.init(jnp.zeros((4, 2)))
    assert float(bandwidth.update(first, jnp.float32(9.0), 0.5)) == np.float32(0.3)


def test_crowding_begins_late():
    found = crowding(jnp.array([0.0, 7.2, 7.6, 8.0]), 8)
    np.testing.assert_allclose(found, [0.0, 0.0, 0.5, 1.0], atol=1e-5)


def test_scale_is_positive_where_a_behavior_is_constant():
    z = jnp.stack([jnp.zeros(8), jnp.full(8, 5.0), jnp.arange(8.0)], 1)
    problem = softqd.Problem(
        lambda x: (x[0], x), None, ((-1, -np.inf, 0), (1, np.inf, 9))
    )
    spread = scale_of(problem, z).spread
    assert (spread > 0).all()
    assert float(spread[2]) == pytest.approx(np.arange(8).std(), rel=1e-5)
