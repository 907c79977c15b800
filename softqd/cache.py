"""What takes long to make or fetch, kept between runs: its folder, tessellations."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from softqd.ops.checks import check_count
from softqd.ops.cvt import NUM_SAMPLES, kmeans

# What takes longer is said, in seconds.
_LONG = 2.0


def cache_folder() -> Path:
    """The folder that ``SOFTQD_CACHE`` names, by default ``~/.cache/softqd``."""
    return Path(os.environ.get("SOFTQD_CACHE", Path.home() / ".cache" / "softqd"))


def cvt_centroids(
    cells: int, dim: int, seed: int = 0, *, num_samples: int = NUM_SAMPLES
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
    what = f"tessellating {cells:,} cells in {dim} dimensions; kept in {folder}"
    with _said_if_long(what):
        centroids = np.asarray(kmeans(jnp.asarray(samples), cells))
    _keep(folder / name, centroids)
    return centroids


@contextlib.contextmanager
def _said_if_long(what: str) -> Iterator[None]:
    """Write a line to standard error where something takes long."""
    timer = threading.Timer(_LONG, lambda: print(what, file=sys.stderr, flush=True))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


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
