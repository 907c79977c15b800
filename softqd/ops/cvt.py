"""Centroidal Voronoi tessellations: k-means on uniform samples of the unit cube.

Vassiliades et al. 2018. Distances to all centroids are one matrix product per chunk of
samples; a centroid that owns no sample stays where it is.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from softqd.ops.distances import map_rows

# Lloyd iterations end when the mean squared distance improves by less than this share.
TOLERANCE = 3e-4
MAX_ITERATIONS = 100
# Points of the unit cube that a tessellation is made from.
NUM_SAMPLES = 100_000
# Scores that stay in the cache between the product and the pass over it (4 MiB).
_MAX_ENTRIES = 2**20
# Centroids whose best score is kept as one.
_GROUP_SIZE = 16


def nearest_centroid(
    points: Float[Array, "n d"], centroids: Float[Array, "m d"]
) -> tuple[Int[Array, " n"], Float[Array, " n"]]:
    """Index of the nearest centroid, the first of equals, and its squared distance.

    A matrix product leaves the few centroids that its rounding cannot tell apart;
    between them, sums of squared differences decide. These are in the precision of the
    points, so that another centroid can be nearer by a few units in the last place at
    most, however small the cells.

    Args:
        points: Finite, anywhere; far beyond the centroids the search takes longer.
        centroids: At least one.

    Examples:
        >>> import jax.numpy as jnp
        >>> points, centroids = jnp.array([[0.1], [0.9]]), jnp.array([[0.0], [1.0]])
        >>> nearest_centroid(points, centroids)[0].tolist()
        [0, 1]
    """
    m, dim = centroids.shape
    num_groups = -(-m // _GROUP_SIZE)
    # The last centroid fills the last places: it is itself the first of those equals.
    fill = ((0, num_groups * _GROUP_SIZE - m), (0, 0))
    padded = jnp.pad(centroids, fill, mode="edge")
    groups = padded.reshape(_GROUP_SIZE, num_groups, dim)
    # The largest x.c - |c|^2 / 2 is the nearest's: a product with one column more.
    middle = centroids.mean(0, keepdims=True)
    padded = padded - middle
    half_norms = 0.5 * (padded**2).sum(1, keepdims=True)
    extended = jnp.concatenate([padded, -half_norms], axis=1).T
    # Twice the worst rounding error of a score, over |x| |c| + |c|^2 / 2.
    rounding = 2 * (dim + 2) * jnp.finfo(points.dtype).eps
    reach = jnp.sqrt(2 * half_norms.max())

    def rows(x):
        offset, ones = x - middle, jnp.ones((len(x), 1), x.dtype)
        score = jnp.concatenate([offset, ones], axis=1) @ extended
        score = score.reshape(-1, _GROUP_SIZE, num_groups)
        best = jax.lax.reduce(score, score.dtype.type(-jnp.inf), _larger, (1,))
        norm = jnp.sqrt((offset**2).sum(1))
        low = best.max(1) - rounding * reach * (norm + 0.5 * reach)
        return _nearest_in_groups(x, groups, best >= low[:, None])

    with jax.default_matmul_precision("highest"):
        return map_rows(rows, points, num_groups * _GROUP_SIZE, _MAX_ENTRIES)


def _nearest_in_groups(
    points: Float[Array, "n d"],
    groups: Float[Array, "s g d"],
    is_candidate: Bool[Array, "n g"],
) -> tuple[Int[Array, " n"], Float[Array, " n"]]:
    """The nearest centroid of some groups, one group of each point at a time."""
    size, num_groups, _ = groups.shape
    number, place = jnp.arange(num_groups), jnp.arange(size)
    # With x = y + e, y in the centroids' box, |x - c|^2 = (y - c).(y - c + 2e) + |e|^2.
    # No term is negative, and the last one, large far outside, is the same for all.
    inside = jnp.clip(points, *(f(groups, (0, 1))[None] for f in (jnp.min, jnp.max)))
    beyond = points - inside

    def next_group(before):
        later = is_candidate & (number[None, :] > before[:, None])
        return jnp.where(later, number[None, :], num_groups).min(1)

    def look_into(carry):
        group, index, nearest = carry
        # Without a group left, a point looks into the last one, which does no harm.
        group = jnp.minimum(group, num_groups - 1)
        step = inside[None] - groups[:, group]
        excess = (step * (step + 2 * beyond[None])).sum(2)
        near = excess.min(0)
        first = jnp.where(excess == near[None], place[:, None], size).min(0)
        found = first * num_groups + group
        is_better = (near < nearest) | ((near == nearest) & (found < index))
        index = jnp.where(is_better, found, index)
        return next_group(group), index, jnp.where(is_better, near, nearest)

    n = len(points)
    start = (
        next_group(jnp.full((n,), -1)),
        jnp.full((n,), size * num_groups),
        jnp.full((n,), jnp.inf, points.dtype),
    )
    _, index, excess = jax.lax.while_loop(
        lambda carry: (carry[0] < num_groups).any(), look_into, start
    )
    return index.astype(jnp.int32), excess + (beyond**2).sum(1)


def _larger(a, b):
    # Not `maximum`, which XLA's CPU backend would move into a slower library call.
    return jax.lax.select(a > b, a, b)


@partial(jax.jit, static_argnums=1)
def kmeans(samples: Float[Array, "n d"], cells: int) -> Float[Array, "m d"]:
    """Lloyd's algorithm, started from the first samples."""

    def lloyd(carry):
        centroids, before, _, iteration = carry
        index, dist_sq = nearest_centroid(samples, centroids)
        counts = jnp.zeros(cells, samples.dtype).at[index].add(1.0)
        sums = jnp.zeros_like(centroids).at[index].add(samples)
        moved = sums / jnp.maximum(counts, 1.0)[:, None]
        centroids = jnp.where(counts[:, None] > 0, moved, centroids)
        mean = dist_sq.mean()
        return centroids, mean, (before - mean) / before, iteration + 1

    def is_improving(carry):
        _, _, gain, iteration = carry
        return (gain > TOLERANCE) & (iteration < MAX_ITERATIONS)

    far = jnp.asarray(samples.shape[1] * 1e3, samples.dtype)
    start = (samples[:cells], far, jnp.ones((), samples.dtype), 0)
    return jax.lax.while_loop(is_improving, lloyd, start)[0]
