"""Keeping solutions in their box, by reflection at its sides.

A solution that would leave comes back as far inside as it was outside. Nothing piles up
on the border, as it would where solutions are clipped, and nothing is drawn again.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from softqd.types import Problem


def reflected(problem: Problem, solutions: PyTree) -> PyTree:
    """Solutions, brought back into the problem's ``solution_bounds`` if it has any.

    Args:
        problem: May declare bounds.
        solutions: Pytree of arrays with a leading axis.

    Examples:
        >>> import jax.numpy as jnp
        >>> box = Problem(lambda x: (x.sum(), x), solution_bounds=(0.0, 1.0))
        >>> reflected(box, jnp.array([[0.25, 1.25, -0.25, 2.25]])).tolist()
        [[0.25, 0.75, 0.25, 0.25]]
    """
    if problem.solution_bounds is None:
        return solutions
    low, high = (side_of(side, solutions) for side in problem.solution_bounds)
    return jax.tree.map(_reflect, solutions, low, high)


def side_of(side: Any, solutions: PyTree) -> PyTree:
    """One side of the box for every leaf; a number counts for all of them."""
    if jax.tree.structure(side) == jax.tree.structure(solutions):
        return side
    return jax.tree.map(lambda _: side, solutions)


def _reflect(x: Array, low: Any, high: Any) -> Array:
    low, high = (jnp.asarray(side, x.dtype) for side in (low, high))
    low, high = (side[None] if side.ndim else side for side in (low, high))
    has_low, has_high = jnp.isfinite(low), jnp.isfinite(high)
    is_box = has_low & has_high
    # Numbers in place of infinite sides, so that no NaN arises in what is not used.
    a, b = jnp.where(has_low, low, 0.0), jnp.where(has_high, high, 0.0)
    width = jnp.where(is_box, b - a, 1.0)
    # A wave that runs up and down between the sides.
    phase = jnp.mod(x - a, 2 * width)
    inside = a + jnp.minimum(phase, 2 * width - phase)
    x = jnp.where(has_low & ~has_high, a + jnp.abs(x - a), x)
    x = jnp.where(has_high & ~has_low, b - jnp.abs(b - x), x)
    is_out = (x < low) | (x > high)
    return jnp.where(is_box & is_out, jnp.clip(inside, a, b), x)
