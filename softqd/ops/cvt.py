"""Centroidal Voronoi tessellations: k-means on uniform samples of the unit cube.

Vassiliades et al. 2018. Distances to all centroids are one matrix product per chunk of
samples; a centroid that owns no sample stays where it is.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from softqd.ops.distances import map_rows

# Lloyd iterations end when the mean squared distance improves by less than this share.
TOLERANCE = 3e-4
MAX_ITERATIONS = 100
# Scores that stay in the cache between the product and the passes over it (4 MiB).
_MAX_ENTRIES = 2**20


def nearest_centroid(
    points: Float[Array, "n d"], centroids: Float[Array, "m d"]
) -> tuple[Int[Array, " n"], Float[Array, " n"]]:
    """Index of the nearest centroid, the first of equals, and its squared distance.

    The matrix product loses digits of tiny distances, which do not matter here.

    Examples:
        >>> import jax.numpy as jnp
        >>> points, centroids = jnp.array([[0.1], [0.9]]), jnp.array([[0.0], [1.0]])
        >>> nearest_centroid(points, centroids)[0].tolist()
        [0, 1]
    """
    # The largest x.c - |c|^2 / 2 is the nearest's: a product with one column more.
    half_norms = 0.5 * (centroids**2).sum(1, keepdims=True)
    extended = jnp.concatenate([centroids, -half_norms], axis=1).T
    # Indices as floats, exact up to 2^24: their minimum is vectorized, argmax is not.
    number = jnp.arange(len(centroids), dtype=points.dtype)

    def rows(x):
        ones = jnp.ones((len(x), 1), x.dtype)
        score = jnp.concatenate([x, ones], axis=1) @ extended
        high = score.max(1)
        index = jnp.where(score == high[:, None], number[None, :], jnp.inf).min(1)
        dist_sq = jnp.maximum((x**2).sum(1) - 2 * high, 0.0)
        return index.astype(jnp.int32), dist_sq

    with jax.default_matmul_precision("highest"):
        return map_rows(rows, points, len(centroids), _MAX_ENTRIES)


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
