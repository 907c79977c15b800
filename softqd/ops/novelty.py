"""Dominated novelty: how far a solution is from those at least as good as itself.

Bahlous-Boldi, Faldor, Grillotti, Janmohamed, Coiffard, Spector and Cully 2025,
"Dominated Novelty Search: Rethinking Local Competition in Quality-Diversity".
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from softqd.ops.distances import map_rows, mask_self, squared_distances
from softqd.ops.selection import mean_of_smallest


def dominated_novelty(
    quality: Float[Array, " n"], behavior: Float[Array, "n d"], num_neighbors: int
) -> Float[Array, " n"]:
    """Mean distance to the nearest others that are at least as good.

    The mean goes over those there are if they are fewer than ``num_neighbors``; where
    no other is as good, it is infinite. Of two equally good solutions, each counts for
    the other.

    Args:
        quality: Qualities.
        behavior: Behaviors, in coordinates where distances mean something.
        num_neighbors: How many neighbors count.

    Examples:
        >>> import jax.numpy as jnp
        >>> line = jnp.array([[0.0], [1.0], [4.0]])
        >>> dominated_novelty(jnp.array([1.0, 2.0, 3.0]), line, 1).tolist()
        [1.0, 3.0, inf]
    """
    n = quality.shape[0]

    def rows(batch):
        index, f, b = batch
        dist_sq = mask_self(squared_distances(b, behavior), index)
        is_rival = quality[None, :] >= f[:, None]
        distance = jnp.sqrt(jnp.where(is_rival, dist_sq, jnp.inf))
        return mean_of_smallest(distance, min(num_neighbors, n))

    return map_rows(rows, (jnp.arange(n), quality, behavior), n)
