"""The exact k-th smallest entry of every row, the fast way on each device.

A sort or `lax.top_k` finds more than is needed. On the CPU, k vectorized minima are
quicker up to a few dozen; on NVIDIA GPUs one fused kernel bisects the bit patterns of a
row held in registers (64 rows of 1024: 3 to 5 us against 40 us for XLA's top-k).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# Up to this k, k vectorized minima beat a top-k on the CPU.
_MAX_MINIMA = 40
# A row is cut into this many lanes for its minima.
_LANES = 16
# A row of up to this length fits into the registers of one thread block.
_MAX_KERNEL_ROW = 8192


def kth_smallest(values: Float[Array, "m n"], k: int) -> Float[Array, " m"]:
    """The k-th smallest entry of every row, counting repeats, ``1 <= k <= n``.

    Raises:
        ValueError: If ``k`` is out of range.

    Example:
        >>> import jax.numpy as jnp
        >>> kth_smallest(jnp.array([[3.0, 1.0, 1.0, 2.0]]), 3)
        Array([2.], dtype=float32)
    """
    if not 1 <= k <= values.shape[1]:
        raise ValueError(f"k must be between 1 and {values.shape[1]}; got {k}")
    fits_kernel = values.dtype == jnp.float32 and values.shape[1] <= _MAX_KERNEL_ROW
    return jax.lax.platform_dependent(
        values,
        cpu=lambda v: kth_by_minima(v, k) if k <= _MAX_MINIMA else kth_by_sort(v, k),
        cuda=lambda v: kth_by_kernel(v, k) if fits_kernel else kth_by_sort(v, k),
        default=lambda v: kth_by_sort(v, k),
    )


def kth_by_sort(values: Float[Array, "m n"], k: int) -> Float[Array, " m"]:
    """`kth_smallest` through a sort (GPU) or a heap (CPU)."""
    # The minimum of the top k: a slice of it makes XLA sort the rows on the CPU.
    return jax.lax.platform_dependent(
        values,
        cpu=lambda v: -jax.lax.top_k(-v, k)[0].min(1),
        default=lambda v: jnp.sort(v, axis=1)[:, k - 1],
    )


def kth_by_minima(values: Float[Array, "m n"], k: int) -> Float[Array, " m"]:
    """`kth_smallest` by climbing k distinct values, then down again past repeats."""
    num_rows, length = values.shape
    padding = -length % _LANES
    # Minima over the middle axis run along contiguous lanes, in one fused loop.
    lanes = jnp.pad(values, ((0, 0), (0, padding)), constant_values=jnp.inf)
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


def kth_by_kernel(
    values: Float[Array, "m n"], k: int, interpret: bool = False
) -> Float[Array, " m"]:
    """`kth_smallest` in one GPU kernel per row (Pallas, lowered through Triton)."""
    from jax.experimental import pallas as pl  # half a second, on GPUs only
    from jax.experimental.pallas import triton as plgpu

    num_rows, length = values.shape
    width = pl.next_power_of_2(length)
    values = jnp.pad(values, ((0, 0), (0, width - length)), constant_values=jnp.inf)
    return pl.pallas_call(
        lambda row, out: _bisect_row(row, out, k),
        grid=(num_rows,),
        in_specs=[pl.BlockSpec((1, width), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((1,), lambda i: (i,)),
        out_shape=jax.ShapeDtypeStruct((num_rows,), values.dtype),
        compiler_params=plgpu.CompilerParams(num_warps=4 if width <= 2048 else 8),
        interpret=interpret,
        name="kth_smallest",
    )(values)


def _bisect_row(row_ref, out_ref, k: int) -> None:
    """Smallest bit pattern that at least k entries do not exceed."""
    keys = _ordered_bits(jax.lax.bitcast_convert_type(row_ref[0, :], jnp.int32))

    def halve(_, bounds):
        low, high = bounds
        middle = (low & high) + ((low ^ high) >> 1)  # floor of the mean, no overflow
        is_enough = (keys <= middle).astype(jnp.int32).sum() >= k
        return jnp.where(is_enough, low, middle + 1), jnp.where(
            is_enough, middle, high
        )

    _, kth = jax.lax.fori_loop(0, 32, halve, (keys.min(), keys.max()))
    out_ref[0] = jax.lax.bitcast_convert_type(_ordered_bits(kth), jnp.float32)


def _ordered_bits(bits):
    """Map the bits of a float to integers in the same order, and back again."""
    return jnp.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
