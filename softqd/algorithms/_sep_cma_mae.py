"""Sep-CMA-MAE: CMA-MAE with a diagonal covariance, for many dimensions.

Fontaine and Nikolaidis 2023, "Covariance Matrix Adaptation MAP-Annealing"; the
separable variant by Tjanaka et al. 2023, "Training Diverse High-Dimensional Controllers
by Scaling Covariance Matrix Adaptation MAP-Annealing". No gradients are taken.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int, PyTree

from softqd.algorithms import _cells
from softqd.algorithms._cells import CELLS, CellInfo
from softqd.algorithms._start import evaluate_first, first_solutions
from softqd.ops import emitters, evaluation
from softqd.ops.archive import CellArchive, Insertion, sample_elites
from softqd.ops.bounds import reflected
from softqd.ops.checks import check_count, is_concrete
from softqd.ops.cma_es import CmaState, has_stopped, init_cma, sample_cma, update_cma
from softqd.types import Algorithm, Key, Population, Problem


class SepCmaMaeState(NamedTuple):
    """What the next iteration needs; emitters have a leading axis."""

    key: Key
    iteration: Int[Array, ""]
    init_evaluations: Int[Array, ""]
    restarts: Int[Array, ""]
    cma: CmaState
    emitter_iteration: Int[Array, " e"]
    archive: CellArchive  # with soft thresholds, guides the emitters
    result: CellArchive  # remembers the best


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
    settings = {k: v for k, v in locals().items() if k not in ("problem", "centroids")}
    check_count("num_emitters", num_emitters, 1)
    check_count("batch_size", batch_size, 2)
    emitters.check_rules(ranker, selection, restart)
    if is_concrete(sigma0) and not sigma0 > 0:
        raise ValueError(f"sigma0 must be positive; got {sigma0!r}")
    centers = _cells.cells_of(problem, cells, centroids, shared_cells)
    soft = {"learning_rate": learning_rate, "threshold_floor": threshold_floor}

    def start(mean: Float[Array, " p"]) -> CmaState:
        return init_cma(mean, sigma0, separable=True)

    def init(
        problem: Problem, centroids: Any, key: Key, solutions: PyTree | None = None
    ) -> SepCmaMaeState:
        key, *keys = jax.random.split(key, 5)
        first, spent = first_solutions(
            problem, keys[0], solutions, num_emitters, any_number=True
        )
        archive = result = _cells.empty_cells(problem, centroids, cells, keys[1], first)
        if solutions is not None:
            found, count = evaluate_first(problem, first, keys[2], batch_size)
            spent += count
            archive, _ = _cells.add(problem, archive, first, found, **soft)
            result, _ = _cells.add(problem, result, first, found)
            first = sample_elites(result, keys[3], num_emitters)
        return SepCmaMaeState(
            key=key,
            iteration=jnp.int32(0),
            init_evaluations=jnp.int32(spent),
            restarts=jnp.int32(0),
            cma=jax.vmap(start)(emitters.flatten(first)),
            emitter_iteration=jnp.zeros((num_emitters,), jnp.int32),
            archive=archive,
            result=result,
        )

    def adapt(
        cma: CmaState,
        samples: Float[Array, "b p"],
        insertion: Insertion,
        iteration: Int[Array, ""],
    ) -> tuple[CmaState, Array]:
        """Learn from one emitter's samples; also whether to start anew."""
        order, values = emitters.rank(insertion, ranker)
        mu = emitters.num_parents(insertion, selection)
        cma = update_cma(cma, samples, order, mu, pyribs_quirks=pyribs_quirks)
        is_over = has_stopped(cma, values)
        is_over |= emitters.wants_restart(insertion, iteration, restart)
        return cma, is_over | ~jnp.isfinite(cma.mean).all()

    def step(
        problem: Problem, state: SepCmaMaeState
    ) -> tuple[SepCmaMaeState, CellInfo]:
        key, *keys = jax.random.split(state.key, 4)
        template = jax.tree.map(lambda x: x[0], state.archive.solutions)
        unflatten = emitters.flattener(template)
        sample_keys = jax.random.split(keys[0], num_emitters)
        samples = jax.vmap(sample_cma, (0, 0, None))(state.cma, sample_keys, batch_size)
        children = unflatten(samples.reshape(-1, samples.shape[-1]))
        children = reflected(problem, children)
        found = evaluation.evaluate(problem, children, keys[1])
        archive, insertion = _cells.add(problem, state.archive, children, found, **soft)
        result, _ = _cells.add(problem, state.result, children, found)

        per_emitter = jax.tree.map(lambda x: x.reshape(num_emitters, -1), insertion)
        iteration = state.emitter_iteration + 1
        cma, is_over = jax.vmap(adapt)(state.cma, samples, per_emitter, iteration)
        is_over &= archive.occupied.any()
        elites = emitters.flatten(sample_elites(archive, keys[2], num_emitters))
        fresh = (jax.vmap(start)(elites), jnp.zeros_like(iteration))
        cma, iteration = emitters.select(is_over, fresh, (cma, iteration))

        restarts = state.restarts + is_over.sum()
        info = CellInfo(
            evaluations=jnp.int32(num_emitters * batch_size),
            gradient_evaluations=jnp.int32(0),
            vector_jacobian_products=jnp.int32(0),
            is_finite=jnp.ones((1,), bool),
            elites=result.occupied.sum(),
            rejected=_cells.num_unsound(found),
            restarts=restarts,
        )
        counts = (state.iteration + 1, state.init_evaluations, restarts)
        return SepCmaMaeState(key, *counts, cma, iteration, archive, result), info

    def population(state: SepCmaMaeState) -> Population:
        return _cells.elites(problem, state.result)

    return Algorithm(
        init=Partial(init, problem, centers),
        step=Partial(step, problem),
        population=population,
        problem=problem,
        name="sep_cma_mae",
        settings=settings,
    )
