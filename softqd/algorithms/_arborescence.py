"""Gradient arborescence: the machine behind CMA-MEGA and CMA-MAEGA.

Fontaine and Nikolaidis 2021, "Differentiable Quality Diversity", Algorithm 1. Every
emitter holds a point in solution space and a CMA-ES over gradient coefficients. It
evaluates the point with the gradients of quality and behaviors, branches from it along
random combinations of them, and lets the archive's answers move both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int, PyTree

from softqd.algorithms import _cells
from softqd.algorithms._cells import CellInfo
from softqd.algorithms._start import evaluate_first, first_solutions
from softqd.ops import emitters, evaluation
from softqd.ops.archive import CellArchive, Insertion, sample_elites
from softqd.ops.bounds import reflected
from softqd.ops.checks import check_count, is_concrete
from softqd.ops.cma_es import (
    CmaState,
    has_stopped,
    init_cma,
    recombination_weights,
    sample_cma,
    update_cma,
)
from softqd.types import Algorithm, Key, Population, Problem


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


class Rules(NamedTuple):
    """What distinguishes the methods."""

    ranker: str
    selection: str
    restart: str | int
    learning_rate: float = 1.0
    threshold_floor: float | None = None
    signed_quality: bool = False
    pyribs_quirks: bool = False

    @property
    def thresholds(self) -> dict[str, Any]:
        """Arguments of an insertion into the archive that guides the emitters."""
        rate, floor = self.learning_rate, self.threshold_floor
        return {"learning_rate": rate, "threshold_floor": floor}


def arborescence(
    name: str,
    problem: Problem,
    settings: dict[str, Any],
    rules: Rules,
    *,
    cells: int,
    centroids: Any,
    shared_cells: bool,
    num_emitters: int,
    batch_size: int,
    sigma0: float,
    optimizer: optax.GradientTransformation,
) -> Algorithm:
    """Build the three functions of CMA-MEGA or CMA-MAEGA."""
    check_count("num_emitters", num_emitters, 1)
    check_count("batch_size", batch_size, 2)
    emitters.check_rules(rules.ranker, rules.selection, rules.restart)
    if is_concrete(sigma0) and not sigma0 > 0:
        raise ValueError(f"sigma0 must be positive; got {sigma0!r}")
    centroids = _cells.cells_of(problem, cells, centroids, shared_cells)
    num_children = batch_size - 1  # one of the batch is the point itself

    def start(point: Float[Array, " p"], dim: int) -> Branching:
        cma = init_cma(jnp.zeros((1 + dim,), point.dtype), sigma0)
        return Branching(point, optimizer.init(point), cma, jnp.int32(0))

    def init(
        problem: Problem, centroids: Any, key: Key, solutions: PyTree | None = None
    ) -> ArborescenceState:
        key, *keys = jax.random.split(key, 5)
        first, spent = first_solutions(
            problem, keys[0], solutions, num_emitters, any_number=True
        )
        archive = _cells.empty_cells(problem, centroids, cells, keys[1], first)
        result = None if rules.threshold_floor is None else archive
        if solutions is not None:
            found, count = evaluate_first(problem, first, keys[2], batch_size)
            spent += count
            archive, result, _ = both(problem, archive, result, first, found)
            first = sample_elites(result or archive, keys[3], num_emitters)
        dim = archive.centroids.shape[1]
        branches = jax.vmap(lambda x: start(x, dim))(emitters.flatten(first))
        counts = (jnp.int32(0), jnp.int32(spent), jnp.int32(0))
        return ArborescenceState(key, *counts, branches, archive, result)

    def both(problem, archive, result, solutions, found):
        """Insert into the archive that guides and the one that remembers."""
        archive, insertion = _cells.add(
            problem, archive, solutions, found, **rules.thresholds
        )
        if result is not None:
            result, _ = _cells.add(problem, result, solutions, found)
        return archive, result, insertion

    def adapt(
        branch: Branching,
        coefficients: Float[Array, "b r"],
        children: Float[Array, "b p"],
        insertion: Insertion,
    ) -> tuple[Branching, Array]:
        """Learn from one emitter's children; also whether to start anew."""
        order, values = emitters.rank(insertion, rules.ranker)
        mu = emitters.num_parents(insertion, rules.selection)
        quirks = rules.pyribs_quirks
        cma = update_cma(branch.cma, coefficients, order, mu, pyribs_quirks=quirks)
        weights = recombination_weights(mu, num_children)
        mean = jnp.matmul(weights, children[order], precision="highest")
        # Optax descends: it is handed the negative of the way to the parents' mean.
        updates, moments = optimizer.update(
            branch.point - mean, branch.optimizer, branch.point
        )
        moved = (optax.apply_updates(branch.point, updates), moments)
        # Without a parent there is nowhere to go.
        still = (branch.point, branch.optimizer)
        moved, moments = jax.tree.map(
            lambda a, b: jnp.where(mu > 0, a, b), moved, still
        )
        iteration = branch.iteration + 1
        is_over = has_stopped(cma, values)
        is_over |= emitters.wants_restart(insertion, iteration, rules.restart)
        is_over |= ~jnp.isfinite(moved).all()
        return Branching(moved, moments, cma, iteration), is_over

    def step(
        problem: Problem, state: ArborescenceState
    ) -> tuple[ArborescenceState, CellInfo]:
        key, *keys = jax.random.split(state.key, 5)
        archive, result, branches = state.archive, state.result, state.emitters
        template = jax.tree.map(lambda x: x[0], archive.solutions)
        unflatten = emitters.flattener(template)

        points = reflected(problem, unflatten(branches.point))
        at_points, jacobian = emitters.evaluate_with_jacobian(problem, points, keys[0])
        archive, result, _ = both(problem, archive, result, points, at_points)

        sample_keys = jax.random.split(keys[1], num_emitters)
        coefficients = jax.vmap(sample_cma, (0, 0, None))(
            branches.cma, sample_keys, num_children
        )
        steps = coefficients
        if not rules.signed_quality:
            steps = steps.at[..., 0].set(jnp.abs(steps[..., 0]))
        rows = emitters.normalize_rows(jacobian)
        flat = jnp.einsum("ebr,erp->ebp", steps, rows, precision="highest")
        flat = branches.point[:, None] + flat
        children = unflatten(flat.reshape(-1, flat.shape[-1]))
        children = reflected(problem, children)
        found = evaluation.evaluate(problem, children, keys[2])
        archive, result, insertion = both(problem, archive, result, children, found)

        per_emitter = jax.tree.map(lambda x: x.reshape(num_emitters, -1), insertion)
        adapted, is_over = jax.vmap(adapt)(branches, coefficients, flat, per_emitter)
        elites = emitters.flatten(sample_elites(archive, keys[3], num_emitters))
        fresh = jax.vmap(lambda point: start(point, rows.shape[1] - 1))(elites)
        is_over &= archive.occupied.any()
        branches = emitters.select(is_over, fresh, adapted)

        restarts = state.restarts + is_over.sum()
        info = CellInfo(
            evaluations=jnp.int32(num_emitters * batch_size),
            gradient_evaluations=jnp.int32(num_emitters),
            vector_jacobian_products=jnp.int32(num_emitters * rows.shape[1]),
            is_finite=jnp.ones((1,), bool),
            elites=(archive if result is None else result).occupied.sum(),
            rejected=_cells.num_unsound(at_points) + _cells.num_unsound(found),
            restarts=restarts,
        )
        counts = (state.iteration + 1, state.init_evaluations, restarts)
        return ArborescenceState(key, *counts, branches, archive, result), info

    def population(state: ArborescenceState) -> Population:
        archive = state.archive if state.result is None else state.result
        return _cells.elites(problem, archive)

    return Algorithm(
        init=Partial(init, problem, centroids),
        step=Partial(step, problem),
        population=population,
        problem=problem,
        name=name,
        settings=settings,
    )
