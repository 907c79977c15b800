"""A problem whose parts are functions of NumPy arrays, or of whatever a door takes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from softqd.ops.checks import check_count
from softqd.ops.outside import (
    Door,
    OutsideEvaluate,
    OutsideStochastic,
    outside_sample,
)
from softqd.types import Problem


def outside_problem(
    door: Door,
    solution: PyTree,
    behavior_dim: Callable[[], int],
    *,
    name: str,
    is_stochastic: bool = False,
    **fields: Any,
) -> Problem:
    """A `Problem` that a door answers for.

    Args:
        door: Evaluates, and samples where it can.
        solution: One, as NumPy arrays; None where solutions are not sampled.
        behavior_dim: The number of behavior dimensions, when it is needed.
        name: Of the problem.
        is_stochastic: Whether evaluations take randomness.
        **fields: Others of `softqd.Problem`.
    """
    no_gradient = None
    if door.linearize is None or fields.get("is_differentiable") is False:
        no_gradient = (
            f"evaluate of problem {name!r} has no gradient, which this algorithm "
            "needs; use softqd.dns, softqd.sep_cma_mae, or softqd.squad, which goes on "
            "with children alone"
        )
    evaluate = (OutsideStochastic if is_stochastic else OutsideEvaluate)(
        door, lambda _: (jnp.zeros(()), jnp.zeros(behavior_dim())), no_gradient
    )
    sample = None
    if door.sample is not None:
        shapes = jax.tree.map(lambda x: jax.eval_shape(jnp.asarray, x), solution)
        sample = outside_sample(door, shapes)
    return Problem(evaluate, sample, name=name, **fields)


def stated_dim(
    behavior_dim: int | None, behavior_bounds: Any, find: Callable[[], int]
) -> Callable[[], int]:
    """The number of behavior dimensions: as given, as bounds say, or else found."""
    if behavior_dim is not None:
        check_count("behavior_dim", behavior_dim, 1)
        return lambda: behavior_dim
    if behavior_bounds is not None and np.ndim(behavior_bounds[0]) == 1:
        return lambda: len(behavior_bounds[0])
    return functools.cache(find)


def drawn_by(sample: Callable[[np.random.Generator], PyTree]) -> Callable:
    """Words of randomness to a batch of solutions, one after the other."""

    def draw(words: Any) -> PyTree:
        drawn = [sample(np.random.default_rng(row.tolist())) for row in np.array(words)]
        return jax.tree.map(lambda *parts: np.stack(parts), *drawn)

    return draw


def one_drawn(sample: Callable[[np.random.Generator], PyTree]) -> PyTree:
    """A solution whose shapes tell those of all.

    Raises:
        ValueError: If it is no pytree of arrays of floating point.
    """
    solution = jax.tree.map(np.asarray, sample(np.random.default_rng(0)))
    leaves = jax.tree.leaves(solution)
    if not leaves or not all(np.issubdtype(x.dtype, np.floating) for x in leaves):
        kinds = [str(x.dtype) for x in leaves]
        raise ValueError(
            "sample must draw a solution of floating point arrays from a "
            f"numpy.random.Generator; got {kinds or type(solution).__name__}"
        )
    return solution
