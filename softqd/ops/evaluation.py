"""The one batched evaluator: chunks, keys, gradients and pictures for everyone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal
from jaxtyping import Float, Int, PyTree

from softqd.ops.outside import door_of
from softqd.ops.precision import wide
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
    problem: Problem,
    solutions: PyTree,
    key: Key | None,
    transform: Callable,
    chunk_size: int = 0,
) -> tuple[Evaluation, Any, Callable]:
    """Evaluate a batch and return the pullback of (quality, transformed behavior).

    Args:
        problem: The problem.
        solutions: Pytree of arrays with a leading axis ``n``.
        key: Randomness; needed only if the problem is stochastic.
        transform: Of behaviors ``(n, d)``.
        chunk_size: Solutions evaluated at once; 0 means all. If there are several
            chunks, the pullback evaluates each of them once more instead of keeping
            what its gradients need.

    Returns:
        The evaluation; the transformed behaviors ``(n, d)``; and a function of two
        cotangents ``(n,)`` and ``(n, d)`` that returns the gradient with respect to the
        solutions by one vector-Jacobian product.
    """
    keys = _keys(problem, solutions, key)
    one = functools.partial(_one, problem)

    def transformed(solutions):
        if chunk_size and chunk_size < _size(solutions):
            # What is outside of JAX keeps what it needs itself. In a loop nothing can
            # be moved out of the second evaluation.
            is_kept = door_of(problem) is not None
            chunk = one if is_kept else jax.checkpoint(one, prevent_cse=False)
            found = jax.lax.map(
                lambda x: chunk(*x), (solutions, keys), batch_size=chunk_size
            )
        else:
            found = jax.vmap(one)(solutions, keys)
        return (found.quality, transform(found.behavior)), found

    (_, z), pullback, evaluation = jax.vjp(transformed, solutions, has_aux=True)
    return evaluation, z, lambda *cotangents: pullback(cotangents)[0]


def over_batches(update: Callable, cache: PyTree, n: int, m: int) -> tuple[Any, Any]:
    """Call ``update(cache, start, size) -> (cache, outputs)`` batch after batch.

    Args:
        update: ``start`` may be an array, ``size`` is a number.
        cache: What batches hand on.
        n: Number of rows.
        m: Rows of a batch; the last one is smaller where ``m`` does not divide ``n``.

    Returns:
        The last cache, and the outputs of all batches joined along their first axis.
    """
    if m >= n:
        return update(cache, 0, n)
    num_batches, remainder = divmod(n, m)
    cache, outputs = jax.lax.scan(
        lambda cache, i: update(cache, i * m, m), cache, jnp.arange(num_batches)
    )
    outputs = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), outputs)
    if remainder:
        cache, tail = update(cache, num_batches * m, remainder)
        outputs = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), outputs, tail)
    return cache, outputs


def is_differentiable(problem: Problem, solution: PyTree) -> bool:
    """Whether ``evaluate`` has a gradient that may be other than zero, by tracing it.

    Args:
        problem: The problem.
        solution: One solution, or its shapes and dtypes.

    Examples:
        >>> import jax.numpy as jnp
        >>> steps = Problem(lambda x: (jnp.round(x.sum()), jnp.floor(x)))
        >>> is_differentiable(steps, jnp.ones(3))
        False
    """

    def total(solution, key):
        quality, behavior = _one(problem, solution, key)
        return quality + behavior.sum()

    key = jax.random.key(0) if problem.is_stochastic else None
    try:
        traced = jax.make_jaxpr(jax.grad(total))(solution, key).jaxpr
    except Exception:  # a callback without a derivative, a loop of unknown length
        jax.eval_shape(total, solution, key)  # if evaluate itself fails, say that
        return False
    zeros = {
        eqn.outvars[0]
        for eqn in traced.eqns
        if eqn.primitive.name == "broadcast_in_dim"
        and isinstance(eqn.invars[0], Literal)
        and eqn.invars[0].val == 0
    }
    return not all(isinstance(v, Literal) or v in zeros for v in traced.outvars)


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
        return jax.lax.map(problem.draw, keys, batch_size=chunk_size)
    return jax.vmap(problem.draw)(keys)


def render(
    problem: Problem, solutions: PyTree, members: Int[np.ndarray, " m"]
) -> Float[np.ndarray, "m h w 3"]:
    """Pictures of some rows of the solutions, one after the other."""
    chosen = jax.tree.map(lambda x: np.asarray(x)[members], solutions)
    return np.asarray(_draw(problem.render, chosen))


@jax.jit
def _draw(render: Any, solutions: PyTree) -> Any:
    # Render is passed in, so that a network's weights are not compiled in as constants.
    return jax.lax.map(render, solutions)


def _one(problem: Problem, solution: PyTree, key: Key | None) -> Evaluation:
    args = (key,) if problem.is_stochastic else ()
    return Evaluation(*map(wide, problem.evaluate(solution, *args)))


def _size(solutions: PyTree) -> int:
    return jax.tree.leaves(solutions)[0].shape[0]


def _keys(problem: Problem, solutions: PyTree, key: Key | None) -> Key | None:
    if not problem.is_stochastic:
        return None
    if key is None:
        raise ValueError(f"problem {problem.name!r} is stochastic; pass a key")
    return jax.random.split(key, _size(solutions))
