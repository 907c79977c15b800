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
    found, z, pullback = evaluation.evaluate_with_vjp(
        problem, solutions, key, to_z, batch_size
    )
    is_sound = rows_finite(found)
    quality = jnp.where(is_sound, found.quality, before.quality)
    behavior = jnp.where(is_sound[:, None], found.behavior, before.behavior)
    z = jnp.where(is_sound[:, None], z, to_z(before.behavior))
    light = jnp.maximum(quality - level, 0.0)
    rows, widths = jnp.arange(len(light)), jnp.full_like(light, gamma_sq)
    rep = repulsion(z, rows, z, safe_sqrt(light), widths, num_neighbors)
    overlap = rep.overlap / mean_root
    # Eq. (5) with quality held constant inside the repulsion.
    push = (2.0 / gamma_sq) * safe_sqrt(light)[:, None] * rep.push
    crowded = crowding(overlap, num_neighbors) * light
    push += (crowded / jnp.sqrt(gamma_sq))[:, None] * direction
    ones = jnp.ones_like(quality)
    gradient = widened(pullback(ones, push))
    slope = widened(pullback(ones, jnp.zeros_like(push))) if with_slope else ()
    is_sound &= rows_finite(gradient)
    return Climbed(
        found=Evaluation(quality, behavior),
        z=z,
        overlap=overlap,
        is_sound=is_sound,
        gradient=in_units(gradient, is_sound),
        slope=slope,
    )


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
