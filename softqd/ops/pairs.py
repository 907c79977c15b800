"""Sums over unordered pairs of a population, differentiable, in linear memory."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

_CHUNK_ROWS = 256


def sum_over_pairs(
    term: Callable[[PyTree, PyTree], Float[Array, "c n"]], arrays: PyTree
) -> Float[Array, ""]:
    """Sum ``term`` over all pairs ``i < j``.

    Args:
        term: From rows ``(c, ...)`` and all rows ``(n, ...)`` to a matrix ``(c, n)``.
        arrays: Pytree of arrays with a leading axis ``n``.

    Examples:
        >>> import jax.numpy as jnp
        >>> x = jnp.array([1.0, 2.0, 4.0])
        >>> sum_over_pairs(lambda a, b: a[:, None] * b[None, :], x).item()  # 2 + 4 + 8
        14.0
    """
    n = jax.tree.leaves(arrays)[0].shape[0]

    @jax.checkpoint  # recompute each block in the backward pass: no n x n residuals
    def block(start):
        place = start + jnp.arange(_CHUNK_ROWS)
        rows = jnp.minimum(place, n - 1)
        matrix = term(jax.tree.map(lambda x: x[rows], arrays), arrays)
        is_pair = (jnp.arange(n)[None, :] > rows[:, None]) & (place < n)[:, None]
        return jnp.where(is_pair, matrix, 0.0).sum()

    return jax.lax.map(block, jnp.arange(-(-n // _CHUNK_ROWS)) * _CHUNK_ROWS).sum()
