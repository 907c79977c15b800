"""QD score and coverage over the cells of a centroidal Voronoi tessellation."""

from __future__ import annotations

from importlib import resources

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from softqd.metrics._vendi import check_behavior
from softqd.ops.checks import as_array
from softqd.ops.cvt import nearest_centroid


def cell_of(
    behavior: Float[Array | np.ndarray, "n d"],
    centroids: Float[Array | np.ndarray, "m d"],
) -> Int[np.ndarray, " n"]:
    """Index of the nearest centroid, the first of equals.

    Raises:
        ValueError: If the dimensions differ.

    Examples:
        >>> import numpy as np
        >>> cell_of(np.array([[0.1], [0.9]]), np.array([[0.0], [1.0]])).tolist()
        [0, 1]
    """
    behavior = jnp.asarray(check_behavior(behavior))
    centroids = jnp.asarray(as_array(centroids), behavior.dtype)
    if behavior.shape[1] != centroids.shape[1]:
        raise ValueError(
            f"behavior has {behavior.shape[1]} dimensions, centroids have "
            f"{centroids.shape[1]}"
        )
    return np.asarray(_cells(behavior, centroids))


@jax.jit
def _cells(behavior, centroids):
    return nearest_centroid(behavior, centroids)[0]


def coverage(
    behavior: Float[Array | np.ndarray, "n d"],
    centroids: Float[Array | np.ndarray, "m d"],
) -> float:
    """Share of cells that hold at least one behavior, from 0 to 1."""
    centroids = as_array(centroids)
    return len(np.unique(cell_of(behavior, centroids))) / len(centroids)


def qd_score(
    quality: Float[Array | np.ndarray, " n"],
    behavior: Float[Array | np.ndarray, "n d"],
    centroids: Float[Array | np.ndarray, "m d"],
    level: float = 0.0,
) -> float:
    """Sum over occupied cells of their best quality, measured from a level.

    Cells whose best is below the level count as they are, negative.

    Examples:
        >>> import numpy as np
        >>> cells = np.array([[0.0], [1.0]])
        >>> qd_score(np.array([1.0, 3.0]), np.array([[0.1], [0.2]]), cells)
        3.0
    """
    best = best_of_cells(quality, behavior, centroids)
    return float((best[np.isfinite(best)] - level).sum())


def best_of_cells(
    quality: Float[Array | np.ndarray, " n"],
    behavior: Float[Array | np.ndarray, "n d"],
    centroids: Float[Array | np.ndarray, "m d"],
) -> Float[np.ndarray, " m"]:
    """The best raw quality in every cell, minus infinity in empty ones."""
    centroids, quality = as_array(centroids), np.asarray(as_array(quality), np.float64)
    best = np.full(len(centroids), -np.inf)
    np.maximum.at(best, cell_of(behavior, centroids), quality)
    return best


def published_centroids(dim: int, cells: int) -> Float[np.ndarray, "m d"] | None:
    """The centroids behind the paper's tables, or None for other sizes.

    Made with pyribs' CVTArchive from 100,000 uniform samples, seed 232323.
    """
    path = resources.files("softqd") / "data" / "evaluation_centroids.npz"
    with path.open("rb") as file, np.load(file) as arrays:
        name = f"d{dim}_cells{cells}"
        return arrays[name] if name in arrays.files else None
