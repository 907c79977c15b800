import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import softqd
from softqd.ops import emitters
from softqd.ops.archive import Insertion, empty_archive, grid_centroids, insert
from softqd.ops.cma_es import init_cma


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


@pytest.mark.parametrize(("signed", "expected"), [(True, -2.0), (False, 2.0)])
def test_branches_are_combinations_of_unit_gradients(signed, expected):
    """Only the coefficient of quality, the first, loses its sign."""
    gradients = jnp.array([[[4.0, 0.0], [0.0, 0.5]]])
    coefficients = jnp.array([[[-2.0, -3.0], [0.0, 0.0]]])
    start = jnp.array([[10.0, 20.0]])
    children = emitters.branch(start, coefficients, gradients, signed)
    np.testing.assert_allclose(children[0], [[10 + expected, 17.0], [10.0, 20.0]])


@pytest.mark.parametrize(("mu", "expected"), [(1, 8.0), (2, 7.0), (0, 5.0)])
def test_the_point_moves_to_the_mean_of_its_parents(mu, expected):
    """With rate 1; the second of two weighs log(2.5 / 2) / log(2.5^2 / 2)."""
    share = np.log(2.5 / 2) / np.log(2.5**2 / 2)
    children = jnp.array([[8.0 - 1.0 / share], [8.0], [99.0]])
    cma = init_cma(jnp.zeros(1), 1.0)
    best_first, is_over = jnp.array([1, 0, 2]), jnp.array(False)
    lesson = emitters.Lesson(cma, best_first, jnp.int32(mu), is_over)
    optimizer, point = optax.sgd(1.0, momentum=0.9), jnp.array([5.0])
    moments = optimizer.init(point)
    moved, after = emitters.move(optimizer, point, moments, children, lesson)
    np.testing.assert_allclose(moved, [expected], rtol=1e-6)
    assert bool(after[0].trace[0] != 0) == (mu > 0)


@pytest.mark.parametrize("is_empty", [True, False])
def test_emitters_that_are_over_start_from_elites_if_there_are_any(is_empty):
    archive = empty_archive(grid_centroids([2]), jnp.zeros(1))
    quality = jnp.array([jnp.nan if is_empty else 1.0])
    archive, _ = insert(archive, jnp.full((1, 1), 7.0), quality, jnp.array([[0.2]]))
    old, is_over = jnp.array([[1.0], [2.0]]), jnp.array([False, True])
    key = jax.random.key(0)
    new, count = emitters.renew(lambda point: point, old, is_over, archive, key)
    assert new.tolist() == ([[1.0], [2.0]] if is_empty else [[1.0], [7.0]])
    assert int(count) == (0 if is_empty else 1)


def test_learning_goes_towards_the_best_sample():
    """With one parent the mean is that sample, whichever one the archive took."""
    samples = jnp.array([[1.0, 0.0], [0.0, 2.0]])
    rules = emitters.Rules("two_stage", "filter", "no_improvement")
    found, cma = insertion([0, 1], [9.0, 1.0]), init_cma(jnp.zeros(2), 1.0)
    lesson = emitters.learn(rules, cma, samples, found, jnp.int32(1))
    np.testing.assert_allclose(lesson.cma.mean, samples[1], rtol=1e-6)
    assert int(lesson.num_parents) == 1
    assert not lesson.is_over
