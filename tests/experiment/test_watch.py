import dataclasses
import re
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toys import climb, make_bowl

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


@pytest.mark.parametrize("seed", [0, [4, 5]])
def test_behaviors_outside_their_bounds_are_counted_in_every_method(seed):
    problem = make_bowl(behavior_bounds=([0, 0.2], [1, 0.8]))

    def leave(state):
        new, info = algorithm.step(state)
        away = jnp.full((16, 2), 0.5).at[:3, 1].set(0.9).at[0, 0].set(-1.0)
        return new._replace(behavior=away), info

    algorithm = climb(problem)
    given = algorithm.init

    def init(key):
        state = given(key)
        return state._replace(behavior=jnp.full((16, 2), 0.5))

    outside = algorithm._replace(init=init, step=leave)
    where = "of seed 4, 3" if isinstance(seed, list) else "end, 3"
    with pytest.warns(UserWarning, match=f"{where} solutions have behaviors outside"):
        found = softqd.run(outside, seed, num_iterations=2, log_every=1)
    results = found if isinstance(seed, list) else [found]
    for result in results:
        assert result.history["clipped_behaviors"].tolist() == [0, 3, 3]


@jax.custom_vjp
def without_slope(x):
    return x


without_slope.defvjp(lambda x: (x, None), lambda _, g: (g * jnp.nan,))


def spoiled(**parts):
    """The bowl with parts of its answer spoiled."""
    bowl = make_bowl(behavior_bounds=parts.pop("bounds", (0.0, 1.0)))

    def evaluate(x):
        quality, behavior = bowl.evaluate(parts.get("inside", lambda x: x)(x))
        of_quality, of_behavior = (
            parts.get(name, lambda value: value) for name in ("quality", "behavior")
        )
        return of_quality(quality), of_behavior(behavior)

    return dataclasses.replace(bowl, evaluate=evaluate)


CELLS = {"cells": 24, "batch_size": 6}


@pytest.mark.parametrize(
    ("algorithm", "parts", "words"),
    [
        (
            partial(softqd.ga_me, **CELLS),
            {"behavior": lambda b: b * jnp.nan},
            r"no solution: of about \d+ evaluations in an iteration 6 were not finite",
        ),
        (
            partial(softqd.sep_cma_mae, num_emitters=1, **CELLS),
            {"quality": lambda f: f * jnp.nan},
            "there is no solution: of about",
        ),
        (
            partial(softqd.dns_g, population_size=12, batch_size=5, grad_batch_size=4),
            {"inside": without_slope},
            "at least 4 solutions were not finite, and 4 gradients were taken",
        ),
        (
            partial(softqd.cma_mega, num_emitters=2, **CELLS),
            {"inside": without_slope},
            "and 2 gradients were taken: are they finite",
        ),
        (
            partial(softqd.dns, population_size=12, batch_size=5),
            {"behavior": lambda b: 1e6 + 1e-3 * b, "bounds": (1e6, 1e6 + 1e-3)},
            r"float32 has about 0 numbers: .* Subtract 1000000 from the behavior",
        ),
    ],
)
def test_the_cause_is_named(algorithm, parts, words):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        softqd.run(algorithm(spoiled(**parts)), num_iterations=6, log_every=3)
    assert any(re.search(words, str(one.message)) for one in told), told


@pytest.mark.parametrize("factor", [1e30, 1e-30])
def test_the_unit_of_quality_is_no_matter(factor):
    """Steps are those of the plain bowl, whose squares do not leave the range."""
    algorithm = partial(softqd.squad, population_size=12, num_neighbors=4)
    plain, other = (
        softqd.run(algorithm(problem), num_iterations=10).history["max_quality"]
        for problem in (make_bowl(), spoiled(quality=lambda f: f * factor))
    )
    np.testing.assert_allclose(other / factor, plain, rtol=1e-3)
