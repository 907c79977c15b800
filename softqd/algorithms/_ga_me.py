"""GA-ME: MAP-Elites with iso+line and gradient children, as the Soft QD paper ran it.

After PGA-ME (Nilsson and Cully 2021), with exact gradients of quality in place of a
critic's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from softqd.algorithms import _cells
from softqd.algorithms._assembly import assemble, given, picked
from softqd.algorithms._cells import CELLS, CellInfo, cell_info
from softqd.ops import evaluation
from softqd.ops.archive import CellArchive, sample_elites
from softqd.ops.bounds import reflected
from softqd.ops.checks import check_count
from softqd.ops.start import evaluate_first, first_solutions
from softqd.ops.variation import gradient_step, iso_line
from softqd.types import Algorithm, Evaluation, Key, Population, Problem


class GaMeState(NamedTuple):
    """What the next iteration needs."""

    key: Key
    iteration: Int[Array, ""]
    init_evaluations: Int[Array, ""]
    archive: CellArchive


class Parts(NamedTuple):
    """Settings of `ga_me` that its iterations need."""

    cells: int
    batch_size: int
    start_size: int
    iso_sigma: float
    line_sigma: float
    step_size: float


def ga_me(
    problem: Problem,
    *,
    cells: int = CELLS,
    centroids: Array | None = None,
    shared_cells: bool = True,
    batch_size: int = 128,
    start_size: int = 256,
    iso_sigma: float = 0.5,
    line_sigma: float = 0.2,
    step_size: float = 0.1,
) -> Algorithm:
    """MAP-Elites whose children are half variations, half gradient steps.

    One iteration makes ``batch_size // 2`` children by iso+line variation of random
    elites and inserts them, then moves as many elites one plain step up the gradient of
    quality and inserts these.

    Args:
        problem: A problem with a bounded behavior space; `evaluate` must be
            differentiable.
        cells: Number of cells.
        centroids: Centers of the cells in the unit cube, ``(cells, d)``; by default a
            centroidal Voronoi tessellation.
        shared_cells: Whether all runs share one such tessellation, which is kept on
            disk; else each draws its own.
        batch_size: Children of an iteration, at least 2.
        start_size: Random solutions the archive starts from.
        iso_sigma: Scale of the noise in every direction.
        line_sigma: Scale of the noise along the line to a second elite.
        step_size: Length of a step in units of the gradient.

    Returns:
        An `Algorithm`. ``init`` also takes solutions to start from, any number.

    Raises:
        ValueError: If a setting is out of range or the space is not bounded.

    Examples:
        >>> import softqd
        >>> problem = softqd.problems.sphere(solution_dim=8)
        >>> algorithm = softqd.ga_me(problem, cells=16, batch_size=8, start_size=4)
        >>> result = softqd.run(algorithm, num_iterations=2, log_every=2)
        >>> result.history["evaluations"].tolist()
        [4, 28]
    """
    settings = given(locals())
    check_count("batch_size", batch_size, 2)
    check_count("start_size", start_size, 1)
    cells_at = _cells.cells_of(problem, centroids, settings)
    parts, how = picked(Parts, settings), (_init, _step, _population)
    return assemble("ga_me", problem, settings, parts, *how, arrays=(cells_at,))


def _init(
    parts: Parts, problem: Problem, cells: Any, key: Key, solutions: PyTree = None
) -> GaMeState:
    key, *keys = jax.random.split(key, 4)
    m = parts.batch_size
    first, drawn = first_solutions(
        problem, keys[0], solutions, parts.start_size, m, any_number=True
    )
    found, spent = evaluate_first(problem, first, keys[1], m)
    archive = _cells.empty_cells(problem, cells, parts.cells, keys[2], first)
    archive, _ = _cells.add(problem, archive, first, found)
    return GaMeState(key, jnp.int32(0), jnp.int32(drawn + spent), archive)


def _step(
    parts: Parts, problem: Problem, state: GaMeState
) -> tuple[GaMeState, CellInfo]:
    key, *keys = jax.random.split(state.key, 8)
    archive, half = state.archive, parts.batch_size // 2
    first, second = (sample_elites(archive, k, half) for k in keys[:2])
    varied = iso_line(first, second, keys[2], parts.iso_sigma, parts.line_sigma)
    archive, found = _offer(problem, archive, varied, keys[3])

    elders = sample_elites(archive, keys[4], half)
    moved = gradient_step(problem, elders, keys[5], parts.step_size)
    archive, climbed = _offer(problem, archive, moved, keys[6])

    counts = (3 * half, half, half)  # elders are evaluated too, with gradients
    info = cell_info(archive, (found, climbed), *counts)
    state = state._replace(key=key, iteration=state.iteration + 1, archive=archive)
    return state, info


def _offer(
    problem: Problem, archive: CellArchive, children: PyTree, key: Key
) -> tuple[CellArchive, Evaluation]:
    """Evaluate children and insert them."""
    children = reflected(problem, children)
    found = evaluation.evaluate(problem, children, key)
    return _cells.add(problem, archive, children, found)[0], found


def _population(problem: Problem, state: GaMeState) -> Population:
    return _cells.elites(problem, state.archive)
