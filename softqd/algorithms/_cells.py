"""What all archive methods share: cells, and insertion in unit coordinates.

The archive lives in the unit cube of the declared bounds; the population it gives is
in the declared space.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from softqd.cache import cvt_centroids
from softqd.ops import evaluation
from softqd.ops.archive import (
    CellArchive,
    Insertion,
    archive_population,
    empty_archive,
    insert,
)
from softqd.ops.checks import check_count
from softqd.ops.cvt import NUM_SAMPLES, kmeans
from softqd.types import Evaluation, Key, Population, Problem

# Cells of the published baselines.
CELLS = 10_000


class CellInfo(NamedTuple):
    """What a person wants to see of one iteration of an archive method."""

    evaluations: Int[Array, ""]
    gradient_evaluations: Int[Array, ""]
    vector_jacobian_products: Int[Array, ""]
    is_finite: Bool[Array, " n"]
    elites: Int[Array, ""]  # occupied cells
    rejected: Int[Array, ""]  # candidates whose evaluation was not finite
    restarts: Int[Array, ""]  # of emitters, so far


def cells_of(
    problem: Problem, cells: int, centroids: Any, shared_cells: bool
) -> Float[np.ndarray, "m d"] | None:
    """Centroids in the unit cube: those given, or a CVT of the problem's dimension.

    None where every run draws its own, in `first_archive`.

    Raises:
        ValueError: If the behavior space is not bounded or the centroids do not fit.
    """
    if problem.sample is None and not isinstance(problem.behavior_bounds, tuple):
        return None
    dim = problem.behavior_dim
    _check_bounded(problem, dim)
    if centroids is None:
        check_count("cells", cells, 1, NUM_SAMPLES)
        return cvt_centroids(cells, dim) if shared_cells else None
    given = np.asarray(centroids, np.float32)
    if given.ndim != 2 or given.shape[1] != dim:
        raise ValueError(
            f"centroids must have shape (cells, {dim}), in the unit cube; got "
            f"{given.shape}"
        )
    return given


def _check_bounded(problem: Problem, dim: int) -> None:
    low, high = problem.bounds(dim)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError(
            f"problem {problem.name!r} has no finite behavior_bounds, which an archive "
            "of cells needs; declare them, or use softqd.squad or softqd.dns"
        )


def to_unit(problem: Problem, behavior: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """Declared behaviors in unit coordinates, not clipped."""
    low, high = (
        jnp.asarray(b, behavior.dtype) for b in problem.bounds(len(behavior[0]))
    )
    return (behavior - low[None]) / (high - low)[None]


def elites(problem: Problem, archive: CellArchive) -> Population:
    """The archive as a population in the declared space."""
    dim = archive.behavior.shape[1]
    low, high = (jnp.asarray(b, archive.behavior.dtype) for b in problem.bounds(dim))
    behavior = low[None] + archive.behavior * (high - low)[None]
    return dataclasses.replace(archive_population(archive), behavior=behavior)


def empty_cells(
    problem: Problem, centroids: Any, cells: int, key: Key, solutions: PyTree
) -> CellArchive:
    """An archive with no elite, for solutions like these.

    Its cells are those given; without ``centroids``, a tessellation drawn from the key.
    """
    found = jax.eval_shape(lambda x: evaluation.evaluate(problem, x, key), solutions)
    if centroids is None:
        dim = found.behavior.shape[1]
        _check_bounded(problem, dim)
        centroids = kmeans(jax.random.uniform(key, (NUM_SAMPLES, dim)), cells)
    template = jax.tree.map(lambda x: x[0], solutions)
    return empty_archive(jnp.asarray(centroids), template, found.quality.dtype)


def add(
    problem: Problem,
    archive: CellArchive,
    solutions: PyTree,
    found: Evaluation,
    **thresholds: Any,
) -> tuple[CellArchive, Insertion]:
    """Insert evaluated solutions."""
    unit = to_unit(problem, found.behavior)
    return insert(archive, solutions, found.quality, unit, **thresholds)


def num_unsound(found: Evaluation) -> Int[Array, ""]:
    """How many evaluations are not finite; the archive does not take them."""
    is_sound = jnp.isfinite(found.quality) & jnp.isfinite(found.behavior).all(1)
    return (~is_sound).sum()
