import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toys import make_bowl

import softqd
from softqd import registry
from softqd.ops.bounds import reflected

SIZES = {
    "population_size": 12,
    "batch_size": 6,
    "cells": 24,
    "num_emitters": 3,
    "start_size": 12,
}


def box(bounds):
    return softqd.Problem(lambda x: (x.sum(), x), solution_bounds=bounds)


def test_what_leaves_comes_back_as_far_inside():
    x = jnp.array([[0.2, -0.3, 1.4, 3.3, -2.6]])
    found = reflected(box((0.0, 1.0)), x)
    np.testing.assert_allclose(found, [[0.2, 0.3, 0.6, 0.7, 0.6]], atol=1e-6)


def test_half_open_boxes():
    x = jnp.array([[-3.0, 5.0]])
    np.testing.assert_allclose(reflected(box((0.0, np.inf)), x), [[3.0, 5.0]])
    np.testing.assert_allclose(reflected(box((-np.inf, 4.0)), x), [[-3.0, 3.0]])
    np.testing.assert_array_equal(reflected(box((-np.inf, np.inf)), x), x)


def test_every_leaf_has_its_own_box():
    low = {"a": 0.0, "b": np.array([-1.0, -5.0])}
    problem = box((low, {"a": 1.0, "b": np.array([1.0, 5.0])}))
    solutions = {"a": jnp.array([1.5]), "b": jnp.array([[1.5, 1.5]])}
    found = reflected(problem, solutions)
    np.testing.assert_allclose(found["a"], [0.5])
    np.testing.assert_allclose(found["b"], [[0.5, 1.5]])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(registry.ALGORITHMS))
def test_every_algorithm_stays_inside(name):
    """The peak is outside: all are drawn to the border, and none is on it."""
    problem = make_bowl(solution_bounds=(-0.5, 0.25))
    factory = registry.ALGORITHMS[name]
    takes = inspect.signature(factory).parameters
    algorithm = factory(problem, **{k: v for k, v in SIZES.items() if k in takes})
    result = softqd.run(algorithm, num_iterations=15, log_every=15)
    solutions = np.asarray(result.population.solutions)
    assert len(solutions)
    assert (solutions > -0.5).all()
    assert (solutions < 0.25).all()


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((1.0, 0.0), "with low < high everywhere"),
        ((0.0, np.nan), "with low < high everywhere"),
        (3.0, "must be a pair"),
        (({"a": 0.0}, 1.0), "of the same structure"),
    ],
)
def test_bad_boxes(bounds, message):
    with pytest.raises(ValueError, match=message):
        box(bounds)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((np.zeros(2), np.ones(2)), r"have shape \(2,\) where solutions have \(6,\)"),
        (({"a": 0.0}, {"a": 1.0}), "are not like a solution"),
    ],
)
def test_boxes_that_do_not_fit(bounds, message):
    algorithm = softqd.dns(make_bowl(solution_bounds=bounds), population_size=4)
    with pytest.raises(ValueError, match=message):
        algorithm.init(jax.random.key(0), jnp.full((4, 6), 0.5))


def test_solutions_given_from_outside_are_refused():
    algorithm = softqd.dns(make_bowl(solution_bounds=(0.0, 1.0)), population_size=4)
    start = jnp.full((4, 6), 0.5).at[2, 1].set(1.5)
    with pytest.raises(ValueError, match="solution 2 at the start lies outside"):
        algorithm.init(jax.random.key(0), start)
