"""Evaluate solutions that come as rows of numbers, in NumPy, as other libraries do.

One row is one solution, raveled as by `jax.flatten_util.ravel_pytree`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from softqd.ops import evaluation
from softqd.ops.checks import check_solutions
from softqd.ops.seeds import check_seed, key_of
from softqd.types import Evaluation, Key, Problem, check_evaluate


class RowEvaluator:
    """Rows of numbers to qualities, behaviors and Jacobians, in compiled programs."""

    def __init__(self, problem: Problem, solution_dim: Any, seed: int):
        self.problem = problem
        self.structure = structure_of(problem, solution_dim)
        leaves = jax.tree.leaves(self.structure)
        self.solution_dim = sum(leaf.size for leaf in leaves)
        self.dtype = jnp.result_type(*(leaf.dtype for leaf in leaves))
        self.behavior_dim = check_evaluate(problem, self.structure)
        self.key, self.num_calls = key_of(check_seed(seed)), 0
        self.programs: dict[tuple[int, bool], Callable] = {}
        self.compile_seconds = 0.0

    def __call__(self, rows: np.ndarray, has_jacobian: bool) -> tuple[np.ndarray, ...]:
        """Quality ``(n,)``, behavior ``(n, d)``; if wanted, Jacobian ``(n, 1 + d, p)``.

        Rows are padded by copies of the first, which are not given back.
        """
        n, d, p = len(rows), self.behavior_dim, self.solution_dim
        if rows.shape != (n, p):
            raise ValueError(
                f"solutions to evaluate have shape {rows.shape}, expected (n, {p}); "
                f"build archive and emitters with solution_dim={p}"
            )
        if not n:
            shapes = [(0,), (0, d), (0, 1 + d, p)]
            return tuple(map(np.zeros, shapes[: 2 + has_jacobian]))
        size = padded_size(n)
        padding = np.broadcast_to(rows[:1], (size - n, p))
        padded = np.concatenate([rows, padding]).astype(self.dtype)
        args = (self.problem, padded, self.key, np.uint32(self.num_calls))
        self.num_calls += 1
        answer = self._program(has_jacobian, args)(*args)
        # Copies: pyribs normalizes gradients in place.
        return tuple(np.array(part)[:n] for part in answer)

    def _program(self, has_jacobian: bool, args: tuple) -> Callable:
        """Compile once per kind and size."""
        kind = (len(args[1]), has_jacobian)
        if kind not in self.programs:
            began = time.perf_counter()
            program = jax.jit(partial(_evaluate, self.structure, has_jacobian))
            self.programs[kind] = program.lower(*args).compile()
            self.compile_seconds += time.perf_counter() - began
        return self.programs[kind]


def _evaluate(
    structure: PyTree,
    has_jacobian: bool,
    problem: Problem,
    rows: Float[Array, "n p"],
    key: Key,
    call: Int[Array, ""],
) -> tuple[Array, ...]:
    key = jax.random.fold_in(key, call)
    solutions = _solutions(structure, rows)
    if not has_jacobian:
        return evaluation.evaluate(problem, solutions, key)
    found, _, pullback = evaluation.evaluate_with_vjp(
        problem, solutions, key, lambda behavior: behavior
    )
    return *found, _jacobian(found, pullback)


def _jacobian(found: Evaluation, pullback: Callable) -> Float[Array, "n 1+d p"]:
    """Pull back the unit vectors of (quality, behavior), one after the other."""
    quality, behavior = found

    def gradient(unit):
        of_behavior = jnp.broadcast_to(unit[1:].astype(behavior.dtype), behavior.shape)
        pulled = pullback(jnp.full_like(quality, unit[0]), of_behavior)
        return jax.vmap(lambda one: ravel_pytree(one)[0])(pulled)

    # Not vmap: memory for one pullback, whatever d is.
    gradients = jax.lax.map(gradient, jnp.eye(1 + behavior.shape[1]))
    return jnp.swapaxes(gradients, 0, 1)


def _solutions(structure: PyTree, rows: Float[Array, "n p"]) -> PyTree:
    """Rows as solutions of the problem, in its own types."""
    parts = unraveled(structure, rows)
    return jax.tree.map(lambda part, leaf: part.astype(leaf.dtype), parts, structure)


def unraveled(structure: PyTree, rows: Any) -> PyTree:
    """Cut rows ``(n, p)`` into leaves ``(n, ...)``, in the order of `ravel_pytree`."""
    leaves, treedef = jax.tree.flatten(structure)
    ends = np.cumsum([leaf.size for leaf in leaves]).tolist()
    return treedef.unflatten(
        rows[:, end - leaf.size : end].reshape(len(rows), *leaf.shape)
        for end, leaf in zip(ends, leaves, strict=True)
    )


def structure_of(problem: Problem, solution_dim: Any) -> PyTree:
    """Shapes and types of one solution, which must have ``solution_dim`` values."""
    shape = tuple(np.atleast_1d(solution_dim).tolist())
    if problem.sample is not None:
        structure = jax.eval_shape(problem.sample, jax.random.key(0))
    else:
        structure = jax.ShapeDtypeStruct(shape, jnp.result_type(float))
    check_solutions(
        problem, jax.tree.map(lambda x: jnp.zeros((1, *x.shape), x.dtype), structure)
    )
    size = sum(leaf.size for leaf in jax.tree.leaves(structure))
    if shape != (size,):
        found = shape[0] if len(shape) == 1 else shape
        raise ValueError(
            f"the archive has solution_dim={found}, but a solution of problem "
            f"{problem.name!r} has {size} values; build archive and emitters with "
            f"solution_dim={size}"
        )
    return structure


def padded_size(n: int) -> int:
    """Next size of at most four binary digits, so that few programs are compiled.

    Less than an eighth is added.

    Examples:
        >>> [padded_size(n) for n in (1, 15, 16, 17, 64, 100, 540)]
        [1, 15, 16, 18, 64, 104, 576]
    """
    unit = 1 << max(0, n.bit_length() - 4)
    return -(-n // unit) * unit
