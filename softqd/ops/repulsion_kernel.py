"""Repulsion from the nearest neighbors in one GPU kernel, a solution per block.

The plain twin is `softqd.objective.repulsion`, which says what is computed; XLA needs
several kernels for it. Here a row of distances never leaves the registers: it is summed
up coordinate by coordinate, the k-th smallest is found by bisecting bit patterns, and
the weighted differences are summed coordinate by coordinate again. Written in Pallas
and lowered through Triton; it also runs in Pallas' interpreter. JAX 0.11 announces that
this way of lowering will go: where it is gone, the plain twin takes over.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from softqd.ops.gpu import has_kernels
from softqd.ops.kernels import KERNEL_CUTOFF, pair_kernel

# A population of up to this size fits into the registers of one thread block.
MAX_POPULATION = 8192
_ENTRIES_PER_WARP = 128
_LAST_KEY = 0x7FFFFFFF


def fits_kernel(all_z: Float[Array, "n d"]) -> bool:
    """Whether the kernel can serve a population of this size and precision here."""
    return len(all_z) <= MAX_POPULATION and has_kernels(all_z.dtype)


def repulsion_kernel(
    z: Float[Array, "m d"],
    index: Int[Array, " m"],
    all_z: Float[Array, "n d"],
    all_root: Float[Array, " n"],
    gamma_sq: Float[Array, " m"],
    num_neighbors: int | None,
    interpret: bool = False,
) -> tuple[Float[Array, " m"], Float[Array, "m d"]]:
    """Overlap ``(m,)`` and push ``(m, d)`` of a batch, in float32.

    Arguments as those of `softqd.objective.repulsion`, with ``n <= MAX_POPULATION``.
    """
    from jax.experimental import pallas as pl  # half a second, on GPUs only
    from jax.experimental.pallas import triton as plgpu

    (num_rows, dim), n = z.shape, all_z.shape[0]
    width = pl.next_power_of_2(n)
    k = None if num_neighbors is None or num_neighbors >= n - 1 else num_neighbors

    def body(*refs):
        _repel_row(pl.program_id(0), *refs, n=n, k=k)

    return pl.pallas_call(
        body,
        grid=(num_rows,),
        out_shape=(
            jax.ShapeDtypeStruct((num_rows,), z.dtype),
            jax.ShapeDtypeStruct((num_rows, dim), z.dtype),
        ),
        compiler_params=plgpu.CompilerParams(
            num_warps=min(16, max(1, width // _ENTRIES_PER_WARP))
        ),
        interpret=interpret,
        name="repulsion",
    )(
        z,
        index,
        gamma_sq,
        jnp.pad(all_z.T, ((0, 0), (0, width - n))),  # coordinates are contiguous
        jnp.pad(all_root, (0, width - n)),
    )


def _repel_row(i, z, index, gamma_sq, all_z, all_root, overlap, push, *, n, k):
    """One solution against the whole population; arguments are references."""
    dim, width = all_z.shape
    column = jnp.arange(width)
    is_other = (column != index[i]) & (column < n)

    def add_square(c, total):
        return total + (z[i, c] - all_z[c, :]) ** 2

    dist_sq = jax.lax.fori_loop(0, dim, add_square, jnp.zeros((width,), jnp.float32))
    weight = pair_kernel(dist_sq, gamma_sq[i], KERNEL_CUTOFF) * all_root[:]
    weight = jnp.where(is_other, weight, 0.0)
    if k is not None:
        weight *= _smallest_weights(dist_sq, is_other, k)
    overlap[i] = weight.sum()

    def push_along(c, _):
        push[i, c] = (weight * (z[i, c] - all_z[c, :])).sum()

    jax.lax.fori_loop(0, dim, push_along, None)


def _smallest_weights(dist_sq, is_other, k):
    """1 for the k nearest others, a fair share for ties on the border, 0 beyond.

    The bit patterns of floats that are not negative are in the floats' order: bisect
    them for a threshold that k entries do not exceed, or more where there are ties.
    """
    keys = jax.lax.bitcast_convert_type(dist_sq, jnp.int32)
    keys = jnp.where(is_other, keys, _LAST_KEY)

    def is_open(bounds):
        low, high, count = bounds
        return (low < high) & (count != k)

    def halve(bounds):
        low, high, count = bounds
        middle = low + (high - low) // 2
        below = _count(keys <= middle)
        is_enough = below >= k
        return (
            jnp.where(is_enough, low, middle + 1),
            jnp.where(is_enough, middle, high),
            jnp.where(is_enough, below, count),
        )

    start = (keys.min(), jnp.int32(_LAST_KEY), jnp.int32(-1))
    _, last, _ = jax.lax.while_loop(is_open, halve, start)
    is_closer, is_tied = keys < last, keys == last
    num_tied = jnp.maximum(_count(is_tied), 1).astype(jnp.float32)
    share = (k - _count(is_closer)) / num_tied
    return jnp.where(is_closer, 1.0, jnp.where(is_tied, share, 0.0))


def _count(mask):
    return mask.astype(jnp.int32).sum()
