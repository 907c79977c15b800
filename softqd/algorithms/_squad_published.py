"""SQUAD as the published runs did it (Algorithm 1 of the ICLR 2026 paper).

It differs from the letter of the paper in places (``docs/deviations.md``). Unlike in
the authors' program, the gradient is one vector-Jacobian product per batch instead of a
full Jacobian, and neighbors are found by a threshold instead of a sort.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree

from softqd.algorithms._assembly import assemble, everyone, given
from softqd.algorithms._bandwidth import mean_overlap
from softqd.objective import QUALITY_FLOOR, cotangents, repulsion, safe_sqrt
from softqd.ops import evaluation
from softqd.ops.bounds import reflected
from softqd.ops.checks import check_count, is_concrete, rows_finite
from softqd.ops.distances import mean_nearest_dist_sq
from softqd.ops.expressions import Optimizer, as_optimizer
from softqd.ops.precision import narrowed, widened
from softqd.ops.start import evaluate_first, first_solutions
from softqd.ops.transforms import (
    behavior_transform,
    transform_function,
)
from softqd.settings import spelled
from softqd.types import Algorithm, Key, Problem

# The two bandwidth rules of the authors' program: from behaviors to gamma_sq.
BANDWIDTH_RULES: dict[str, Callable] = {
    "nearest": mean_nearest_dist_sq,
    "inverse_nearest": lambda z: 1.0 / jnp.maximum(mean_nearest_dist_sq(z), 1e-12),
}


class Settings(NamedTuple):
    """As `squad_published` describes them."""

    population_size: int
    batch_size: int
    num_neighbors: int
    gamma_sq: Any
    optimizer: optax.GradientTransformation
    transform: str | Callable
    repulsion_weight: float | optax.Schedule
    protect_quality: bool


class SquadPublishedState(NamedTuple):
    """What the next iteration needs. Rows are solutions, in a fixed order."""

    key: Key
    iteration: Int[Array, ""]
    init_evaluations: Int[Array, ""]
    solutions: PyTree
    quality: Float[Array, " n"]
    behavior: Float[Array, "n d"]
    optimizer: PyTree  # one optimizer state per solution, step count included


class SquadPublishedInfo(NamedTuple):
    """What a person wants to see of one iteration."""

    evaluations: Int[Array, ""]
    gradient_evaluations: Int[Array, ""]
    vector_jacobian_products: Int[Array, ""]
    is_finite: Bool[Array, " n"]
    gamma_sq: Float[Array, ""]  # mean over solutions
    overlap: Float[Array, ""]  # of the population with its neighbors
    repulsion_weight: Float[Array, ""]


def squad_published(
    problem: Problem,
    *,
    gamma_sq: float | Array | optax.Schedule | str = 1.0,
    population_size: int = 1024,
    batch_size: int = 64,
    num_neighbors: int = 15,
    optimizer: Optimizer = spelled(optax.adam, 0.05),
    transform: str | Callable[[Array], Array] = "logit",
    repulsion_weight: float | optax.Schedule = 0.5,
    protect_quality: bool = False,
) -> Algorithm:
    r"""Climb the lower bound of the Soft QD Score as the published runs did.

    One iteration cuts a random permutation of the population into batches. Each batch
    is evaluated, takes one optimizer step up the gradient of

    $\sum_i f_i - w \sum_i \sum_{j \in N_i} \sqrt{f_i f_j} e^{-\|z_i-z_j\|^2/\gamma^2}$

    with its neighbors held constant, and is evaluated again: two evaluations and one
    vector-Jacobian product per solution. Solutions whose quality is not positive are
    pulled up but neither repel nor are repelled: quality is measured from 0. The
    bandwidth and the optimizer's rate belong to a problem; `squad` needs neither.

    Args:
        problem: The problem; `evaluate` must be differentiable.
        gamma_sq: Squared bandwidth in the transformed space: a number, one value per
            solution ``(n,)``, a schedule of the iteration, or a rule computed from the
            behaviors once per iteration, 'nearest' (mean squared distance to the
            nearest neighbor) or 'inverse_nearest'.
        population_size: N, at least 2.
        batch_size: M, at least 1; the last batch of an iteration may be smaller, and
            with N or more there is one batch.
        num_neighbors: How many others repel a solution: 0 for independent ascent, N - 1
            or more for all. (The published 16 counted the solution itself.)
        optimizer: Any optax optimizer, also as text, 'adam(0.05)', or a learning rate
            of Adam; every solution has its own state, so clipping by norm acts on each
            solution alone.
        transform: Map from unit coordinates to the space where repulsion acts:
            'logit', 'probit', 'identity', or an elementwise function. Unbounded
            dimensions are left alone.
        repulsion_weight: w, a number or a schedule of the iteration. The published 0.5
            halves the repulsion of each pair; 1 follows the gradient of Eq. (5).
        protect_quality: Hold $f_i$ constant inside the repulsion, so that crowding
            never pays a solution to become worse.

    Returns:
        An `Algorithm`. ``init`` also takes solutions to start from, N of them.

    Raises:
        ValueError: If a setting is out of range.

    Examples:
        >>> import jax, softqd
        >>> problem = softqd.problems.sphere(solution_dim=16)
        >>> algorithm = softqd.squad_published(
        ...     problem, gamma_sq=0.005, population_size=32, batch_size=8)
        >>> state = algorithm.init(jax.random.key(0))
        >>> state, info = jax.jit(algorithm.step)(state)
        >>> int(info.evaluations)
        64
    """
    arguments = given(locals())
    settings = Settings(**{**arguments, "optimizer": as_optimizer(optimizer)})
    _check_settings(settings)
    settings = settings._replace(batch_size=min(batch_size, population_size))

    how = (_init, _step, everyone)
    return assemble("squad_published", problem, arguments, settings, *how)


def _init(
    settings: Settings, problem: Problem, key: Key, solutions: PyTree = None
) -> SquadPublishedState:
    n, m = settings.population_size, settings.batch_size
    key, sample_key, evaluate_key = jax.random.split(key, 3)
    first, drawn = first_solutions(problem, sample_key, solutions, n, m)
    found, spent = evaluate_first(problem, first, evaluate_key, m)
    return SquadPublishedState(
        key=key,
        iteration=jnp.int32(0),
        init_evaluations=jnp.int32(drawn + spent),
        solutions=first,
        quality=found.quality,
        behavior=found.behavior,
        optimizer=jax.vmap(settings.optimizer.init)(widened(first)),
    )


class _Shared(NamedTuple):
    """What the batches of one iteration share."""

    state: SquadPublishedState
    order: Int[Array, " n"]
    evaluate_key: Key
    to_z: Callable  # from behaviors to where repulsion acts
    gamma_sq: Array  # a scalar or one per solution
    weight: Float[Array, ""]
    light: Float[Array, ""]  # mean root of the qualities, 1 where all is dark


def _step(
    settings: Settings, problem: Problem, state: SquadPublishedState
) -> tuple[SquadPublishedState, SquadPublishedInfo]:
    n, m = settings.population_size, settings.batch_size
    key, order_key, evaluate_key = jax.random.split(state.key, 3)
    order = jax.random.permutation(order_key, n)
    dim = state.behavior.shape[1]
    to_z = behavior_transform(problem, dim, settings.transform)
    z, root = to_z(state.behavior), _first_roots(state)
    gamma_sq = _bandwidth(settings.gamma_sq, state.iteration, z)
    weight = _at(settings.repulsion_weight, state.iteration, z.dtype)
    light = root.mean()
    light = jnp.where(light > 0, light, 1.0)
    shared = _Shared(state, order, evaluate_key, to_z, gamma_sq, weight, light)

    def update(cache, start, size):
        return _update_batch(settings, problem, shared, cache, start, size)

    # The cache follows the random order, so that a batch is a contiguous slice.
    _, (*outputs, overlaps) = evaluation.over_batches(
        update, (z[order], root[order]), n, m
    )
    places = jnp.zeros_like(order).at[order].set(jnp.arange(n), unique_indices=True)
    solutions, moments, new, finite = jax.tree.map(lambda x: x[places], outputs)

    new_state = SquadPublishedState(
        key=key,
        iteration=state.iteration + 1,
        init_evaluations=state.init_evaluations,
        solutions=solutions,
        quality=new.quality,
        behavior=new.behavior,
        optimizer=moments,
    )
    info = SquadPublishedInfo(
        evaluations=jnp.int32(2 * n),
        gradient_evaluations=jnp.int32(n),
        vector_jacobian_products=jnp.int32(n),
        is_finite=finite,
        gamma_sq=gamma_sq.mean(),
        overlap=mean_overlap(overlaps),
        repulsion_weight=weight,
    )
    return new_state, info


def _update_batch(
    settings: Settings,
    problem: Problem,
    shared: _Shared,
    cache: tuple[Array, Array],
    start: Array | int,
    size: int,
) -> tuple:
    """Evaluate, step, re-evaluate the batch ``order[start : start + size]``."""
    all_z, all_root = cache
    state, to_z = shared.state, shared.to_z
    rows = jax.lax.dynamic_slice_in_dim(shared.order, start, size)
    solutions, moments = jax.tree.map(
        lambda x: x[rows], (state.solutions, state.optimizer)
    )
    keys = (None, None)
    if problem.is_stochastic:
        keys = jax.random.split(jax.random.fold_in(shared.evaluate_key, start))
    old, z, pullback = evaluation.evaluate_with_vjp(problem, solutions, keys[0], to_z)
    all_z = _write(all_z, z, start)
    all_root = _write(all_root, safe_sqrt(old.quality), start)

    gamma_sq = shared.gamma_sq
    gamma_sq = gamma_sq[rows] if gamma_sq.ndim else jnp.full((size,), gamma_sq)
    pull, push = jnp.ones_like(old.quality), jnp.zeros_like(z)
    overlaps = jnp.zeros_like(old.quality)
    place = start + jnp.arange(size)
    if settings.num_neighbors != 0:
        rep = repulsion(z, place, all_z, all_root, gamma_sq, settings.num_neighbors)
        protect = settings.protect_quality
        pull, push = cotangents(old.quality, rep, gamma_sq, shared.weight, protect)
        overlaps = rep.overlap / shared.light
    # The barrier keeps consumers from computing the gradient again.
    gradient = jax.lax.optimization_barrier(pullback(pull, push))
    finite = rows_finite(gradient)
    # Optax descends: it is handed the negative of the ascent direction.
    descent = jax.tree.map(jnp.negative, widened(gradient))
    where = widened(solutions)
    updates, moments = jax.vmap(settings.optimizer.update)(descent, moments, where)
    moved = narrowed(jax.vmap(optax.apply_updates)(where, updates), solutions)
    solutions = reflected(problem, moved)

    new = evaluation.evaluate(problem, solutions, keys[1])
    all_z = _write(all_z, to_z(new.behavior), start)
    all_root = _write(all_root, safe_sqrt(new.quality), start)
    finite &= rows_finite((old, new))
    return (all_z, all_root), (solutions, moments, new, finite, overlaps)


def _first_roots(state: SquadPublishedState) -> Float[Array, " n"]:
    """Roots of the qualities that the first batch meets."""
    # The published runs clip the first cached qualities up to this floor.
    floor = jnp.where(state.iteration == 0, QUALITY_FLOOR, 0.0)
    return jnp.sqrt(jnp.maximum(state.quality, floor.astype(state.quality.dtype)))


def _write(cache: Array, rows: Array, start: Array | int) -> Array:
    return jax.lax.dynamic_update_slice_in_dim(cache, rows, start, axis=0)


def _at(value: Any, iteration: Array, dtype: Any) -> Array:
    """A number, or a schedule at this iteration."""
    return jnp.asarray(value(iteration) if callable(value) else value, dtype)


def _bandwidth(gamma_sq: Any, iteration: Array, z: Float[Array, "n d"]) -> Array:
    """This iteration's squared bandwidth, a scalar or one per solution."""
    if isinstance(gamma_sq, str):
        return BANDWIDTH_RULES[gamma_sq](z)
    return _at(gamma_sq, iteration, z.dtype)


def _check_settings(settings: Settings) -> None:
    n = settings.population_size
    check_count("population_size", n, 2)
    check_count("batch_size", settings.batch_size, 1)
    check_count("num_neighbors", settings.num_neighbors, 0)
    transform_function(settings.transform)
    _check_bandwidth(settings.gamma_sq, n)
    weight: Any = settings.repulsion_weight
    if not callable(weight) and is_concrete(weight) and not 0 <= weight < np.inf:
        raise ValueError(
            f"repulsion_weight must be a number >= 0 or a schedule; got {weight!r}"
        )


def _check_bandwidth(gamma_sq: Any, population_size: int) -> None:
    if isinstance(gamma_sq, str):
        if gamma_sq not in BANDWIDTH_RULES:
            raise ValueError(
                f"unknown gamma_sq rule {gamma_sq!r}; use a positive number, a "
                f"schedule, or one of {', '.join(BANDWIDTH_RULES)}"
            )
        return
    if callable(gamma_sq):
        return
    shape = np.shape(gamma_sq)
    if shape not in ((), (population_size,)):
        raise ValueError(
            f"gamma_sq has shape {shape}; expected a number or one value per "
            f"solution, shape ({population_size},)"
        )
    if is_concrete(gamma_sq):
        values = np.asarray(gamma_sq, dtype=float)
        if not (np.isfinite(values).all() and (values > 0).all()):
            raise ValueError(f"gamma_sq must be positive and finite; got {gamma_sq!r}")
