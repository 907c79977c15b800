"""Squared distances between behaviors, in chunks of rows.

Distances are sums of squared differences, not |a|^2 + |b|^2 - 2ab: the expansion is
three times as fast, but in float32 it loses the small distances that matter here.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

# Rows of a distance matrix handled at once: at most this many entries (64 MiB).
MAX_ENTRIES = 2**24
# Coordinates whose differences are summed in one fused loop.
_UNROLL = 32


def squared_distances(
    a: Float[Array, "m d"], b: Float[Array, "n d"]
) -> Float[Array, "m n"]:
    """Squared Euclidean distances between two sets of points.

    Examples:
        >>> import jax.numpy as jnp
        >>> squared_distances(jnp.array([[0.0, 0.0]]), jnp.array([[3.0, 4.0]]))
        Array([[25.]], dtype=float32)
    """

    def add(total, columns):
        # One coordinate at a time, so that the loop runs along the points.
        for i in range(columns[0].shape[0]):
            total += (columns[0][i][:, None] - columns[1][i][None, :]) ** 2
        return total

    at, bt, dim = a.T, b.T, a.shape[1]
    total = jnp.zeros((a.shape[0], b.shape[0]), jnp.result_type(a, b))
    num_blocks = dim // _UNROLL if dim > 2 * _UNROLL else 0
    if num_blocks:
        whole = num_blocks * _UNROLL
        blocks = [x[:whole].reshape(num_blocks, _UNROLL, -1) for x in (at, bt)]
        total, _ = jax.lax.scan(lambda t, x: (add(t, x), None), total, tuple(blocks))
        at, bt = at[whole:], bt[whole:]
    return add(total, (at, bt))


def mask_self(
    dist_sq: Float[Array, "m n"], index: Int[Array, " m"]
) -> Float[Array, "m n"]:
    """Put each row's own entry, at column ``index``, infinitely far away."""
    columns = jnp.arange(dist_sq.shape[1], dtype=index.dtype)
    return jnp.where(columns[None, :] == index[:, None], jnp.inf, dist_sq)


def map_rows(
    function: Callable[[PyTree], PyTree],
    rows: PyTree,
    row_length: int,
    max_entries: int | None = None,
) -> PyTree:
    """Apply ``function`` to rows in chunks of at most ``max_entries`` matrix entries.

    Args:
        function: From a pytree of arrays with leading axis ``c`` to another one.
        rows: Pytree of arrays with leading axis ``m``.
        row_length: Entries that one row costs.
        max_entries: MAX_ENTRIES if None.
    """
    num_rows = jax.tree.leaves(rows)[0].shape[0]
    max_entries = MAX_ENTRIES if max_entries is None else max_entries
    chunk = max(1, max_entries // max(1, row_length))
    if chunk >= num_rows:
        return function(rows)
    whole = num_rows // chunk * chunk
    split = jax.tree.map(lambda x: x[:whole].reshape(-1, chunk, *x.shape[1:]), rows)
    head = jax.lax.map(function, split)
    head = jax.tree.map(lambda x: x.reshape(whole, *x.shape[2:]), head)
    if whole == num_rows:
        return head
    tail = function(jax.tree.map(lambda x: x[whole:], rows))
    return jax.tree.map(lambda h, t: jnp.concatenate([h, t]), head, tail)


def mean_nearest_dist_sq(points: Float[Array, "n d"]) -> Float[Array, ""]:
    """Mean over points of the squared distance to the nearest other point."""

    def nearest(rows):
        index, z = rows
        return mask_self(squared_distances(z, points), index).min(1)

    index = jnp.arange(points.shape[0])
    return map_rows(nearest, (index, points), points.shape[0]).mean()
