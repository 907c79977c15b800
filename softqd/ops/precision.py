"""Half precision is for solutions alone: all that is computed of them has single."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree


def wide(x: Array) -> Array:
    """An array in single precision, where it has half.

    Examples:
        >>> wide(jnp.ones(2, jnp.bfloat16)).dtype, wide(jnp.arange(2)).dtype
        (dtype('float32'), dtype('int32'))
    """
    dtype = jnp.result_type(x)  # x may be a number
    is_half = jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits < 32
    return jnp.asarray(x, jnp.float32) if is_half else x


def near_one(*arrays: Array, axis: int | None = None) -> Array:
    """A power of two that brings the largest of these numbers near 1.

    Squares of what was multiplied by it stay in range, and all else its bits.

    Args:
        arrays: The numbers; 0 alone have the factor 1.
        axis: Along which each row has a factor of its own; None: one for all.

    Examples:
        >>> float(near_one(jnp.array([3.0, -1e30]))) == 2.0**-100
        True
    """
    keep = axis is not None
    largest = [jnp.abs(x).max(axis, keepdims=keep, initial=0) for x in arrays]
    largest = jnp.stack(largest).max(0)
    _, exponent = jnp.frexp(largest)
    # Beyond these the factor itself is out of range.
    limit = jnp.finfo(largest.dtype).maxexp - 2
    return jnp.ldexp(jnp.ones_like(largest), -jnp.clip(exponent, -limit, limit))


def widened(tree: PyTree) -> PyTree:
    """The arrays of a tree, none of them in half precision."""
    return jax.tree.map(wide, tree)


def narrowed(tree: PyTree, like: PyTree) -> PyTree:
    """The arrays of a tree in the precision that those of another have."""
    return jax.tree.map(lambda x, y: x.astype(y.dtype), tree, like)
