import jax
import numpy as np
import pytest
from toys import make_bowl

import softqd
from softqd.experiment import config as configs
from softqd.experiment.many import stack
from softqd.experiment.many.plan import grid_methods

# Numbers that may differ between the lanes of one program, and sizes for tests.
NUMBERS = {
    "squad": {"overlap": 0.1},
    "squad_published": {
        "gamma_sq": 0.1,
        "repulsion_weight": 0.25,
        "optimizer": "adam(0.2)",
    },
    "cma_mega": {"sigma0": 0.1, "optimizer": "adam(0.2)"},
    "cma_maega": {"sigma0": 0.1, "learning_rate": 0.5},
    "sep_cma_mae": {"sigma0": 0.1, "learning_rate": 0.5},
    "ga_me": {"iso_sigma": 0.1, "line_sigma": 0.1, "step_size": 0.2},
    "dns": {"iso_sigma": 0.1, "line_sigma": 0.1},
    "dns_g": {"step_size": 0.2},
}
SIZES = {"population_size": 8, "batch_size": 4, "num_neighbors": 3, "cells": 8}


def methods_of(algorithm, *points):
    takes = configs.settings_of("algorithm", algorithm)
    settings = [f"{key}={value}" for key, value in SIZES.items() if key in takes]
    named = {str(number): point for number, point in enumerate(points)}
    return grid_methods(make_bowl(), algorithm, named, settings)


@pytest.mark.parametrize("algorithm", NUMBERS)
def test_every_algorithm_can_be_traced_with_other_numbers(algorithm):
    problem, methods = methods_of(algorithm, {}, NUMBERS[algorithm])
    (part,) = stack.stacks_of(methods, num_seeds=2)
    found = stack.stack(part, problem)
    assert found.numbers.shape == (2, len(NUMBERS[algorithm]))
    keys = jax.random.split(jax.random.key(0), 2)
    state = jax.eval_shape(jax.vmap(found.algorithm.init), (keys, found.numbers))
    after, info = jax.eval_shape(jax.vmap(found.algorithm.step), state)
    assert jax.tree.structure(after) == jax.tree.structure(state)
    assert info.evaluations.shape == (2,)


def test_a_lane_is_the_algorithm_with_its_numbers():
    """The second lane against an algorithm built with those numbers by hand."""
    problem, methods = methods_of("dns", {}, NUMBERS["dns"])
    found = stack.stack(methods, problem)
    np.testing.assert_array_equal(
        found.numbers, np.array([[0.05, 0.5], [0.1, 0.1]], np.float32)
    )
    sizes = {"population_size": 8, "batch_size": 4, "num_neighbors": 3}
    alone = softqd.dns(problem, **sizes, iso_sigma=0.1, line_sigma=0.1)

    @jax.jit
    def both(key, numbers):
        lane = found.algorithm.init((key, numbers[1]))
        states = found.algorithm.step(lane)[0].inner, alone.step(alone.init(key))[0]
        return [(state.solutions, state.quality) for state in states]

    mine, expected = both(jax.random.key(3), found.numbers)
    jax.tree.map(np.testing.assert_array_equal, mine, expected)


@pytest.mark.parametrize(
    ("first", "second", "is_alike"),
    [
        ({"gamma_sq": 0.1}, {"gamma_sq": 2.0}, True),
        ({"gamma_sq": 0.1}, {"gamma_sq": "nearest"}, False),
        ({"optimizer": "adam(0.1)"}, {"optimizer": "adam(0.2, b1=0.5)"}, False),
        ({"optimizer": "adam(0.1)"}, {"optimizer": "adam( 2e-3 )"}, True),
        ({"optimizer": "adam(0.1)"}, {"optimizer": "sgd(0.1)"}, False),
        ({"batch_size": 4}, {"batch_size": 8}, False),
        (
            {"gamma_sq": "linear_schedule(1.0, 0.1, 50)"},
            {"gamma_sq": "linear_schedule(1.0, 0.1, 60)"},
            False,
        ),
    ],
)
def test_only_numbers_may_differ(first, second, is_alike):
    _, methods = methods_of("squad_published", first, second)
    found = stack.stacks_of(methods, num_seeds=1)
    assert len(found) == (1 if is_alike else 2)


def test_stacks_are_as_large_as_memory_allows(monkeypatch):
    """A state of DNS here is 8 solutions of 6 + 1 + 2 numbers, a key and 2 counts."""
    num_bytes = 4 * (8 * (6 + 1 + 2) + 2 + 2)
    monkeypatch.setattr(stack, "_MAX_STATE_BYTES", 5 * num_bytes)
    points = [{"iso_sigma": 0.1 * k} for k in range(1, 6)]
    _, methods = methods_of("dns", *points)
    found = stack.stacks_of(methods, num_seeds=2)
    assert [len(part) for part in found] == [2, 2, 1]
