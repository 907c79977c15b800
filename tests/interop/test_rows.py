import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from toys import make_bowl

import softqd
from softqd.interop.rows import RowEvaluator, padded_size, structure_of, unraveled


def make_tree(**kwargs):
    """A pytree with a matrix, a scalar and a vector, and three behaviors."""

    def evaluate(x):
        weight = jnp.tanh(x["layer"]["w"] @ x["b"])
        behavior = jnp.stack([weight[0] * x["a"], jnp.sin(weight[1]), x["b"][0] ** 2])
        return jnp.exp(-(x["a"] ** 2)) + weight.sum(), behavior

    def sample(key):
        w = jax.random.normal(key, (2, 3))
        return {"layer": {"w": w}, "a": jnp.zeros(()), "b": jnp.ones(3)}

    return softqd.Problem(evaluate, sample, name="tree", **kwargs)


def test_jacobian_is_quality_then_behaviors_as_finite_differences_say(x64):
    problem = make_tree()
    _, unravel = ravel_pytree(problem.sample(jax.random.key(0)))
    rows = np.random.default_rng(0).normal(size=(17, 10))

    def outputs(row):
        quality, behavior = problem.evaluate(unravel(jnp.asarray(row)))
        return np.concatenate([[quality], behavior])

    steps = 1e-6 * np.eye(10)
    differences = [
        [(outputs(row + step) - outputs(row - step)) / 2e-6 for step in steps]
        for row in rows
    ]
    quality, behavior, jacobian = RowEvaluator(problem, 10, 0)(rows, True)
    assert jacobian.shape == (17, 4, 10)
    np.testing.assert_allclose(
        jacobian, np.swapaxes(differences, 1, 2), rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(
        np.column_stack([quality, behavior]), [outputs(row) for row in rows], rtol=1e-12
    )


@pytest.mark.parametrize("n", [1, 15, 17, 100])
def test_rows_come_back_in_order_and_without_padding(n):
    rows = np.random.default_rng(n).normal(size=(n, 6))
    quality, behavior = RowEvaluator(make_bowl(), 6, 0)(rows, False)
    expected = 10 - ((rows - 0.3) ** 2).sum(1)
    np.testing.assert_allclose(quality, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(behavior, 1 / (1 + np.exp(-rows[:, :2])), rtol=1e-5)


def test_one_program_per_size():
    evaluator = RowEvaluator(make_bowl(), 6, 0)
    for n in (17, 18, 17, 18):
        evaluator(np.zeros((n, 6)), False)
    assert len(evaluator.programs) == 1
    spent = evaluator.compile_seconds
    evaluator(np.zeros((18, 6)), False)
    assert evaluator.compile_seconds == spent > 0
    evaluator(np.zeros((18, 6)), True)
    evaluator(np.zeros((19, 6)), False)
    assert len(evaluator.programs) == 3


def test_padding_is_less_than_an_eighth():
    sizes = np.arange(1, 5000)
    padded = np.array([padded_size(int(n)) for n in sizes])
    assert (padded >= sizes).all()
    assert (padded < sizes * 9 / 8).all()
    assert len(np.unique(padded)) < 90  # eight for each power of two


def test_no_rows_need_no_program():
    evaluator = RowEvaluator(make_bowl(), 6, 0)
    shapes = [part.shape for part in evaluator(np.zeros((0, 6)), True)]
    assert shapes == [(0,), (0, 2), (0, 3, 6)]
    assert not evaluator.programs


def test_answers_may_be_written_to():
    evaluator = RowEvaluator(make_bowl(), 6, 0)
    for part in evaluator(np.zeros((2, 6)), True):
        part /= 2.0


def test_unraveled_undoes_ravel_pytree_in_any_precision():
    problem = make_tree()
    structure = structure_of(problem, 10)
    rows = np.random.default_rng(0).normal(size=(4, 10))
    tree = unraveled(structure, rows)
    assert {leaf.dtype for leaf in jax.tree.leaves(tree)} == {np.dtype(np.float64)}
    for i, row in enumerate(rows):
        leaves = jax.tree.leaves(jax.tree.map(lambda leaf, i=i: leaf[i], tree))
        np.testing.assert_array_equal(np.concatenate(list(map(np.ravel, leaves))), row)
        flat, _ = ravel_pytree(jax.tree.map(lambda leaf, i=i: leaf[i], tree))
        np.testing.assert_array_equal(flat, row.astype(np.float32))


def test_keys_differ_by_row_call_and_seed():
    problem = softqd.Problem(
        lambda x, key: (jax.random.normal(key), x[:1]),
        lambda key: jnp.zeros(2),
    )
    rows = np.zeros((8, 2))
    first, again, other = (RowEvaluator(problem, 2, seed) for seed in (0, 0, 1))
    one, two = first(rows, False)[0], first(rows, False)[0]
    drawn = [*one, *two, *other(rows, False)[0]]
    assert len(set(map(float, drawn))) == 24
    np.testing.assert_array_equal(again(rows, False)[0], one)
    np.testing.assert_array_equal(again(rows, False)[0], two)


def test_problem_without_sample_takes_vectors():
    problem = softqd.Problem(lambda x: (x.sum(), x[:2]))
    quality, _ = RowEvaluator(problem, 5, 0)(np.ones((3, 5)), False)
    assert quality.tolist() == [5.0] * 3


def test_whole_numbers_are_refused():
    problem = softqd.Problem(
        lambda x: (1.0 * x.sum(), 1.0 * x[:2]), lambda key: jnp.zeros(4, int)
    )
    with pytest.raises(ValueError, match="dtype int32, expected floating point"):
        RowEvaluator(problem, 4, 0)
