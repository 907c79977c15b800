"""Half precision is for solutions alone: what is computed of them has single at least."""

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
    dtype = jnp.result_type(x)
    is_half = jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits < 32
    return jnp.asarray(x, jnp.float32) if is_half else x


def widened(tree: PyTree) -> PyTree:
    """The arrays of a tree, none of them in half precision."""
    return jax.tree.map(wide, tree)


def narrowed(tree: PyTree, like: PyTree) -> PyTree:
    """The arrays of a tree in the precision that those of another have."""
    return jax.tree.map(lambda x, y: x.astype(y.dtype), tree, like)
