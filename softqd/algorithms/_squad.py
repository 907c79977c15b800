"""SQUAD: Soft QD Using Approximated Diversity (Algorithm 1 of the ICLR 2026 paper).

With a ``gamma_sq``, the defaults are what the published runs did, which differs from
the letter of the paper in places (``docs/deviations.md``). Without one, the bandwidth
sets itself (``_bandwidth.py``). Unlike in the authors' program, the gradient is one
vector-Jacobian product per batch instead of a full Jacobian, and neighbors are found by
a threshold instead of a sort.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float, Int, PyTree

from softqd.algorithms._bandwidth import (
    REACH,
    annealed,
    crowding,
    first_gamma_sq,
    mean_overlap,
    overlap_at,
    scale_of,
    steer_gamma_sq,
    steer_pace,
)
from softqd.algorithms._squad_settings import BANDWIDTH_RULES, Settings, settings_of
from softqd.algorithms._start import evaluate_first, first_solutions
from softqd.algorithms._winning import winning
from softqd.objective import QUALITY_FLOOR, cotangents, repulsion, safe_sqrt
from softqd.ops import evaluation
from softqd.ops.transforms import behavior_transform, is_outside
from softqd.types import Algorithm, Key, Population, Problem

# Iterations that the target of the overlap falls over where a run does not say.
HORIZON = 1000
# A solution that wins less than this counts as if it won this.
_LEAST_SHARE = 1e-3


class SquadState(NamedTuple):
    """What the next iteration needs. Rows are solutions, in a fixed order."""

    key: Key
    iteration: Int[Array, ""]
    init_evaluations: Int[Array, ""]
    solutions: PyTree
    quality: Float[Array, " n"]
    behavior: Float[Array, "n d"]
    optimizer: PyTree  # one optimizer state per solution, step count included
    gamma_sq: Float[Array, ""]  # if the bandwidth sets itself
    pace: Float[Array, ""]  # factor of steps, at most 1
    horizon: Int[Array, ""]  # iterations of the run, as far as known
    direction: Float[Array, "n d"]  # in which a solution leaves a place it shares


class SquadInfo(NamedTuple):
    """What a person wants to see of one iteration."""

    evaluations: Int[Array, ""]
    gradient_evaluations: Int[Array, ""]
    vector_jacobian_products: Int[Array, ""]
    is_finite: Bool[Array, " n"]
    clipped_behaviors: Int[Array, ""]  # outside their bounds after this iteration
    gamma_sq: Float[Array, ""]  # mean over solutions
    overlap: Float[Array, ""]  # of the population with its neighbors
    pace: Float[Array, ""]  # factor of the optimizer's steps
    repulsion_weight: Float[Array, ""]


def squad(
    problem: Problem,
    *,
    population_size: int = 1024,
    batch_size: int = 64,
    num_neighbors: int | None = None,
    gamma_sq: float | Array | optax.Schedule | str | None = None,
    overlap: float | optax.Schedule | None = None,
    optimizer: optax.GradientTransformation = optax.adam(0.05),  # noqa: B008 (pure)
    transform: str | Callable | None = None,
    repulsion_weight: float | optax.Schedule | None = None,
    protect_quality: bool | None = None,
) -> Algorithm:
    r"""Climb the lower bound of the Soft QD Score by gradient ascent.

    One iteration cuts a random permutation of the population into batches. Each batch
    is evaluated, takes one optimizer step up the gradient of

    $\sum_i f_i - w \sum_i \sum_{j \in N_i} \sqrt{f_i f_j} e^{-\|z_i-z_j\|^2/\gamma^2}$

    with its neighbors held constant, and is evaluated again: two evaluations and one
    vector-Jacobian product per solution. Solutions whose quality is not positive are
    pulled up but neither repel nor are repelled.

    Args:
        problem: The problem; `evaluate` must be differentiable.
        population_size: N, at least 2.
        batch_size: M, from 1 to N; the last batch of an iteration may be smaller.
        num_neighbors: How many others repel a solution: 0 for independent ascent, N - 1
            or more for all. None: 8 where the bandwidth sets itself, else 15. (The
            published 16 counted the solution itself.)
        gamma_sq: Squared bandwidth in the transformed space. None: it sets itself, so
            that the population's overlap follows a target. Otherwise a number, one
            value per solution ``(n,)``, a schedule of the iteration, or a rule computed
            from the behaviors once per iteration, 'nearest' (mean squared distance to
            the nearest neighbor) or 'inverse_nearest'.
        overlap: Diversity against quality where the bandwidth sets itself: how much a
            solution and its neighbors overlap at the end of a run. Higher is more
            diverse, lower is better; needs no change between problems. None: 0.05,
            so that a solution has 95% of its light for itself. It starts 30 times as
            high, unless this is a schedule of the iteration.
        optimizer: Any optax optimizer; every solution has its own state, so clipping
            by norm acts on each solution alone.
        transform: Map from unit coordinates to the space where repulsion acts:
            'logit', 'probit', 'identity', or an elementwise function. Unbounded
            dimensions are left alone. None: 'identity' where the bandwidth sets itself,
            else 'logit'.
        repulsion_weight: w, a number or a schedule of the iteration. The published 0.5
            halves the repulsion of each pair; 1 follows the gradient of Eq. (5). None:
            1 where the bandwidth sets itself, else 0.5.
        protect_quality: Hold $f_i$ constant inside the repulsion, so that crowding
            never pays a solution to become worse. None: where the bandwidth sets
            itself.

    Returns:
        An `Algorithm`. ``init`` also takes solutions to start from, N of them.

    Raises:
        ValueError: If a setting is out of range.

    Examples:
        >>> import jax, softqd
        >>> problem = softqd.problems.sphere(solution_dim=16)
        >>> algorithm = softqd.squad(problem, population_size=32, batch_size=8)
        >>> state = algorithm.init(jax.random.key(0))
        >>> state, info = jax.jit(algorithm.step)(state)
        >>> int(info.evaluations)
        64
    """
    settings = settings_of(
        population_size=population_size,
        batch_size=batch_size,
        num_neighbors=num_neighbors,
        gamma_sq=gamma_sq,
        overlap=overlap,
        optimizer=optimizer,
        transform=transform,
        repulsion_weight=repulsion_weight,
        protect_quality=protect_quality,
    )
    shown = settings._asdict()
    del shown["num_points"]
    return assemble("squad", problem, settings, shown)


def assemble(
    name: str, problem: Problem, settings: Settings, shown: dict[str, Any]
) -> Algorithm:
    """The algorithm with these settings, of which it shows ``shown``."""

    def init(problem: Problem, key: Key, solutions: PyTree | None = None) -> SquadState:
        return _init(settings, problem, key, solutions)

    def step(problem: Problem, state: SquadState) -> tuple[SquadState, SquadInfo]:
        return _step(settings, problem, state)

    def plan(state, num_iterations, max_evaluations):
        """Tell the state how long the run will be."""
        horizon = num_iterations
        if max_evaluations is not None:
            spare = max_evaluations - state.init_evaluations
            spare //= 2 * settings.population_size
            horizon = spare if horizon is None else jnp.minimum(horizon, spare)
        horizon = state.horizon if horizon is None else horizon
        return state._replace(horizon=jnp.full_like(state.horizon, horizon))

    def population(state: SquadState) -> Population:
        occupied = jnp.ones(state.quality.shape, bool)
        return Population(state.solutions, state.quality, state.behavior, occupied)

    return Algorithm(
        init=Partial(init, problem),
        step=Partial(step, problem),
        population=population,
        problem=problem,
        name=name,
        settings=shown,
        plan=plan,
    )


def _init(
    settings: Settings, problem: Problem, key: Key, solutions: PyTree | None
) -> SquadState:
    n, m = settings.population_size, settings.batch_size
    key, sample_key, evaluate_key = jax.random.split(key, 3)
    first, drawn = first_solutions(problem, sample_key, solutions, n, m)
    found, spent = evaluate_first(problem, first, evaluate_key, m)
    b = found.behavior
    iteration, horizon = jnp.int32(0), jnp.int32(HORIZON)
    gamma, direction = jnp.ones((), b.dtype), jnp.zeros_like(b)
    if settings.is_tuning:
        z = behavior_transform(problem, b.shape[1], settings.transform)(b)
        target = _target(settings, iteration, horizon)
        gamma = first_gamma_sq(scale_of(problem, z)(z), settings.others, target)
        direction = jax.random.normal(jax.random.fold_in(key, 0), b.shape, b.dtype)
    return SquadState(
        key=key,
        iteration=iteration,
        init_evaluations=jnp.int32(drawn + spent),
        solutions=first,
        quality=found.quality,
        behavior=b,
        optimizer=jax.vmap(settings.optimizer.init)(first),
        gamma_sq=gamma,
        pace=jnp.ones((), b.dtype),
        horizon=horizon,
        direction=direction,
    )


class _Shared(NamedTuple):
    """What the batches of one iteration share."""

    state: SquadState
    order: Int[Array, " n"]
    evaluate_key: Key
    points_key: Key
    to_z: Callable  # from behaviors to where repulsion acts
    gamma_sq: Array  # a scalar or one per solution
    weight: Float[Array, ""]
    light: Float[Array, ""]  # mean root of the qualities, 1 where all is dark


def _step(
    settings: Settings, problem: Problem, state: SquadState
) -> tuple[SquadState, SquadInfo]:
    n, m = settings.population_size, settings.batch_size
    key, order_key, evaluate_key = jax.random.split(state.key, 3)
    order = jax.random.permutation(order_key, n)
    to_z = _to_z(settings, problem, state.behavior)
    z, root = to_z(state.behavior), _first_roots(settings, state)
    gamma_sq = state.gamma_sq
    if settings.gamma_sq is not None:
        gamma_sq = _bandwidth(settings.gamma_sq, state.iteration, z)
    weight = _at(settings.repulsion_weight, state.iteration, z.dtype)
    light = root.mean()
    is_lit = light > 0
    light = jnp.where(is_lit, light, 1.0)
    keys = evaluate_key, jax.random.fold_in(order_key, 0)
    shared = _Shared(state, order, *keys, to_z, gamma_sq, weight, light)

    def update(cache, start, size):
        return _update_batch(settings, problem, shared, cache, start, size)

    # The cache follows the random order, so that a batch is a contiguous slice.
    _, (*outputs, overlaps) = _over_batches(update, (z[order], root[order]), n, m)
    places = jnp.zeros_like(order).at[order].set(jnp.arange(n), unique_indices=True)
    solutions, moments, new, finite = jax.tree.map(lambda x: x[places], outputs)

    overlap = mean_overlap(overlaps)
    next_gamma_sq, pace = state.gamma_sq, state.pace
    if settings.is_tuning:
        target = _target(settings, state.iteration, state.horizon)
        # Where no solution shines, none overlaps, at any bandwidth.
        seen = jnp.where(is_lit, overlap, target)
        next_gamma_sq = steer_gamma_sq(gamma_sq, seen, target, settings.others)
        moved = jnp.sqrt(jnp.sum((to_z(new.behavior) - z) ** 2, axis=1).mean())
        reach = annealed(REACH, state.iteration, state.horizon)
        pace = steer_pace(pace, moved, reach * jnp.sqrt(gamma_sq))

    new_state = SquadState(
        key=key,
        iteration=state.iteration + 1,
        init_evaluations=state.init_evaluations,
        solutions=solutions,
        quality=new.quality,
        behavior=new.behavior,
        optimizer=moments,
        gamma_sq=next_gamma_sq,
        pace=pace,
        horizon=state.horizon,
        direction=state.direction,
    )
    info = SquadInfo(
        evaluations=jnp.int32(2 * n),
        gradient_evaluations=jnp.int32(n),
        vector_jacobian_products=jnp.int32(n),
        is_finite=finite,
        clipped_behaviors=is_outside(problem, new.behavior).sum(),
        gamma_sq=gamma_sq.mean(),
        overlap=overlap,
        pace=state.pace,
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
    if settings.num_points:
        key = jax.random.fold_in(shared.points_key, start)
        sigma = jnp.sqrt(gamma_sq / 8.0)
        won = winning(key, z, place, all_z, all_root, sigma, settings.num_points)
        # The dark ones are pulled up.
        pull = jnp.where(old.quality > 0, won.share, 1.0)
        push = jnp.maximum(old.quality, 0.0)[:, None] * won.push
        overlaps = 1.0 / jnp.maximum(won.share, _LEAST_SHARE) - 1.0
    elif settings.num_neighbors != 0:
        rep = repulsion(z, place, all_z, all_root, gamma_sq, settings.num_neighbors)
        protect = settings.protect_quality
        pull, push = cotangents(old.quality, rep, gamma_sq, shared.weight, protect)
        overlaps = rep.overlap / shared.light
    if settings.is_tuning:
        crowded = crowding(overlaps, settings.others)
        leaving = crowded * shared.weight / jnp.sqrt(gamma_sq)
        leaving *= jnp.maximum(old.quality, 0.0)  # the dark ones stay
        push += leaving[:, None] * state.direction[rows]
    gradient, norm_sq, finite = _measured(pullback(pull, push))
    # Optax descends: it is handed the negative of the ascent direction.
    factor = -_one_over_unit(gradient, norm_sq) if settings.is_tuning else -1.0
    descent = jax.tree.map(lambda x: x * jnp.asarray(factor, x.dtype), gradient)
    update = jax.vmap(settings.optimizer.update)
    updates, moments = update(descent, moments, solutions)
    if settings.is_tuning:
        updates = jax.tree.map(lambda x: x * state.pace.astype(x.dtype), updates)
    solutions = jax.vmap(optax.apply_updates)(solutions, updates)

    new = evaluation.evaluate(problem, solutions, keys[1])
    all_z = _write(all_z, to_z(new.behavior), start)
    all_root = _write(all_root, safe_sqrt(new.quality), start)
    finite &= _row_finite((old, new))
    return (all_z, all_root), (solutions, moments, new, finite, overlaps)


def _target(settings: Settings, iteration: Array, horizon: Array) -> Array:
    """What the overlap shall be; at most half of what coinciding solutions have."""
    wanted = overlap_at(settings.overlap, iteration, horizon)
    return jnp.minimum(wanted, settings.others / 2)


def _to_z(settings: Settings, problem: Problem, behavior: Array) -> Callable:
    """The map from behaviors to where repulsion acts."""
    transform = behavior_transform(problem, behavior.shape[1], settings.transform)
    if not settings.is_tuning:
        return transform
    scale = scale_of(problem, transform(behavior))
    return lambda b: scale(transform(b))


def _first_roots(settings: Settings, state: SquadState) -> Float[Array, " n"]:
    """Roots of the qualities that the first batch meets."""
    if settings.is_tuning:
        return safe_sqrt(state.quality)
    # The published runs clip the first cached qualities up to this floor.
    floor = jnp.where(state.iteration == 0, QUALITY_FLOOR, 0.0)
    return jnp.sqrt(jnp.maximum(state.quality, floor.astype(state.quality.dtype)))


def _over_batches(update: Callable, cache: PyTree, n: int, m: int) -> tuple:
    """Call ``update(cache, start, size) -> (cache, outputs)`` batch after batch.

    Returns:
        The last cache, and the outputs of all batches joined along their first axis.
        The last batch is smaller where ``m`` does not divide ``n``.
    """
    num_batches, remainder = divmod(n, m)
    cache, outputs = jax.lax.scan(
        lambda cache, i: update(cache, i * m, m), cache, jnp.arange(num_batches)
    )
    outputs = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), outputs)
    if remainder:
        cache, tail = update(cache, num_batches * m, remainder)
        outputs = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), outputs, tail)
    return cache, outputs


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


def _row_finite(tree: PyTree) -> Bool[Array, " m"]:
    """Which rows hold only finite numbers, over all leaves of a batch."""

    def check(leaf):
        return jnp.isfinite(leaf).reshape(leaf.shape[0], -1).all(1)

    return jnp.stack([check(leaf) for leaf in jax.tree.leaves(tree)]).all(0)


def _measured(gradient: PyTree) -> tuple[PyTree, Float[Array, " m"], Bool[Array, " m"]]:
    """A gradient, the squared norms of its rows, and which rows are finite.

    The barrier keeps consumers from computing the gradient again; in front of it, the
    sums share one pass with it or with one another.
    """
    rows = [x.reshape(x.shape[0], -1) for x in jax.tree.leaves(gradient)]
    norm_sq = jnp.stack([jnp.sum(x**2, axis=1) for x in rows]).sum(0)
    found = gradient, norm_sq, _row_finite(gradient)
    return jax.lax.optimization_barrier(found)


def _one_over_unit(gradient: PyTree, norm_sq: Float[Array, " m"]) -> Float[Array, ""]:
    """One over the root mean square of a batch; rows that are not finite count as 0.

    The push is many times as strong while the bandwidth is small, and an optimizer that
    remembers squared gradients would crawl for hundreds of iterations afterwards. So it
    is handed gradients in units of their batch.
    """
    size = sum(x[0].size for x in jax.tree.leaves(gradient))
    unit = jnp.sqrt(jnp.where(jnp.isfinite(norm_sq), norm_sq, 0.0).mean() / size)
    return jnp.where(unit > 0, 1.0 / jnp.where(unit > 0, unit, 1.0), 1.0)
