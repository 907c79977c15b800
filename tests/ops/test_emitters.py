import jax
import jax.numpy as jnp
import numpy as np
import pytest

import softqd
from softqd.ops import emitters
from softqd.ops.archive import Insertion


def insertion(status, value):
    return Insertion(jnp.asarray(status, jnp.int32), jnp.asarray(value, jnp.float32))


def test_improvement_ranks_by_value_alone():
    order, values = emitters.rank(insertion([0, 2, 1], [3.0, 1.0, 2.0]), "improvement")
    assert order.tolist() == [0, 2, 1]
    assert values[:, 0].tolist() == [3.0, 2.0, 1.0]


def test_two_stage_ranks_new_before_improved_before_refused():
    found = insertion([0, 1, 2, 2, 1], [9.0, 5.0, 1.0, 4.0, 7.0])
    order, values = emitters.rank(found, "two_stage")
    assert order.tolist() == [3, 2, 4, 1, 0]
    assert values[0].tolist() == [2.0, 4.0]


def test_rejected_candidates_rank_last():
    found = insertion([0, 0, 1], [-jnp.inf, -1.0, 0.5])
    assert emitters.rank(found, "improvement")[0].tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("selection", "status", "expected"),
    [("mu", [0] * 7, 3), ("filter", [0, 1, 2, 0], 2), ("filter", [0, 0], 0)],
)
def test_number_of_parents(selection, status, expected):
    found = insertion(status, np.zeros(len(status)))
    assert int(emitters.num_parents(found, selection)) == expected


@pytest.mark.parametrize(
    ("rule", "status", "iteration", "expected"),
    [
        ("basic", [0, 0], 3, False),
        ("no_improvement", [0, 0], 3, True),
        ("no_improvement", [0, 1], 3, False),
        (3, [2, 2], 3, True),
        (3, [0, 0], 4, False),
    ],
)
def test_restart_rules(rule, status, iteration, expected):
    found = insertion(status, np.zeros(2))
    assert bool(emitters.wants_restart(found, jnp.int32(iteration), rule)) is expected


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (("best", "mu", "basic"), "ranker must be one of improvement, two_stage"),
        (("two_stage", "all", "basic"), "selection must be one of mu, filter"),
        (("two_stage", "mu", "never"), "restart must be one of basic, no_improvement"),
        (("two_stage", "mu", 0), "or a number of iterations; got 0"),
    ],
)
def test_unknown_rules(rules, message):
    with pytest.raises(ValueError, match=message):
        emitters.check_rules(*rules)


def test_jacobian_rows_are_the_gradients():
    """Quality's row first; behaviors of a linear map have its rows."""
    matrix = jnp.arange(6.0).reshape(2, 3)
    problem = softqd.Problem(
        lambda s: (-(s["x"] ** 2).sum() + s["y"], matrix @ s["x"]),
    )
    solutions = {"x": jnp.array([[1.0, 2.0, 3.0]]), "y": jnp.array([5.0])}
    found, jacobian = emitters.evaluate_with_jacobian(problem, solutions, None)
    assert found.quality.tolist() == [-9.0]
    expected = [[-2, -4, -6, 1], [0, 1, 2, 0], [3, 4, 5, 0]]
    np.testing.assert_allclose(jacobian[0], expected)


def test_flatten_and_back():
    solutions = {"a": jnp.arange(6.0).reshape(3, 2), "b": jnp.arange(3.0)}
    flat = emitters.flatten(solutions)
    assert flat.shape == (3, 3)
    back = emitters.flattener(jax.tree.map(lambda x: x[0], solutions))(flat[None])
    np.testing.assert_array_equal(back["a"][0], solutions["a"])


def test_rows_of_length_one_and_zero():
    rows = emitters.normalize_rows(jnp.array([[3.0, 4.0], [0.0, 0.0]]))
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.0, 0.0]], rtol=1e-6)
