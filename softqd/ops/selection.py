"""The k smallest entries of every row, as weights.

A sort or `lax.top_k` finds more than is needed: a threshold is enough. On the CPU, k
vectorized minima find it quickest up to a few dozen. On GPUs a sort of the row is
quicker than XLA's top-k, and `repulsion_kernel` does without either.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# Up to this k, k vectorized minima beat a top-k on the CPU.
_MAX_MINIMA = 40
# A row is cut into this many lanes for its minima.
_LANES = 16


def smallest(values: Float[Array, "m n"], k: int) -> Float[Array, "m n"]:
    """1 for the k smallest entries of a row, 0 for the others.

    Entries equal to the k-th smallest share the places that are left, so that no order
    of the row is preferred: the weights of a row always sum to k.

    Args:
        values: Rows without NaN.
        k: From 1 to n.

    Raises:
        ValueError: If ``k`` is out of range.

    Examples:
        >>> import jax.numpy as jnp
        >>> smallest(jnp.array([[3.0, 2.0, 1.0, 2.0]]), 2)
        Array([[0. , 0.5, 1. , 0.5]], dtype=float32)
    """
    return share_of(values, kth_smallest(values, k), k)


def kth_smallest(values: Float[Array, "m n"], k: int) -> Float[Array, " m"]:
    """The k-th smallest entry of every row, in the way that suits the device.

    Raises:
        ValueError: If ``k`` is out of range.
    """
    if not 1 <= k <= values.shape[1]:
        raise ValueError(f"k must be between 1 and {values.shape[1]}; got {k}")
    kth_on_cpu = kth_by_minima if k <= _MAX_MINIMA else kth_by_heap
    return jax.lax.platform_dependent(
        values,
        cpu=lambda v: kth_on_cpu(v, k),
        default=lambda v: kth_by_sort(v, k),
    )


def mean_of_smallest(values: Float[Array, "m n"], k: int) -> Float[Array, " m"]:
    """Mean of the k smallest finite entries of every row.

    Of all finite ones where they are fewer, and infinite where there are none.

    Args:
        values: Rows without NaN and minus infinity.
        k: From 1 to n.

    Examples:
        >>> import jax.numpy as jnp
        >>> rows = jnp.array([[3.0, 1.0, 5.0], [jnp.inf, jnp.inf, 4.0]])
        >>> mean_of_smallest(rows, 2).tolist()
        [2.0, 4.0]
    """
    kth = kth_smallest(values, k)
    is_closer = values < kth[:, None]
    num_closer = is_closer.sum(1, dtype=values.dtype)
    total = jnp.where(is_closer, values, 0.0).sum(1)
    is_full = jnp.isfinite(kth)
    total += jnp.where(is_full, (k - num_closer) * jnp.where(is_full, kth, 0.0), 0.0)
    count = jnp.where(is_full, k, num_closer)
    return jnp.where(count > 0, total / jnp.maximum(count, 1), jnp.inf)


def share_of(
    values: Float[Array, "m n"], kth: Float[Array, " m"], k: int
) -> Float[Array, "m n"]:
    """Weights from the k-th smallest value of each row."""
    is_closer, is_tied = values < kth[:, None], values == kth[:, None]
    num_closer = is_closer.sum(1, keepdims=True, dtype=values.dtype)
    num_tied = is_tied.sum(1, keepdims=True, dtype=values.dtype)
    share = (k - num_closer) / jnp.maximum(num_tied, 1)
    return jnp.where(is_closer, 1.0, jnp.where(is_tied, share, 0.0))


def kth_by_sort(values: Float[Array, "m n"], k: int) -> Float[Array, " m"]:
    """The k-th smallest entry of every row, by sorting it."""
    return jnp.sort(values, axis=1)[:, k - 1]


def kth_by_heap(values: Float[Array, "m n"], k: int) -> Float[Array, " m"]:
    """The k-th smallest entry of every row, by XLA's top-k."""
    # The minimum of the top k: after a slice of it, XLA would sort whole rows.
    return -jax.lax.top_k(-values, k)[0].min(1)


def kth_by_minima(values: Float[Array, "m n"], k: int) -> Float[Array, " m"]:
    """The k-th smallest entry: climb k distinct values, then down past repeats."""
    num_rows, length = values.shape
    padding = ((0, 0), (0, -length % _LANES))
    # Minima over the middle axis run along contiguous lanes, in one fused loop.
    lanes = jnp.pad(values, padding, constant_values=jnp.inf)
    lanes = lanes.reshape(num_rows, _LANES, -1)

    def next_larger(_, t):
        larger = jnp.where(lanes > t[:, None, None], lanes, jnp.inf)
        return jax.lax.reduce(larger, lanes.dtype.type(jnp.inf), _smaller, (1,)).min(1)

    def is_too_large(t):
        return (values < t[:, None]).sum(1) >= k

    def next_smaller(t):
        smaller = jnp.where(values < t[:, None], values, -jnp.inf).max(1)
        return jnp.where(is_too_large(t), smaller, t)

    lowest = jnp.full((num_rows,), -jnp.inf, values.dtype)
    kth_distinct = jax.lax.fori_loop(0, k, next_larger, lowest)
    return jax.lax.while_loop(
        lambda t: is_too_large(t).any(), next_smaller, kth_distinct
    )


def _smaller(a, b):
    # Not `minimum`: XLA's CPU backend would move that reduction into a library call,
    # which costs twice the time for the memory it no longer fuses.
    return jax.lax.select(a < b, a, b)
