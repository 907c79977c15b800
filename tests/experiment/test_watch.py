import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import softqd
from softqd.experiment.watch import trouble


def test_ordinary_populations_are_in_no_trouble():
    rng = np.random.default_rng(0)
    behavior = np.c_[rng.random(20), np.ones(20)]  # one behavior may be constant
    assert trouble(rng.random(20), behavior, 0.0) is None
    assert trouble(np.zeros(1), np.zeros((1, 2)), 0.0) is None
    assert trouble(np.zeros(0), np.zeros((0, 2)), 0.0) is None


def test_no_light():
    found = trouble(np.array([-3.0, -1.5]), np.eye(2), -1.0)
    assert "no solution is better than the level -1 " in found
    assert "the best has -1.5" in found
    assert "lower quality_level" in found


@pytest.mark.parametrize("noise", [0.0, 1e-7])
def test_one_place(noise):
    behavior = np.full((30, 2), 0.25) + noise * np.arange(30)[:, None] / 30
    found = trouble(np.ones(30), behavior, 0.0)
    assert "all 30 solutions have one and the same behavior, [0.25 0.25]" in found


@pytest.mark.parametrize("seeds", [0, [0, 1]])
@pytest.mark.parametrize("build", [softqd.squad, softqd.dns])
def test_a_run_says_so_once(build, seeds):
    def evaluate(x):
        return 10.0 - jnp.sum(x**2), 0.5 + 0.0 * x[:2]

    sample = lambda key: jax.random.normal(key, (4,))  # noqa: E731
    problem = softqd.Problem(evaluate, sample, (0.0, 1.0))
    algorithm = build(problem, population_size=8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        softqd.run(algorithm, seed=seeds, num_iterations=4, log_every=1)
    (told,) = [str(w.message) for w in caught if "one and the same" in str(w.message)]
    assert told.startswith("after iteration 1")
