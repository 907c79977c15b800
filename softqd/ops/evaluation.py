"""The one batched evaluator: chunks, keys and gradients for every algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import PyTree

from softqd.types import Evaluation, Key, Problem


def evaluate(
    problem: Problem, solutions: PyTree, key: Key | None = None, chunk_size: int = 0
) -> Evaluation:
    """Evaluate a batch of solutions.

    Args:
        problem: The problem.
        solutions: Pytree of arrays with a leading axis ``n``.
        key: Randomness; needed only if the problem is stochastic.
        chunk_size: Solutions evaluated at once; 0 means all.

    Returns:
        Qualities ``(n,)`` and behaviors ``(n, d)``.
    """
    args = (solutions, _keys(problem, solutions, key))
    if chunk_size and chunk_size < _size(solutions):
        return jax.lax.map(lambda x: _one(problem, *x), args, batch_size=chunk_size)
    return jax.vmap(lambda *x: _one(problem, *x))(*args)


def evaluate_with_vjp(
    problem: Problem, solutions: PyTree, key: Key | None, transform: Callable
) -> tuple[Evaluation, Any, Callable]:
    """Evaluate a batch and return the pullback of (quality, transformed behavior).

    Returns:
        The evaluation; the transformed behaviors ``(n, d)``; and a function of two
        cotangents ``(n,)`` and ``(n, d)`` that returns the gradient with respect to the
        solutions by one vector-Jacobian product.
    """
    keys = _keys(problem, solutions, key)

    def transformed(solutions):
        evaluation = jax.vmap(lambda *x: _one(problem, *x))(solutions, keys)
        return (evaluation.quality, transform(evaluation.behavior)), evaluation

    (_, z), pullback, evaluation = jax.vjp(transformed, solutions, has_aux=True)
    return evaluation, z, lambda *cotangents: pullback(cotangents)[0]


def sample(
    problem: Problem, key: Key, num_solutions: int, chunk_size: int = 0
) -> PyTree:
    """Draw random solutions, at most ``chunk_size`` at once.

    Raises:
        ValueError: If the problem cannot sample.
    """
    if problem.sample is None:
        raise ValueError(
            f"problem {problem.name!r} has no sample function; give it sample=, or "
            "start from given solutions: algorithm.init(key, solutions)"
        )
    keys = jax.random.split(key, num_solutions)
    if chunk_size and chunk_size < num_solutions:
        return jax.lax.map(problem.sample, keys, batch_size=chunk_size)
    return jax.vmap(problem.sample)(keys)


def _one(problem: Problem, solution: PyTree, key: Key | None) -> Evaluation:
    args = (key,) if problem.is_stochastic else ()
    return Evaluation(*problem.evaluate(solution, *args))


def _size(solutions: PyTree) -> int:
    return jax.tree.leaves(solutions)[0].shape[0]


def _keys(problem: Problem, solutions: PyTree, key: Key | None) -> Key | None:
    if not problem.is_stochastic:
        return None
    if key is None:
        raise ValueError(f"problem {problem.name!r} is stochastic; pass a key")
    return jax.random.split(key, _size(solutions))
