"""Gradient arborescence: the machine behind CMA-MEGA and CMA-MAEGA.

Fontaine and Nikolaidis 2021, "Differentiable Quality Diversity", Algorithm 1, whose
steps are quoted where they are taken: theta is an emitter's point, c are gradient
coefficients with a CMA-ES N(mu, Sigma) over them, f is quality and m are behaviors. The
paper has one emitter; here several share an archive.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from softqd.algorithms import _cma_emitters as cma_emitters
from softqd.algorithms._assembly import assemble
from softqd.algorithms._cells import CellInfo, cell_info, cells_of
from softqd.algorithms._cma_emitters import Archives, Search, offer, open_search
from softqd.ops import emitters
from softqd.ops.archive import CellArchive
from softqd.ops.cma_es import CmaState, init_cma
from softqd.ops.expressions import as_optimizer
from softqd.types import Algorithm, Key, Problem


class Branching(NamedTuple):
    """One emitter; in the state, leaves have a leading axis of emitters."""

    point: Float[Array, " p"]  # theta
    optimizer: PyTree
    cma: CmaState  # over coefficients, quality's first
    iteration: Int[Array, ""]


class ArborescenceState(NamedTuple):
    """What the next iteration needs."""

    key: Key
    iteration: Int[Array, ""]
    init_evaluations: Int[Array, ""]
    restarts: Int[Array, ""]
    emitters: Branching
    archive: CellArchive
    result: CellArchive | None  # without soft thresholds, where the archive has them


class Parts(NamedTuple):
    """What an arborescence is made of."""

    search: Search
    optimizer: optax.GradientTransformation
    signed_quality: bool


def arborescence(
    name: str, problem: Problem, centroids: Any, settings: dict[str, Any]
) -> Algorithm:
    """CMA-MEGA; CMA-MAEGA where the settings have soft thresholds."""
    search = cma_emitters.search_of(settings)
    optimizer = as_optimizer(settings["optimizer"])
    parts = Parts(search, optimizer, settings["signed_quality"])
    cells = cells_of(problem, centroids, settings)
    how = (_init, _step, cma_emitters.population)
    return assemble(name, problem, settings, parts, *how, arrays=(cells,))


def _start(parts: Parts, dim: int, point: Float[Array, " p"]) -> Branching:
    """Start from theta, with mu = 0 and Sigma = sigma_g I."""
    cma = init_cma(jnp.zeros((1 + dim,), point.dtype), parts.search.sigma0)
    return Branching(point, parts.optimizer.init(point), cma, jnp.int32(0))


def _init(
    parts: Parts, problem: Problem, cells: Any, key: Key, solutions: PyTree = None
) -> ArborescenceState:
    head, archives, points = open_search(parts.search, problem, cells, key, solutions)
    start = partial(_start, parts, archives.archive.centroids.shape[1])
    return ArborescenceState(*head, jax.vmap(start)(points), *archives)


def _step(
    parts: Parts, problem: Problem, state: ArborescenceState
) -> tuple[ArborescenceState, CellInfo]:
    """One pass of Algorithm 1's outer loop, for all emitters."""
    search, branches = parts.search, state.emitters
    key, *keys = jax.random.split(state.key, 5)
    archives = Archives(state.archive, state.result)
    # f, grad f, m, grad m <- evaluate(theta); update_archive(theta, f, m)
    points = cma_emitters.solutions_of(problem, state.archive, branches.point)
    at_points, gradients = emitters.evaluate_with_jacobian(problem, points, keys[0])
    archives, _ = cma_emitters.insert(search, problem, archives, points, at_points)
    # c ~ N(mu, Sigma), for all of the batch but the point itself;
    # theta'_i <- theta + |c_0| grad f + sum_j c_j grad m_j, gradients normalized
    c = emitters.sample_all(branches.cma, keys[1], search.batch_size - 1)
    children = emitters.branch(branches.point, c, gradients, parts.signed_quality)
    # f', m' <- evaluate(theta'_i); Delta_i <- update_archive(theta'_i, f', m')
    archives, deltas, found = offer(search, problem, archives, children, keys[2])
    # Rank grad_i by Delta_i; adapt mu, Sigma and p to the ranking;
    # theta <- theta + eta sum_i w_i grad_rank[i]
    iteration = branches.iteration + 1
    learn = jax.vmap(partial(emitters.learn, search.rules))
    lesson = learn(branches.cma, c, deltas, iteration)
    move = jax.vmap(partial(emitters.move, parts.optimizer))
    moved, moments = move(branches.point, branches.optimizer, children, lesson)
    adapted = Branching(moved, moments, lesson.cma, iteration)
    is_over = lesson.is_over | ~jnp.isfinite(moved).all(1)
    # Where the rule says so: restart CMA-ES, theta <- a random elite of the archive
    start = partial(_start, parts, gradients.shape[1] - 1)
    over = (is_over, archives.archive, keys[3])
    branches, num_restarts = emitters.renew(start, adapted, *over)

    n, spent = search.num_emitters, (at_points, found)
    counts = (n * search.batch_size, n, n * gradients.shape[1])
    restarts = state.restarts + num_restarts
    info = cell_info(archives.best, spent, *counts, restarts=restarts)
    counts = (state.iteration + 1, state.init_evaluations, restarts)
    return ArborescenceState(key, *counts, branches, *archives), info
