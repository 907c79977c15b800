"""Ascent of the Soft QD Score: its gradient, its width, its settings."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import softqd
from softqd.algorithms._winning import winning
from softqd.experiment import config as configs

POINTS = 40_000
SIZES = {"population_size": 8, "batch_size": 4}


def winning_of(quality, z, sigma, num_points=POINTS):
    n = len(z)
    root = jnp.sqrt(jnp.asarray(quality))
    return winning(
        jax.random.key(0),
        jnp.asarray(z),
        jnp.arange(n),
        jnp.asarray(z),
        root,
        jnp.full(n, sigma),
        num_points,
    )


@pytest.mark.parametrize("quality", [(1.0, 1.0), (2.0, 0.5)])
def test_two_lights_win_up_to_where_they_are_equally_bright(quality):
    sigma, distance = 0.5, 0.8
    z = np.array([[0.0, 0.0], [distance, 0.0]], np.float32)
    share, push = winning_of(quality, z, sigma)
    # f_1 exp(-e^2 / 2) = f_2 exp(-(e - distance / sigma)^2 / 2) along the first axis.
    t = distance / sigma / 2 + sigma / distance * np.log(quality[0] / quality[1])
    other = distance / sigma - t
    error = 5 / np.sqrt(POINTS)
    np.testing.assert_allclose(share, [norm.cdf(t), norm.cdf(other)], atol=error)
    # E[e; e < t] = -pdf(t).
    wanted = [[-norm.pdf(t) / sigma, 0], [norm.pdf(other) / sigma, 0]]
    np.testing.assert_allclose(push, wanted, atol=error / sigma)


def test_gradient_of_the_score_by_differences():
    rng = np.random.default_rng(3)
    z = rng.uniform(0.2, 0.8, (5, 1)).astype(np.float32)
    quality = rng.uniform(0.5, 2.0, 5).astype(np.float32)
    sigma, grid = 0.1, np.linspace(-1, 2, 60_001)

    def score(quality, z):
        light = quality[:, None] * np.exp(-((grid - z) ** 2) / (2 * sigma**2))
        return np.trapezoid(light.max(0), grid) / np.sqrt(2 * np.pi * sigma**2)

    share, push = winning_of(quality, z, sigma)
    for i, unit in enumerate(np.eye(5)):
        by_quality = score(quality + 1e-3 * unit, z) - score(quality - 1e-3 * unit, z)
        by_place = score(quality, z + 1e-4 * unit[:, None])
        by_place -= score(quality, z - 1e-4 * unit[:, None])
        assert share[i] == pytest.approx(by_quality / 2e-3, abs=0.02)
        found = float(quality[i] * push[i, 0])
        assert found == pytest.approx(by_place / 2e-4, abs=0.2 * float(quality[i]))


def test_a_light_alone_wins_everywhere_and_a_dark_one_nowhere():
    share, push = winning_of([1.0, 0.0], np.zeros((2, 2), np.float32), 0.3, 50)
    np.testing.assert_array_equal(share, [1.0, 0.0])
    np.testing.assert_array_equal(push[0], [0.0, 0.0])
    assert np.isfinite(np.asarray(push)).all()


def test_the_score_rises_and_the_overlap_follows_its_target():
    problem = softqd.problems.linear_projection(4, solution_dim=64)
    algorithm = softqd.soft_qd_ascent(problem, population_size=64, batch_size=32)
    start, end = (softqd.run(algorithm, seed=0, num_iterations=n) for n in (0, 150))

    def score(result):
        low, high = problem.bounds(4)
        unit = (np.asarray(result.population.behavior) - low) / (high - low)
        quality = np.maximum(result.population.quality, 0.0)
        return softqd.soft_qd_score(quality, unit, 0.1)[0]

    assert score(end) > 2 * score(start)
    assert end.history["overlap"][-1] == pytest.approx(0.15, rel=0.3)


def test_a_given_width_stays():
    problem = softqd.problems.sphere(solution_dim=8)
    algorithm = softqd.soft_qd_ascent(
        problem, population_size=16, batch_size=8, sigma=0.2
    )
    found = softqd.run(algorithm, num_iterations=5).history
    np.testing.assert_allclose(found["gamma_sq"][1:], 8 * 0.2**2, rtol=1e-6)
    assert algorithm.settings["overlap"] is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_points": 0}, "num_points must be"),
        ({"sigma": 0.0}, "sigma must be positive and finite; got 0.0"),
        ({"sigma": np.nan}, "sigma must be positive and finite; got nan"),
        ({"overlap": -1.0}, "overlap must be a positive number"),
        ({"sigma": 0.1, "overlap": 0.1}, "overlap sets the width of the light and so"),
        ({"batch_size": 9}, "batch_size"),
    ],
)
def test_bad_settings(settings, message):
    problem = softqd.problems.sphere(solution_dim=8)
    with pytest.raises(ValueError, match=message):
        softqd.soft_qd_ascent(problem, **{**SIZES, **settings})


def test_configuration_follows_sigma():
    config = configs.from_name("sphere", "soft_qd_ascent")
    assert config["algorithm"]["overlap"] == 0.15
    changed = configs.with_settings(config, ["sigma=0.1"])
    assert changed["algorithm"]["overlap"] == "none"
