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
import numpy as np
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
from softqd.algorithms._start import evaluate_first, first_solutions
from softqd.objective import QUALITY_FLOOR, cotangents, repulsion, safe_sqrt
from softqd.ops import evaluation
from softqd.ops.checks import check_count, is_concrete
from softqd.ops.distances import mean_nearest_dist_sq
from softqd.ops.transforms import behavior_transform, is_outside, transform_function
from softqd.types import Algorithm, Key, Population, Problem


class Form(NamedTuple):
    """What settings are that are not given."""

    num_neighbors: int
    overlap: Any  # of the published form: None
    transform: str
    repulsion_weight: float
    protect_quality: bool


PUBLISHED = Form(15, None, "logit", 0.5, False)
SELF_TUNING = Form(8, 0.05, "identity", 1.0, True)
# Iterations that the target of the overlap falls over where a run does not say.
HORIZON = 1000

# The two bandwidth rules of the authors' program: from behaviors to gamma_sq.
BANDWIDTH_RULES: dict[str, Callable] = {
    "nearest": mean_nearest_dist_sq,
    "inverse_nearest": lambda z: 1.0 / jnp.maximum(mean_nearest_dist_sq(z), 1e-12),
}


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
    form = form_of(gamma_sq)
    num_neighbors = form.num_neighbors if num_neighbors is None else num_neighbors
    last_overlap: Any = form.overlap if overlap is None else overlap
    transform = form.transform if transform is None else transform
    if repulsion_weight is None:
        repulsion_weight = form.repulsion_weight
    if protect_quality is None:
        protect_quality = form.protect_quality
    n, m = population_size, batch_size
    settings = {
        "population_size": n,
        "batch_size": m,
        "num_neighbors": num_neighbors,
        "gamma_sq": gamma_sq,
        "overlap": last_overlap,
        "optimizer": optimizer,
        "transform": transform,
        "repulsion_weight": repulsion_weight,
        "protect_quality": protect_quality,
    }
    _check_settings(**settings)
    others = min(num_neighbors, n - 1)
    is_tuning = gamma_sq is None and others > 0

    def target_at(iteration: Array, horizon: Array) -> Array:
        """What the overlap shall be; at most half of what coinciding solutions have."""
        return jnp.minimum(overlap_at(last_overlap, iteration, horizon), others / 2)

    def init(problem: Problem, key: Key, solutions: PyTree | None = None) -> SquadState:
        key, sample_key, evaluate_key = jax.random.split(key, 3)
        first, drawn = first_solutions(problem, sample_key, solutions, n, m)
        found, spent = evaluate_first(problem, first, evaluate_key, m)
        b = found.behavior
        iteration, horizon = jnp.int32(0), jnp.int32(HORIZON)
        gamma, direction = jnp.ones((), b.dtype), jnp.zeros_like(b)
        if is_tuning:
            z = behavior_transform(problem, b.shape[1], transform)(b)
            target = target_at(iteration, horizon)
            gamma = first_gamma_sq(scale_of(problem, z)(z), others, target)
            direction = jax.random.normal(jax.random.fold_in(key, 0), b.shape, b.dtype)
        return SquadState(
            key=key,
            iteration=iteration,
            init_evaluations=jnp.int32(drawn + spent),
            solutions=first,
            quality=found.quality,
            behavior=b,
            optimizer=jax.vmap(optimizer.init)(first),
            gamma_sq=gamma,
            pace=jnp.ones((), b.dtype),
            horizon=horizon,
            direction=direction,
        )

    def step(problem: Problem, state: SquadState) -> tuple[SquadState, SquadInfo]:
        to_space = behavior_transform(problem, state.behavior.shape[1], transform)
        to_z = to_space
        if is_tuning:
            scale = scale_of(problem, to_space(state.behavior))
            to_z = lambda b: scale(to_space(b))  # noqa: E731
        key, order_key, evaluate_key = jax.random.split(state.key, 3)
        order = jax.random.permutation(order_key, n)
        z, quality = to_z(state.behavior), state.quality
        gammas = state.gamma_sq
        if is_tuning:
            root = safe_sqrt(quality)
        else:
            # The published runs clip the first cached qualities up to this floor.
            floor = jnp.where(state.iteration == 0, QUALITY_FLOOR, 0.0)
            root = jnp.sqrt(jnp.maximum(quality, floor.astype(quality.dtype)))
            if gamma_sq is not None:
                gammas = _bandwidth(gamma_sq, state.iteration, z)
        weight = _at(repulsion_weight, state.iteration, z.dtype)
        light = root.mean()
        unit = jnp.where(light > 0, light, 1.0)

        def update_batch(cache, start, size):
            """Evaluate, step, re-evaluate the batch ``order[start : start + size]``."""
            all_z, all_root = cache
            rows = jax.lax.dynamic_slice_in_dim(order, start, size)
            solutions, moments = jax.tree.map(
                lambda x: x[rows], (state.solutions, state.optimizer)
            )
            keys = (None, None)
            if problem.is_stochastic:
                keys = jax.random.split(jax.random.fold_in(evaluate_key, start))
            old, batch_z, pullback = evaluation.evaluate_with_vjp(
                problem, solutions, keys[0], to_z
            )
            all_z = _write(all_z, batch_z, start)
            all_root = _write(all_root, safe_sqrt(old.quality), start)

            gamma = gammas[rows] if gammas.ndim else jnp.full((size,), gammas)
            pull, push = jnp.ones_like(old.quality), jnp.zeros_like(batch_z)
            overlaps = jnp.zeros_like(old.quality)
            if num_neighbors != 0:
                place = start + jnp.arange(size)
                rep = repulsion(batch_z, place, all_z, all_root, gamma, num_neighbors)
                pull, push = cotangents(
                    old.quality, rep, gamma, weight, protect_quality
                )
                overlaps = rep.overlap / unit
                if is_tuning:
                    leaving = crowding(overlaps, others) * weight / jnp.sqrt(gamma)
                    leaving *= jnp.maximum(old.quality, 0.0)  # the dark ones stay
                    push += leaving[:, None] * state.direction[rows]
            # Computed once: its consumers would each compute it again.
            gradient = jax.lax.optimization_barrier(pullback(pull, push))
            # Optax descends: it is handed the negative of the ascent direction.
            ascent = _in_units_of_batch(gradient) if is_tuning else gradient
            descent = jax.tree.map(jnp.negative, ascent)
            updates, moments = jax.vmap(optimizer.update)(descent, moments, solutions)
            if is_tuning:
                updates = jax.tree.map(
                    lambda x: x * state.pace.astype(x.dtype), updates
                )
            solutions = jax.vmap(optax.apply_updates)(solutions, updates)

            new = evaluation.evaluate(problem, solutions, keys[1])
            all_z = _write(all_z, to_z(new.behavior), start)
            all_root = _write(all_root, safe_sqrt(new.quality), start)
            finite = _row_finite((gradient, old, new))
            outputs = solutions, moments, new, finite, overlaps
            return (all_z, all_root), outputs

        # The cache follows the random order, so that a batch is a contiguous slice.
        cache = z[order], root[order]
        _, (*outputs, overlaps) = _over_batches(update_batch, cache, n, m)
        places = jnp.zeros_like(order).at[order].set(jnp.arange(n), unique_indices=True)
        solutions, moments, new, finite = jax.tree.map(lambda x: x[places], outputs)

        found = mean_overlap(overlaps)
        next_gamma_sq, next_pace = state.gamma_sq, state.pace
        if is_tuning:
            target = target_at(state.iteration, state.horizon)
            # Where no solution shines, none overlaps, at any bandwidth.
            seen = jnp.where(light > 0, found, target)
            next_gamma_sq = steer_gamma_sq(gammas, seen, target, others)
            moved = jnp.sqrt(jnp.sum((to_z(new.behavior) - z) ** 2, axis=1).mean())
            reach = annealed(REACH, state.iteration, state.horizon)
            next_pace = steer_pace(state.pace, moved, reach * jnp.sqrt(gammas))

        new_state = SquadState(
            key=key,
            iteration=state.iteration + 1,
            init_evaluations=state.init_evaluations,
            solutions=solutions,
            quality=new.quality,
            behavior=new.behavior,
            optimizer=moments,
            gamma_sq=next_gamma_sq,
            pace=next_pace,
            horizon=state.horizon,
            direction=state.direction,
        )
        info = SquadInfo(
            evaluations=jnp.int32(2 * n),
            gradient_evaluations=jnp.int32(n),
            vector_jacobian_products=jnp.int32(n),
            is_finite=finite,
            clipped_behaviors=is_outside(problem, new.behavior).sum(),
            gamma_sq=gammas.mean(),
            overlap=found,
            pace=state.pace,
            repulsion_weight=weight,
        )
        return new_state, info

    def plan(state, num_iterations, max_evaluations):
        """Tell the state how long the run will be."""
        horizon = num_iterations
        if max_evaluations is not None:
            spare = (max_evaluations - state.init_evaluations) // (2 * n)
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
        name="squad",
        settings=settings,
        plan=plan,
    )


def form_of(gamma_sq: Any) -> Form:
    """The defaults that depend on whether the bandwidth sets itself."""
    return SELF_TUNING if gamma_sq is None else PUBLISHED


def _check_settings(
    *,
    population_size: Any,
    batch_size: Any,
    num_neighbors: Any,
    gamma_sq: Any,
    overlap: Any,
    transform: Any,
    repulsion_weight: Any,
    **_: Any,
) -> None:
    check_count("population_size", population_size, 2)
    check_count("batch_size", batch_size, 1, population_size)
    check_count("num_neighbors", num_neighbors, 0)
    transform_function(transform)
    if gamma_sq is not None:
        _check_bandwidth(gamma_sq, population_size)
        if overlap is not None:
            raise ValueError(
                f"overlap sets the bandwidth and so does gamma_sq; got {overlap!r} and "
                f"{gamma_sq!r}. Leave gamma_sq out (--set gamma_sq=none) or overlap"
            )
    elif not callable(overlap) and is_concrete(overlap) and not 0 < overlap < np.inf:
        raise ValueError(
            f"overlap must be a positive number or a schedule; got {overlap!r}"
        )
    if callable(repulsion_weight) or not is_concrete(repulsion_weight):
        return
    if not 0 <= repulsion_weight < np.inf:
        raise ValueError(
            f"repulsion_weight must be a number >= 0 or a schedule; got "
            f"{repulsion_weight!r}"
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


def _in_units_of_batch(gradient: PyTree) -> PyTree:
    """Divide by the root mean square over the rows that are finite.

    The push is many times as strong while the bandwidth is small, and an optimizer that
    remembers squared gradients would crawl for hundreds of iterations afterwards.
    """

    def mean_sq(leaf):
        rows = jnp.mean(leaf.reshape(leaf.shape[0], -1) ** 2, axis=1)
        return jnp.where(jnp.isfinite(rows), rows, 0.0).mean() * leaf[0].size

    leaves = jax.tree.leaves(gradient)
    total = jnp.stack([mean_sq(leaf) for leaf in leaves]).sum()
    size = sum(leaf[0].size for leaf in leaves)
    unit = jnp.sqrt(total / size)
    scale = jnp.where(unit > 0, 1.0 / jnp.where(unit > 0, unit, 1.0), 1.0)
    return jax.tree.map(lambda leaf: leaf * scale.astype(leaf.dtype), gradient)
