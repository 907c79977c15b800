"""QD score and coverage over the cells of a centroidal Voronoi tessellation."""

from __future__ import annotations

import contextlib
import os
from importlib import resources
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from softqd.metrics._vendi import check_behavior
from softqd.ops.cache import cache_folder
from softqd.ops.checks import as_array, check_count
from softqd.ops.cvt import kmeans, nearest_centroid


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
) -> float:
    """Sum over occupied cells of their best raw quality, negative ones too.

    Examples:
        >>> import numpy as np
        >>> cells = np.array([[0.0], [1.0]])
        >>> qd_score(np.array([1.0, 3.0]), np.array([[0.1], [0.2]]), cells)
        3.0
    """
    best = best_of_cells(quality, behavior, centroids)
    return float(best[np.isfinite(best)].sum())


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


def cvt_centroids(
    cells: int, dim: int, seed: int = 0, *, num_samples: int = 100_000
) -> Float[np.ndarray, "m d"]:
    """Centroids of a tessellation of the unit cube, by k-means on uniform samples.

    Kept in the folder ``SOFTQD_CACHE`` names, by default ``~/.cache/softqd``, and read
    from there the next time.

    Args:
        cells: Number of centroids.
        dim: Number of behavior dimensions.
        seed: Of the samples.
        num_samples: Samples of the unit cube, at least as many as cells.

    Raises:
        ValueError: If a number is out of range.
    """
    check_count("dim", dim, 1)
    check_count("num_samples", num_samples, 1)
    check_count("cells", cells, 1, num_samples)
    name = f"cvt_cells{cells}_dim{dim}_seed{seed}_samples{num_samples}.npy"
    folder = cache_folder()
    cached = _read(folder / name, (cells, dim))
    if cached is not None:
        return cached
    samples = np.random.default_rng(seed).random((num_samples, dim), dtype=np.float32)
    centroids = np.asarray(kmeans(jnp.asarray(samples), cells))
    _keep(folder / name, centroids)
    return centroids


def _read(path: Path, shape: tuple[int, int]) -> np.ndarray | None:
    """A cached array, or None if there is none that can be used."""
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return array if array.shape == shape and np.isfinite(array).all() else None


def _keep(path: Path, array: np.ndarray) -> None:
    """Write a cache file whole or not at all; a folder that is not writable is fine."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            np.save(file, array)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
