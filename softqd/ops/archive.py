"""A fixed number of cells, each with the best solution found there so far.

The container of MAP-Elites (Mouret and Clune 2015) over any centroids, and with a floor
the soft archive of CMA-MAE (Fontaine and Nikolaidis 2023), whose thresholds follow
pyribs' batch rule. A pytree of arrays, for use inside `jit`, `vmap` and loops: an
insertion writes the rows of the cells that change, nothing else.

Where pyribs refuses candidates that are not finite, they are passed over here. Cells
are found in the archive's own precision, and a behavior as near to two centroids goes
to the first; pyribs' GridArchive gives it, and all within 1e-6 of a cell's width below
the border, to the upper cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from softqd.ops.checks import check_count, is_concrete
from softqd.ops.cvt import nearest_centroid
from softqd.ops.distances import map_rows
from softqd.types import Key, Population


class CellArchive(NamedTuple):
    """Cells and their elites.

    Attributes:
        centroids: A behavior belongs to the cell of the nearest one.
        solutions: Elites, a pytree whose leaves have one row per cell.
        quality: Their quality.
        behavior: Their behavior.
        occupied: Which cells hold an elite; in others, all else is zero.
        threshold: The quality that a newcomer must exceed.
    """

    centroids: Float[Array, "m d"]
    solutions: PyTree
    quality: Float[Array, " m"]
    behavior: Float[Array, "m d"]
    occupied: Bool[Array, " m"]
    threshold: Float[Array, " m"]


class Insertion(NamedTuple):
    """What a batch meant to the archive as it was before, for each candidate.

    Candidates are not compared with each other: all that exceed the threshold of their
    cell are counted as accepted, though only the best of them stays.

    Attributes:
        status: 0 not accepted, 1 improves its cell, 2 finds a new cell.
        value: Quality minus threshold; in a new cell minus the floor, or the quality
            itself where there is none. Minus infinity for a candidate whose quality or
            behavior is not finite.
    """

    status: Int[Array, " b"]
    value: Float[Array, " b"]


def empty_archive(
    centroids: Float[Array | np.ndarray, "m d"],
    solution: PyTree,
    dtype: Any = jnp.float32,
) -> CellArchive:
    """An archive without elites.

    Args:
        centroids: Of the cells, as `grid_centroids` or `metrics.cvt_centroids` make.
        solution: One solution, or its shapes and dtypes; its values do not matter.
        dtype: Of everything but the solutions.

    Raises:
        ValueError: If there are no centroids.

    Examples:
        >>> import jax.numpy as jnp
        >>> archive = empty_archive(grid_centroids([10, 10]), jnp.zeros(3))
        >>> archive.solutions.shape, int(archive.occupied.sum())
        ((100, 3), 0)
    """
    m, dim = centroids.shape
    check_count("the number of centroids", m, 1)
    return CellArchive(
        centroids=jnp.asarray(centroids, dtype),
        solutions=jax.tree.map(lambda x: jnp.zeros((m, *x.shape), x.dtype), solution),
        quality=jnp.zeros(m, dtype),
        behavior=jnp.zeros((m, dim), dtype),
        occupied=jnp.zeros(m, bool),
        threshold=jnp.zeros(m, dtype),
    )


def insert(
    archive: CellArchive,
    solutions: PyTree,
    quality: Float[Array, " b"],
    behavior: Float[Array, "b d"],
    *,
    learning_rate: float | int | Array = 1.0,
    threshold_floor: float | int | Array | None = None,
) -> tuple[CellArchive, Insertion]:
    """Offer a batch of candidates to the archive.

    A candidate is accepted if its quality exceeds the threshold of its cell. The best
    accepted candidate of a cell, the first of equals, becomes its elite. Without a
    floor any candidate is accepted in an empty cell, and an elite's quality is the
    threshold. With one, empty cells have the floor f as their threshold t, and if k
    candidates of mean quality q are accepted, with learning rate a,

        t <- (1 - a)^k t + (1 - (1 - a)^k) q,

    so that an elite may give way to a worse one.

    Candidates of non-finite quality or behavior are never accepted. Behaviors outside
    the unit cube go to the nearest centroid too, on a grid as if they were clipped.

    Args:
        archive: The archive.
        solutions: Candidates, a pytree whose leaves have b rows.
        quality: Their quality.
        behavior: Their behavior, in the space of the centroids.
        learning_rate: From 0, thresholds that stay at the floor, to 1. Without a floor
            it must be 1.
        threshold_floor: The least quality that counts, finite; None for a plain
            archive.

    Returns:
        The new archive, and for each candidate what it meant to the old one.

    Raises:
        ValueError: If the learning rate or the floor is out of range, or solutions do
            not have the shapes of the archive's.

    Examples:
        >>> import jax.numpy as jnp
        >>> archive = empty_archive(grid_centroids([2]), jnp.zeros(1))
        >>> quality, behavior = jnp.array([1.0, 3.0]), jnp.array([[0.1], [0.2]])
        >>> archive, _ = insert(archive, jnp.ones((2, 1)), quality, behavior)
        >>> archive.quality.tolist(), archive.occupied.tolist()
        ([3.0, 0.0], [True, False])
        >>> archive, info = insert(archive, jnp.ones((2, 1)), quality, behavior + 0.4)
        >>> info.status.tolist(), info.value.tolist()
        ([0, 2], [-2.0, 3.0])
    """
    _check_thresholds(learning_rate, threshold_floor)
    dtype = archive.quality.dtype
    quality, behavior = quality.astype(dtype), behavior.astype(dtype)
    is_finite = jnp.isfinite(quality) & jnp.isfinite(behavior).all(1)
    behavior = jnp.where(is_finite[:, None], behavior, 0.0)  # there is some cell
    cell, _ = nearest_centroid(behavior, archive.centroids)

    is_new = ~archive.occupied[cell]
    base = 0.0 if threshold_floor is None else threshold_floor
    threshold = jnp.where(is_new, base, archive.threshold[cell])
    is_above = quality > threshold
    if threshold_floor is None:
        is_above = is_above | is_new
    is_accepted = is_finite & is_above
    info = Insertion(
        status=jnp.where(is_accepted, jnp.where(is_new, 2, 1), 0),
        value=jnp.where(is_finite, quality - threshold, -jnp.inf),
    )

    is_best, count, mean = _compare(cell, quality, is_accepted)
    raised = quality
    if threshold_floor is not None:
        ratio = (1 - jnp.asarray(learning_rate, dtype)) ** count
        raised = ratio * threshold + (1 - ratio) * mean
    elites = (solutions, quality, behavior, is_best, raised)
    return _put(archive, jnp.where(is_best, cell, -1), elites), info


def _compare(
    cell: Int[Array, " b"], quality: Float[Array, " b"], is_accepted: Bool[Array, " b"]
) -> tuple[Bool[Array, " b"], Float[Array, " b"], Float[Array, " b"]]:
    """Each candidate among the accepted ones of its cell.

    Returns:
        Whether it is the first of the best, how many there are, and their mean quality.
    """
    place = jnp.arange(len(cell))

    def columns(some):
        # Down the columns: sums along rows would not be vectorized.
        own_place, own_cell, own_quality = (x[None, :] for x in some)
        is_rival = is_accepted[:, None] & (cell[:, None] == own_cell)
        is_first = (quality[:, None] == own_quality) & (place[:, None] < own_place)
        is_ahead = is_rival & ((quality[:, None] > own_quality) | is_first)
        count = is_rival.sum(0, dtype=quality.dtype)
        total = jnp.where(is_rival, quality[:, None], 0.0).sum(0)
        return is_ahead.any(0), count, total / jnp.maximum(count, 1)

    is_behind, count, mean = map_rows(columns, (place, cell, quality), len(cell))
    return is_accepted & ~is_behind, count, mean


def _put(archive: CellArchive, cell: Int[Array, " b"], elites: tuple) -> CellArchive:
    """Write elites into their cells, no two of them into one; into none for -1."""
    m, b = len(archive.quality), len(cell)
    # Those for no cell aim beyond the last, each elsewhere: such writes are dropped.
    target = jnp.where(cell < 0, m + jnp.arange(b, dtype=cell.dtype), cell)

    def put(old, new):
        if new.shape != (b, *old.shape[1:]):  # or else it would be repeated in silence
            raise ValueError(
                f"solutions have a leaf of shape {new.shape}, expected "
                f"{(b, *old.shape[1:])}: one row per quality, like those of the archive"
            )
        new = new.astype(old.dtype)
        return old.at[target].set(new, mode="drop", unique_indices=True)

    return CellArchive(archive.centroids, *jax.tree.map(put, archive[1:], elites))


def sample_elites(archive: CellArchive, key: Key, num_samples: int) -> PyTree:
    """Draw elites uniformly, with replacement.

    An empty archive gives zeros, what its cells hold: where that may happen, ask
    ``archive.occupied.any()`` first and fall back on the solution of the start.

    Returns:
        Solutions, a pytree whose leaves have ``num_samples`` rows.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> archive = empty_archive(grid_centroids([2]), jnp.zeros(()))
        >>> two, behavior = jnp.array([5.0, 7.0]), jnp.array([[0.2], [0.9]])
        >>> archive, _ = insert(archive, two, jnp.array([1.0, jnp.nan]), behavior)
        >>> sample_elites(archive, jax.random.key(0), 3).tolist()
        [5.0, 5.0, 5.0]
    """
    number = jnp.cumsum(archive.occupied, dtype=jnp.int32)
    drawn = jax.random.randint(key, (num_samples,), 0, jnp.maximum(number[-1], 1))
    # The first cell at which more are counted than were drawn; the last if none is.
    cell = jnp.searchsorted(number, drawn, side="right")
    return jax.tree.map(lambda x: x.at[cell].get(mode="clip"), archive.solutions)


def grid_centroids(shape: Sequence[int]) -> Float[np.ndarray, "m d"]:
    """Centers of the cells of a regular grid over the unit cube.

    The last dimension varies fastest, as in pyribs' GridArchive.

    Args:
        shape: Number of cells in each dimension.

    Raises:
        ValueError: If there is no dimension, or one without cells.

    Examples:
        >>> grid_centroids([2, 1]).tolist()
        [[0.25, 0.5], [0.75, 0.5]]
    """
    check_count("the number of dimensions in shape", len(shape), 1)
    for count in shape:
        check_count("every count in shape", count, 1)
    centers = [(np.arange(count) + 0.5) / count for count in shape]
    grid = np.meshgrid(*centers, indexing="ij")
    return np.stack([axis.ravel() for axis in grid], axis=1)


def archive_population(archive: CellArchive) -> Population:
    """The elites as a population, one row per cell.

    Examples:
        >>> import jax.numpy as jnp
        >>> archive = empty_archive(grid_centroids([4]), jnp.zeros(2))
        >>> archive_population(archive).occupied.tolist()
        [False, False, False, False]
    """
    _, solutions, quality, behavior, occupied, _ = archive
    return Population(solutions, quality, behavior, occupied)


def _check_thresholds(learning_rate: Any, threshold_floor: Any) -> None:
    """Refuse what is out of range, where values can be looked at."""
    if is_concrete(learning_rate) and not 0 <= learning_rate <= 1:
        raise ValueError(f"learning_rate must be between 0 and 1; got {learning_rate}")
    if threshold_floor is None:
        if not is_concrete(learning_rate) or learning_rate != 1:
            raise ValueError(
                "learning_rate does nothing without a threshold_floor; give one, or "
                f"leave it at 1.0; got {learning_rate}"
            )
    elif is_concrete(threshold_floor) and not np.isfinite(threshold_floor):
        raise ValueError(
            "threshold_floor must be finite, or None for a plain archive; got "
            f"{threshold_floor}"
        )
