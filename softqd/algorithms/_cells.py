"""What all archive methods share: cells, and insertion in unit coordinates.

The archive lives in the unit cube of the declared bounds; the population it gives is
in the declared space.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from softqd.ops import evaluation
from softqd.ops.archive import (
    CellArchive,
    Insertion,
    archive_population,
    empty_archive,
    insert,
)
from softqd.ops.checks import check_first_evaluation, check_solutions
from softqd.ops.cvt import cvt_centroids
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
    problem: Problem, cells: int, centroids: Any, seed: int = 0
) -> Float[np.ndarray, "m d"] | None:
    """Centroids in the unit cube: those given, or a CVT of the problem's dimension.

    None if the problem does not say its dimension; `first_archive` then says why.

    Raises:
        ValueError: If the behavior space is not bounded or the centroids do not fit.
    """
    if problem.sample is None and not isinstance(problem.behavior_bounds, tuple):
        return None
    dim = problem.behavior_dim
    low, high = problem.bounds(dim)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError(
            f"problem {problem.name!r} has no finite behavior_bounds, which an archive "
            "of cells needs; declare them, or use softqd.squad or softqd.dns"
        )
    if centroids is None:
        return cvt_centroids(cells, dim, seed)
    given = np.asarray(centroids, np.float32)
    if given.ndim != 2 or given.shape[1] != dim:
        raise ValueError(
            f"centroids must have shape (cells, {dim}), in the unit cube; got "
            f"{given.shape}"
        )
    return given


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
    return archive_population(archive)._replace(behavior=behavior)


def first_archive(
    problem: Problem,
    centroids: Any,
    key: Key,
    solutions: PyTree | None,
    num_solutions: int,
) -> tuple[PyTree, Evaluation, CellArchive, Int[Array, ""]]:
    """Sample or check first solutions, evaluate them, and build an empty archive.

    Returns:
        Solutions, their evaluation, the archive, and the evaluations spent.
    """
    sample_key, evaluate_key = jax.random.split(key)
    spent = 0
    if solutions is None:
        solutions = evaluation.sample(problem, sample_key, num_solutions)
        spent = num_solutions * problem.sample_evaluations
    first: Any = check_solutions(problem, solutions)
    if centroids is None:
        raise ValueError(
            f"problem {problem.name!r} does not say its behavior dimension; give it "
            "sample=, or behavior_bounds= with one value per dimension"
        )
    found = evaluation.evaluate(problem, first, evaluate_key, num_solutions)
    check_first_evaluation(problem, *found)
    template = jax.tree.map(lambda x: x[0], first)
    archive = empty_archive(jnp.asarray(centroids), template, found.quality.dtype)
    count = jax.tree.leaves(first)[0].shape[0]
    return first, found, archive, jnp.int32(count + spent)


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
