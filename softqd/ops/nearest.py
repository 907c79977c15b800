"""Mean distance of points to their nearest others, and its derivative.

The k-th smallest squared distance of a point is all that is needed: closer points count
in full, equally far ones share what is left. No distances are sorted and no neighbors
listed; for the derivative, each point gathers from those it is close to and those that
are close to it, so that nothing is scattered. On NVIDIA GPUs a kernel keeps the k
smallest distances of a point in order while all others pass by.
"""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from softqd.ops.distances import map_rows, mask_self
from softqd.ops.gpu import has_kernels
from softqd.ops.selection import kth_smallest

# Entries of the distance matrix handled at once; pictures come in batches. GPUs have
# the memory, and lose time on every piece.
_MAX_ENTRIES, _MAX_ENTRIES_GPU = 2**18, 2**21
# Squared distances this close, relatively, count as equal to the k-th.
_TIE = 1e-6
# Points a GPU program keeps, one per thread.
_ROWS, _WARPS = 32, 1


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def mean_nearest_distance(
    points: Float[Array, "n 2"], num_nearest: int, eps: float = 1e-6
) -> Float[Array, ""]:
    """Mean over points of the distance sqrt(d^2 + eps) to their nearest others.

    Where others are equally far, the derivative is shared among them.

    Args:
        points: Points of the plane, more than ``num_nearest``.
        num_nearest: How many others count for each point.
        eps: Added under the root, so that coinciding points have a derivative.

    Raises:
        ValueError: If there are not enough points.

    Examples:
        >>> import jax.numpy as jnp
        >>> square = jnp.array([[0.0, 0.0], [3.0, 0.0], [3.0, 3.0], [0.0, 3.0]])
        >>> round(float(mean_nearest_distance(square, 2)), 4)
        3.0
    """
    return _fwd(points, num_nearest, eps)[0]


def _fwd(points, num_nearest, eps):
    n = points.shape[0]
    if not 1 <= num_nearest < n:
        raise ValueError(
            f"num_nearest must be between 1 and {n - 1}, the number of other points; "
            f"got {num_nearest}"
        )
    if has_kernels(points.dtype):
        smallest = squares_kernel(points, num_nearest)
        last, total = smallest[-1], jnp.sqrt(smallest + eps).sum(0)
    else:
        last, total = _plain_sums(points, num_nearest, eps)
    return total.sum() / (n * num_nearest), (points, last)


def _plain_sums(points, num_nearest, eps):
    """The k-th smallest squared distance, and the sum of the k smallest distances."""

    def rows(batch):
        dist_sq = _dist_sq(batch, points)
        last = kth_smallest(dist_sq, num_nearest)
        is_closer = dist_sq < last[:, None]
        near = jnp.where(is_closer, jnp.sqrt(dist_sq + eps), 0.0).sum(1)
        num_left = num_nearest - is_closer.sum(1)
        return last, near + num_left * jnp.sqrt(last + eps)

    return _map_points(rows, points)


def _bwd(num_nearest, eps, residuals, gradient):
    points, last = residuals
    low, high = last * (1 - _TIE), last * (1 + _TIE)

    def shares(batch):
        dist_sq = _dist_sq(batch, points)
        index = batch[0]
        num_closer = (dist_sq < low[index][:, None]).sum(1)
        num_tied = (dist_sq <= high[index][:, None]).sum(1) - num_closer
        return (num_nearest - num_closer) / jnp.maximum(num_tied, 1)

    share = _map_points(shares, points).astype(points.dtype)

    def slopes(batch):
        index, some = batch
        dist_sq = _dist_sq(batch, points)

        def weight(low, high, share):
            return jnp.where(dist_sq < low, 1.0, jnp.where(dist_sq <= high, share, 0.0))

        own = weight(low[index][:, None], high[index][:, None], share[index][:, None])
        pull = own + weight(low[None], high[None], share[None])
        pull = pull * jax.lax.rsqrt(dist_sq + eps)
        parts = [pull * (some[:, k, None] - points[None, :, k]) for k in (0, 1)]
        return jnp.stack(_sum_both(*parts), 1)

    scale = gradient / (points.shape[0] * num_nearest)
    return (scale * _map_points(slopes, points),)


mean_nearest_distance.defvjp(_fwd, _bwd)


def _dist_sq(batch, points):
    """Squared distances of some points to all, infinite to themselves."""
    index, some = batch
    x, y = (some[:, k, None] - points[None, :, k] for k in (0, 1))
    return mask_self(x * x + y * y, index)


def _sum_both(a, b):
    """Row sums of two matrices in one reduction, so that neither is written out."""
    zero = jnp.zeros((), a.dtype)
    add = lambda x, y: (x[0] + y[0], x[1] + y[1])  # noqa: E731
    return jax.lax.reduce((a, b), (zero, zero), add, (1,))


def _map_points(function, points):
    n = points.shape[0]
    max_entries = _MAX_ENTRIES_GPU if has_kernels(points.dtype) else _MAX_ENTRIES
    return map_rows(function, (jnp.arange(n), points), n, max_entries)


def squares_kernel(
    points: Float[Array, "n 2"], num_nearest: int, interpret: bool = False
) -> Float[Array, "k n"]:
    """The smallest squared distances to others, ascending, by a GPU kernel.

    Inserting v into t_1 <= ... <= t_k gives min(t_i, max(t_(i-1), v)).
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton as plgpu

    n = points.shape[0]
    num_tiles = -(-n // _ROWS)

    def body(points, out):
        place = pl.dslice(pl.program_id(0) * _ROWS, _ROWS)
        index = pl.program_id(0) * _ROWS + jnp.arange(_ROWS)
        x, y = points[0, place], points[1, place]

        def pass_by(j, smallest):
            dx, dy = x - points[0, j], y - points[1, j]
            dist_sq = jnp.where(index == j, jnp.inf, dx * dx + dy * dy)
            kept = [jnp.minimum(smallest[0], dist_sq)]
            for before, t in itertools.pairwise(smallest):
                kept.append(jnp.minimum(t, jnp.maximum(before, dist_sq)))
            return tuple(kept)

        start = (jnp.full((_ROWS,), jnp.inf, x.dtype),) * num_nearest
        for i, t in enumerate(jax.lax.fori_loop(0, n, pass_by, start)):
            out[i, place] = t

    padded = jnp.pad(points.T, ((0, 0), (0, num_tiles * _ROWS - n)))
    smallest = pl.pallas_call(
        body,
        grid=(num_tiles,),
        out_shape=jax.ShapeDtypeStruct((num_nearest, padded.shape[1]), points.dtype),
        interpret=interpret,
        name="nearest_squares",
        compiler_params=None if interpret else plgpu.CompilerParams(num_warps=_WARPS),
    )(padded)
    return smallest[:, :n]
