"""Steps in units of the problem: no learning rate.

A coordinate's unit is its spread in the first population, so that the units of
solutions do not matter. How many units a step has is measured once, by trying: a
gradient promises that quality rises by so much per unit, and steps are a fixed part of
the length up to which it keeps a quarter of its promise: a tenth, or more where a run
is too short to get far in steps of a tenth. Directions are Adam's. Steps shorten in the
second half of a run, to the same length in runs of any number of iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from softqd.types import Key

# Steps are this part of the length up to which a gradient keeps so much of its promise.
PART, PROMISE = 1 / 10, 0.25
# Steps keep their length for this part of a run; then they shorten to this part of a
# plain step.
HOLD, LAST = 0.5, 0.1
# Runs of fewer iterations take longer steps, so that solutions get as far: up to so
# many times longer.
UNHURRIED, LONGER = 900, 4.0
# Lengths are first tried around this one; steps are a part of it where quality has no
# gradient at the start.
GUESS = 0.2
# Logarithms of lengths are tried within widths of these, each around what the one
# before found: nine decades, then closer.
WIDTHS = (20.0, 4.0, 1.5)
# No step is longer than this many units.
LONGEST = 10.0
# A promise below this part of the quality is lost in rounding.
_ROUNDING = 3e-5
# Coordinates whose spread is below this part of the mean spread are taken for constant.
_CONSTANT = 1e-6


class StepsState(NamedTuple):
    """What steps need; the first two have a row per solution."""

    moments: PyTree
    caution: Float[Array, " n"]  # factor of a solution's steps, at most 1
    unit: PyTree  # like one solution
    length: Float[Array, ""]


class Start(NamedTuple):
    """What the first population shows."""

    solutions: PyTree
    quality: Float[Array, " n"]
    gradient: PyTree  # of quality
    evaluate: Callable  # solutions -> qualities, under the same noise


class Steps(NamedTuple):
    """The part of SQUAD that makes steps.

    Attributes:
        init: ``(key, start) -> state``.
        update: ``(gradient, state, solutions, progress, horizon) -> (updates, state)``,
            upwards.
        num_trials: How often ``init`` evaluates the first population.
    """

    init: Callable
    update: Callable
    num_trials: int


def measured_steps(guess: float = GUESS) -> Steps:
    """Steps whose length is measured at the start.

    Args:
        guess: Where to look first. What is found does not depend on it.
    """
    adam = optax.scale_by_adam()

    def init(key: Key, start: Start) -> StepsState:
        unit = spread_of(start.solutions)
        return StepsState(
            moments=jax.vmap(adam.init)(start.solutions),
            caution=jnp.ones_like(start.quality),
            unit=unit,
            length=PART * promising_length(key, start, unit, guess),
        )

    def update(gradient, state, solutions, progress, horizon):
        # As gradients come divided by their size: Adam's epsilon is a part of it.
        size = root_mean_square(state.unit)
        in_units = jax.tree.map(lambda g, u: g * (u / size)[None], gradient, state.unit)
        directions, moments = jax.vmap(adam.update)(in_units, state.moments)
        length = state.length * schedule(progress, horizon) * state.caution

        def scaled(direction, unit):
            each = length.reshape((-1,) + (1,) * unit.ndim)
            return direction * (each * unit[None]).astype(direction.dtype)

        updates = jax.tree.map(scaled, directions, state.unit)
        return updates, state._replace(moments=moments)

    return Steps(init, update, len(WIDTHS))


def schedule(
    progress: Float[Array, ""], horizon: Int[Array, ""] | int
) -> Float[Array, ""]:
    """The length of steps, as a multiple of a plain step.

    Args:
        progress: Of the schedules, from 0 to 1.
        horizon: Iterations of the run.

    Examples:
        >>> [round(float(schedule(p, 900)), 2) for p in (0.0, 0.5, 1.0)]
        [1.0, 1.0, 0.1]
        >>> [round(float(schedule(p, 450)), 2) for p in (0.0, 0.5, 1.0)]
        [2.0, 2.0, 0.1]
    """
    first = jnp.clip(UNHURRIED / jnp.maximum(horizon, 1), 1.0, LONGER)
    late = jnp.clip((progress - HOLD) / (1.0 - HOLD), 0.0, 1.0)
    return first + (LAST - first) * late


def optimizer_steps(optimizer: optax.GradientTransformation) -> Steps:
    """Steps of an optax optimizer, as they are; every solution has its own state."""

    def init(key: Key, start: Start) -> StepsState:
        return StepsState(
            moments=jax.vmap(optimizer.init)(start.solutions),
            caution=jnp.ones_like(start.quality),
            unit=(),
            length=jnp.ones(()),
        )

    def update(gradient, state, solutions, progress, horizon):
        # Optax descends: it is handed the negative of the ascent direction.
        descent = jax.tree.map(jnp.negative, gradient)
        updates, moments = jax.vmap(optimizer.update)(descent, state.moments, solutions)

        def held(update):
            rank = (-1,) + (1,) * (update.ndim - 1)
            return update * state.caution.reshape(rank).astype(update.dtype)

        return jax.tree.map(held, updates), state._replace(moments=moments)

    return Steps(init, update, 0)


def spread_of(solutions: PyTree) -> PyTree:
    """Standard deviation of every coordinate over the population.

    Constant coordinates have the root mean square of all the others, and where all are
    constant, that of their values.

    Examples:
        >>> import jax.numpy as jnp
        >>> spread_of(jnp.array([[-1.0, 5.0], [1.0, 5.0]])).tolist()
        [1.0, 1.0]
    """
    leaves, treedef = jax.tree.flatten(solutions)
    spread = [x.std(0) for x in leaves]
    largest = jnp.stack([x.max() for x in spread]).max()
    # Neither next to the others nor, up to rounding, next to its own size.
    least = [_CONSTANT * jnp.maximum(largest, jnp.abs(x).max(0)) for x in leaves]
    varies = [(x > y).astype(x.dtype) for x, y in zip(spread, least, strict=True)]
    mean = root_mean_square(spread, varies)
    size = root_mean_square(leaves)
    mean = jnp.where(mean > 0, mean, jnp.where(size > 0, size, 1.0))
    filled = [jnp.where(v > 0, x, mean) for x, v in zip(spread, varies, strict=True)]
    return jax.tree.unflatten(treedef, filled)


def root_mean_square(
    tree: PyTree, weights: list[Array] | None = None
) -> Float[Array, ""]:
    """Over all numbers of a tree; 0 where all weights are 0.

    Examples:
        >>> float(root_mean_square({"a": jnp.array([3.0]), "b": jnp.array([4.0])}))
        3.5355...
    """
    leaves = jax.tree.leaves(tree)
    shares = [jnp.ones_like(x) for x in leaves] if weights is None else weights
    total = sum(jnp.sum(w * x**2) for x, w in zip(leaves, shares, strict=True))
    return jnp.sqrt(total / jnp.maximum(sum(jnp.sum(w) for w in shares), 1))


def promising_length(
    key: Key, start: Start, unit: PyTree, guess: float
) -> Float[Array, ""]:
    """How many units a step may have so that quality rises by part of its promise.

    Every solution tries one length along the sign of its gradient, the direction of
    Adam's first step, and keeps its promise or does not; the length that best parts the
    ones from the others is found, and looked at more closely.

    Args:
        key: Randomness.
        start: The first population.
        unit: Like one solution.
        guess: Where to look first.
    """
    slope = jax.tree.map(lambda g, u: g * u[None], start.gradient, unit)
    rises = [jnp.abs(x).reshape(len(x), -1).sum(1) for x in jax.tree.leaves(slope)]
    promise = jnp.stack(rises).sum(0)
    is_told = jnp.isfinite(promise) & (promise > 0)

    def look(middle, trial):
        width, trial_key = trial
        offset = jax.random.uniform(trial_key, promise.shape, minval=-0.5, maxval=0.5)
        log_length = middle + width * offset
        length = jnp.exp(log_length)

        def tried(x, g, u):
            each = length.reshape((-1,) + (1,) * u.ndim) * u[None]
            return x + jnp.sign(g) * each.astype(x.dtype)

        found = start.evaluate(jax.tree.map(tried, start.solutions, slope, unit))
        rise = found - start.quality
        # Rises that are not finite are not kept.
        is_kept = rise >= PROMISE * length * promise
        is_kept |= length * promise < _ROUNDING * jnp.abs(start.quality)
        order = jnp.argsort(log_length)
        votes = jnp.where(is_told, jnp.where(is_kept, 1.0, -1.0), 0.0)[order]
        return log_length[order][jnp.argmax(jnp.cumsum(votes))], None

    widths = jnp.asarray(WIDTHS, promise.dtype)
    middle = jnp.log(jnp.asarray(guess, promise.dtype))
    middle, _ = jax.lax.scan(look, middle, (widths, jax.random.split(key, len(WIDTHS))))
    is_known = 2 * is_told.sum() >= is_told.shape[0]
    return jnp.where(is_known, jnp.minimum(jnp.exp(middle), LONGEST), GUESS)
