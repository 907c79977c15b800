"""What all archive methods share: cells, and insertion in unit coordinates.

The archive lives in the unit cube of the declared bounds; the population it gives is
in the declared space.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
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
from softqd.ops.checks import check_count, rows_finite
from softqd.ops.cvt import NUM_SAMPLES, kmeans
from softqd.types import (
    Evaluation,
    Key,
    Population,
    Problem,
    known_behavior_dim,
)

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


def cell_info(
    archive: CellArchive,
    evaluated: Sequence[Evaluation],
    evaluations: int,
    gradient_evaluations: int = 0,
    vector_jacobian_products: int = 0,
    *,
    restarts: int | Array = 0,
) -> CellInfo:
    """Tell of an iteration that leaves this archive and evaluated these candidates."""
    return CellInfo(
        evaluations=jnp.int32(evaluations),
        gradient_evaluations=jnp.int32(gradient_evaluations),
        vector_jacobian_products=jnp.int32(vector_jacobian_products),
        is_finite=jnp.ones((1,), bool),  # an archive takes nothing else
        elites=archive.occupied.sum(),
        rejected=(~jnp.concatenate([rows_finite(x) for x in evaluated])).sum(),
        restarts=jnp.int32(restarts),
    )


def cells_of(
    problem: Problem, centroids: Any, settings: dict[str, Any]
) -> Float[np.ndarray, "m d"] | None:
    """Centroids in the unit cube: those given, or a CVT of the problem's dimension.

    None where every run draws its own, in `empty_cells`.

    Raises:
        ValueError: If the behavior space is not bounded or the centroids do not fit.
    """
    if problem.sample is None and not isinstance(problem.behavior_bounds, tuple):
        return None
    dim = known_behavior_dim(problem)
    _check_bounded(problem, dim)
    if centroids is None:
        check_count("cells", settings["cells"], 1, NUM_SAMPLES)
        shared = settings["shared_cells"]
        return cvt_centroids(settings["cells"], dim) if shared else None
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


def _scale(problem: Problem, like: Float[Array, "n d"]) -> tuple[Array, Array]:
    """Where the unit cube begins in the declared space, and how wide it is there."""
    low, high = (jnp.asarray(b, like.dtype) for b in problem.bounds(like.shape[1]))
    return low[None], (high - low)[None]


def elites(problem: Problem, archive: CellArchive) -> Population:
    """The archive as a population in the declared space."""
    low, width = _scale(problem, archive.behavior)
    behavior = low + archive.behavior * width
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
    low, width = _scale(problem, found.behavior)
    unit = (found.behavior - low) / width
    return insert(archive, solutions, found.quality, unit, **thresholds)
