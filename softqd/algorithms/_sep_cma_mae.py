"""Sep-CMA-MAE: CMA-MAE with a diagonal covariance, for many dimensions.

Fontaine and Nikolaidis 2023, "Covariance Matrix Adaptation MAP-Annealing", whose steps
are quoted where they are taken (theta and Sigma are mean and covariance of an emitter,
t_e is a cell's threshold and alpha its learning rate); the separable variant by Tjanaka
et al. 2023, "Training Diverse High-Dimensional Controllers by Scaling Covariance Matrix
Adaptation MAP-Annealing". No gradients are taken.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from softqd.algorithms import _cma_emitters as cma_emitters
from softqd.algorithms._assembly import assemble, given
from softqd.algorithms._cells import CELLS, CellInfo, cell_info, cells_of
from softqd.algorithms._cma_emitters import Archives, Search, offer, open_search
from softqd.ops import emitters
from softqd.ops.archive import CellArchive
from softqd.ops.cma_es import CmaState, init_cma
from softqd.types import Algorithm, Key, Problem


class SepCmaMaeState(NamedTuple):
    """What the next iteration needs; emitters have a leading axis."""

    key: Key
    iteration: Int[Array, ""]
    init_evaluations: Int[Array, ""]
    restarts: Int[Array, ""]
    cma: CmaState
    emitter_iteration: Int[Array, " e"]
    archive: CellArchive  # with soft thresholds, guides the emitters
    result: CellArchive | None  # remembers the best


def sep_cma_mae(
    problem: Problem,
    *,
    cells: int = CELLS,
    centroids: Array | None = None,
    shared_cells: bool = True,
    num_emitters: int = 15,
    batch_size: int = 36,
    sigma0: float = 1.0,
    learning_rate: float = 0.01,
    threshold_floor: float = 0.0,
    ranker: str = "improvement",
    selection: str = "mu",
    restart: str | int = "basic",
    pyribs_quirks: bool = False,
) -> Algorithm:
    """Covariance matrix adaptation MAP-annealing with diagonal covariances.

    One iteration samples every emitter's Gaussian in solution space, inserts the
    samples, and moves mean, step size and diagonal towards those that exceed their
    cells' soft thresholds most.

    Args:
        problem: A problem with a bounded behavior space; no gradient is needed.
        cells: Number of cells.
        centroids: Centers of the cells in the unit cube, ``(cells, d)``; by default a
            centroidal Voronoi tessellation.
        shared_cells: Whether all runs share one such tessellation, which is kept on
            disk; else each draws its own.
        num_emitters: How many Gaussians search side by side.
        batch_size: Samples of an emitter in an iteration, at least 2.
        sigma0: First step size.
        learning_rate: How fast thresholds rise, from 0 (never) to 1 (at once).
        threshold_floor: Threshold of empty cells: the lowest quality worth keeping.
        ranker: 'improvement' or 'two_stage': what makes a sample good.
        selection: 'mu': parents are the better half; 'filter': those the archive took.
        restart: 'basic': only when the search has converged; 'no_improvement', or a
            number of iterations.
        pyribs_quirks: Use pyribs' form of the CMA-ES update.

    Returns:
        An `Algorithm`. ``init`` also takes solutions to start from, any number.

    Raises:
        ValueError: If a setting is out of range or the space is not bounded.

    Examples:
        >>> import softqd
        >>> problem = softqd.problems.sphere(solution_dim=8)
        >>> settings = {"cells": 16, "num_emitters": 2, "batch_size": 5}
        >>> algorithm = softqd.sep_cma_mae(problem, **settings)
        >>> result = softqd.run(algorithm, num_iterations=2, log_every=2)
        >>> result.history["evaluations"].tolist()
        [0, 20]
    """
    settings = given(locals())
    search = cma_emitters.search_of(settings)
    cells_at = cells_of(problem, centroids, settings)
    how = (_init, _step, cma_emitters.population)
    return assemble("sep_cma_mae", problem, settings, search, *how, arrays=(cells_at,))


def _start(search: Search, mean: Float[Array, " p"]) -> tuple[CmaState, Array]:
    """A round Gaussian, and the iterations of its emitter."""
    return init_cma(mean, search.sigma0, separable=True), jnp.int32(0)


def _init(
    search: Search, problem: Problem, cells: Any, key: Key, solutions: PyTree = None
) -> SepCmaMaeState:
    head, archives, means = open_search(search, problem, cells, key, solutions)
    cma, iteration = jax.vmap(partial(_start, search))(means)
    return SepCmaMaeState(*head, cma, iteration, *archives)


def _step(
    search: Search, problem: Problem, state: SepCmaMaeState
) -> tuple[SepCmaMaeState, CellInfo]:
    """One pass of CMA-MAE's outer loop, for all emitters."""
    key, *keys = jax.random.split(state.key, 4)
    archives = Archives(state.archive, state.result)
    # theta_i ~ N(theta, Sigma)
    samples = emitters.sample_all(state.cma, keys[0], search.batch_size)
    # f, m <- evaluate(theta_i); Delta_i <- f - t_e; t_e rises where f exceeds it
    archives, deltas, found = offer(search, problem, archives, samples, keys[1])
    # Rank theta_i by Delta_i; adapt theta, Sigma and p to the ranking
    iteration = state.emitter_iteration + 1
    learn = jax.vmap(partial(emitters.learn, search.rules))
    lesson = learn(state.cma, samples, deltas, iteration)
    is_over = lesson.is_over | ~jnp.isfinite(lesson.cma.mean).all(1)
    # Where the rule says so: restart CMA-ES, theta <- a random elite of the archive
    over = (is_over, archives.archive, keys[2])
    adapted = (lesson.cma, iteration)
    renewed, num_restarts = emitters.renew(partial(_start, search), adapted, *over)
    cma, iteration = renewed

    restarts = state.restarts + num_restarts
    spent = search.num_emitters * search.batch_size
    info = cell_info(archives.best, (found,), spent, restarts=restarts)
    counts = (state.iteration + 1, state.init_evaluations, restarts)
    return SepCmaMaeState(key, *counts, cma, iteration, *archives), info
