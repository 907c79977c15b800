"""Evaluate the population and take its gradients: pull, push, and how to leave.

Quality pulls with weight 1; the push of neighbors is the gradient of Eq. (5) of Soft
Quality-Diversity Optimization with respect to a solution's behavior, quality inside the
repulsion held constant, so that crowding never pays a solution to become worse.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from softqd.algorithms._bandwidth import coordinates, crowding
from softqd.objective import repulsion, safe_sqrt
from softqd.ops import evaluation
from softqd.ops.checks import rows_finite
from softqd.ops.precision import near_one, widened
from softqd.types import Evaluation, Key, Problem


class Standing(NamedTuple):
    """What a step leaves from."""

    found: Evaluation
    level: Float[Array, ""]
    gamma_sq: Float[Array, ""]
    direction: Float[Array, "n d"]  # in which a solution leaves a place it shares


class Climbed(NamedTuple):
    """What evaluating solutions with their gradients gives."""

    found: Evaluation  # as it was before, where it is not finite
    z: Float[Array, "n d"]  # in the coordinates of the bandwidth
    overlap: Float[Array, " n"]
    is_sound: Bool[Array, " n"]  # whether evaluation and gradient are finite
    gradient: PyTree  # in units of the population
    slope: PyTree  # gradient of quality alone, if asked for


def climb(
    problem: Problem,
    standing: Standing,
    solutions: PyTree,
    key: Key,
    num_neighbors: int,
    batch_size: int,
    with_slope: bool = False,
) -> Climbed:
    """Evaluate solutions where a step led, and take their gradients.

    Batches follow one another: each meets those before it where they are now, and those
    after it where the step left from.

    Args:
        problem: The problem.
        standing: From where the step was taken.
        solutions: Where it led.
        key: Randomness of a stochastic problem.
        num_neighbors: How many others repel a solution.
        batch_size: Solutions evaluated at once.
        with_slope: Whether the gradient of quality alone is asked for.
    """
    before, level, gamma_sq, direction = standing
    to_z = coordinates(problem, before.behavior)
    root = safe_sqrt(before.quality - level)
    mean_root = jnp.where(root.max() > 0, root.mean(), 1.0)

    def update(cache, start, size):
        all_z, all_root = cache
        rows = start + jnp.arange(size)
        some, old, leave = jax.tree.map(
            lambda x: jax.lax.dynamic_slice_in_dim(x, start, size),
            (solutions, before, direction),
        )
        one_key = jax.random.fold_in(key, start) if problem.is_stochastic else None
        found, z, pullback = evaluation.evaluate_with_vjp(problem, some, one_key, to_z)
        is_sound = rows_finite(found)
        quality = jnp.where(is_sound, found.quality, old.quality)
        behavior = jnp.where(is_sound[:, None], found.behavior, old.behavior)
        z = jnp.where(is_sound[:, None], z, to_z(old.behavior))
        light = jnp.maximum(quality - level, 0.0)
        all_z, all_root = (
            jax.lax.dynamic_update_slice_in_dim(all_x, x, start, axis=0)
            for all_x, x in ((all_z, z), (all_root, safe_sqrt(light)))
        )
        widths = jnp.full((size,), gamma_sq)
        rep = repulsion(z, rows, all_z, all_root, widths, num_neighbors)
        overlap = rep.overlap / mean_root
        # Eq. (5) with quality held constant inside the repulsion.
        push = (2.0 / gamma_sq) * safe_sqrt(light)[:, None] * rep.push
        crowded = crowding(overlap, num_neighbors) * light
        push += (crowded / jnp.sqrt(gamma_sq))[:, None] * leave
        ones = jnp.ones_like(quality)
        gradient = widened(pullback(ones, push))
        slope = widened(pullback(ones, jnp.zeros_like(push))) if with_slope else ()
        is_sound &= rows_finite(gradient)
        climbed = Climbed(
            Evaluation(quality, behavior), z, overlap, is_sound, gradient, slope
        )
        return (all_z, all_root), climbed

    cache = (to_z(before.behavior), root)
    _, climbed = evaluation.over_batches(update, cache, len(root), batch_size)
    gradient = in_units(climbed.gradient, climbed.is_sound)
    return climbed._replace(gradient=gradient)


def in_units(gradient: PyTree, is_sound: Bool[Array, " n"]) -> PyTree:
    """A gradient in units of its root mean square; rows that are not finite are 0.

    The push is many times as strong while the bandwidth is small, and an optimizer that
    remembers squared gradients would crawl for hundreds of iterations afterwards.
    """

    def sound(x):
        return jnp.where(is_sound.reshape((-1,) + (1,) * (x.ndim - 1)), x, 0.0)

    # The barrier keeps consumers from computing the gradient again.
    gradient = jax.lax.optimization_barrier(jax.tree.map(sound, gradient))
    leaves = jax.tree.leaves(gradient)
    # Qualities of 1e30 have squares out of range.
    scale = near_one(*(x.astype(jnp.float32) for x in leaves))
    gradient = jax.tree.map(lambda x: x * scale.astype(x.dtype), gradient)
    leaves = jax.tree.leaves(gradient)
    total = jnp.stack([jnp.sum(x.astype(jnp.float32) ** 2) for x in leaves]).sum()
    unit = jnp.sqrt(total / sum(x.size for x in leaves))
    factor = jnp.where(unit > 0, 1.0 / jnp.where(unit > 0, unit, 1.0), 1.0)
    return jax.tree.map(lambda x: x * factor.astype(x.dtype), gradient)
