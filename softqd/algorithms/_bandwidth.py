"""A bandwidth that sets itself: SQUAD without a gamma_sq to tune.

A solution whose neighbors overlap with it by ``o`` has the share ``1 / (1 + o)`` of its
light for itself. The overlap of a population is the number that, put in place of every
``o``, gives the same mean share: 0 where all solutions are apart, the number of
neighbors where they coincide. gamma_sq follows a target for it, which is a number
without a unit: multiplying behaviors or qualities changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from softqd.ops.distances import mask_self, squared_distances
from softqd.ops.kernels import pair_kernel
from softqd.ops.transforms import behavior_transform
from softqd.types import Problem

# The target falls by this factor from the first iteration to the last: spread, then
# polish.
ANNEALING = 9.0
# From so many solutions on, the target grows with the root of their number. At one
# overlap more solutions lie closer and reach no farther; at one bandwidth the overlap
# would grow with their number. Half of each.
MANY = 1024
# Limits of gamma_sq, in squared standard deviations of the population.
GAMMA_LIMITS = (1e-8, 1e4)
# A behavior's scale is at least this part of its bounded range, or of its largest value
# where it has none: what varies less is taken for constant.
SMALLEST, SMALLEST_UNBOUNDED = 1e-2, 1e-4
# Mean overlap with a neighbor from which on a place counts as shared.
SHARED = 0.9
# What is found below this counts as this.
FAINT = 1e-6
# Solutions looked at for the first bandwidth.
_NUM_LOOKED_AT = 256


class Bandwidth(NamedTuple):
    """The part of SQUAD that says how far light reaches.

    Attributes:
        init: ``(z) -> gamma_sq``, from the first population's coordinates.
        update: ``(gamma_sq, overlap, progress) -> gamma_sq``, for the next iteration.
    """

    init: Callable
    update: Callable


def steered_bandwidth(
    overlap: float, num_neighbors: int, population_size: int
) -> Bandwidth:
    """Steer the bandwidth so that the population's overlap meets a target.

    Args:
        overlap: The target of the last iteration, of up to `MANY` solutions;
            `ANNEALING` times as high at first, and at most half of what coinciding
            solutions have.
        num_neighbors: How many others repel a solution, at least 1.
        population_size: Number of solutions.
    """
    last = overlap * max(population_size / MANY, 1.0) ** 0.5

    def target(progress):
        return jnp.minimum(annealed(last, ANNEALING, progress), num_neighbors / 2)

    def init(z):
        return first_gamma_sq(z, num_neighbors, target(0.0))

    def update(gamma_sq, found, progress):
        wanted = target(progress)
        slope = overlap_slope(wanted, num_neighbors)
        return steer(gamma_sq, found, wanted, slope, GAMMA_LIMITS)

    return Bandwidth(init, update)


def fixed_bandwidth(gamma_sq: float) -> Bandwidth:
    """Keep one bandwidth, in squared standard deviations of the population."""
    return Bandwidth(
        init=lambda z: jnp.asarray(gamma_sq, z.dtype),
        update=lambda gamma_sq, overlap, progress: gamma_sq,
    )


class Scale(NamedTuple):
    """Where the population lies, and how far it reaches, in each dimension."""

    center: Float[Array, " d"]
    spread: Float[Array, " d"]

    def __call__(self, z: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """Standardized coordinates."""
        return (z - self.center[None]) / self.spread[None]


def scale_of(problem: Problem, z: Float[Array, "n d"]) -> Scale:
    """The scale of a population, positive also where a behavior is constant."""
    low, high = problem.bounds(z.shape[1])
    is_bounded = jnp.asarray(np.isfinite(low) & np.isfinite(high))
    largest = SMALLEST_UNBOUNDED * jnp.abs(z).max(0)
    smallest = jnp.where(is_bounded, SMALLEST, largest)
    tiny = jnp.finfo(z.dtype).tiny ** 0.5
    return Scale(z.mean(0), jnp.maximum(jnp.maximum(z.std(0), smallest), tiny))


def coordinates(problem: Problem, behavior: Float[Array, "n d"]) -> Callable:
    """The map from behaviors to standard deviations of a population."""
    to_unit = behavior_transform(problem, behavior.shape[1], "identity")
    scale = scale_of(problem, to_unit(behavior))
    return lambda b: scale(to_unit(b))


def mean_overlap(overlap: Float[Array, " m"]) -> Float[Array, ""]:
    """The overlap of a population, from those of its members.

    Examples:
        >>> import jax.numpy as jnp
        >>> mean_overlap(jnp.array([0.0, 1.0]))  # mean share 3/4
        Array(0.33333337, dtype=float32)
    """
    return 1.0 / jnp.mean(1.0 / (1.0 + overlap)) - 1.0


def crowding(overlap: Float[Array, " m"], others: int) -> Float[Array, " m"]:
    """How much solutions share their place with all neighbors, from 0 to 1.

    Neighbors at no distance push nowhere: such solutions leave each in a direction of
    its own. It is 0 long before that matters to solutions that are apart.

    Args:
        overlap: With the neighbors, of each solution.
        others: Number of neighbors.

    Examples:
        >>> import jax.numpy as jnp
        >>> crowding(jnp.array([2.0, 15.0]), 15)
        Array([0., 1.], dtype=float32)
    """
    return jnp.clip((overlap / others - SHARED) / (1.0 - SHARED), 0.0, 1.0)


def annealed(
    last: float, factor: float, progress: Float[Array, ""] | float
) -> Float[Array, ""]:
    """A target that falls from ``last * factor`` at progress 0 to ``last`` at 1."""
    return last * factor ** (1.0 - jnp.asarray(progress))


def first_gamma_sq(
    z: Float[Array, "n d"], num_neighbors: int, target: Float[Array, ""]
) -> Float[Array, ""]:
    """The bandwidth at which a population has the target for its overlap."""
    n = z.shape[0]
    num_rows = min(n, _NUM_LOOKED_AT)
    rows = jnp.arange(num_rows)
    dist_sq = mask_self(squared_distances(z[:num_rows], z), rows)
    near = -jax.lax.top_k(-dist_sq, min(num_neighbors, n - 1))[0]

    def halve(_, interval):
        low, high = interval
        middle = (low + high) / 2
        found = mean_overlap(pair_kernel(near, jnp.exp(middle)).sum(1))
        is_wide = found > target
        return jnp.where(is_wide, low, middle), jnp.where(is_wide, middle, high)

    limits = tuple(jnp.log(jnp.asarray(x, z.dtype)) for x in GAMMA_LIMITS)
    low, high = jax.lax.fori_loop(0, 30, halve, limits)
    return jnp.exp((low + high) / 2)


def overlap_slope(target: Float[Array, ""], others: int) -> Float[Array, ""]:
    r"""By what power of gamma_sq an overlap grows at most, near a target.

    An overlap $o = \sum_j K_j$ grows by the power $\sum_j (K_j / o) \log(1 / K_j)$,
    which is the entropy of the shares $K_j / o$ less $\log o$. It is largest where all
    neighbors are at one distance, so that a step by it does not overshoot.

    Args:
        target: The overlap.
        others: Number of neighbors.
    """
    return jnp.maximum(jnp.log(others / target), 1.0)


def steer(
    value: Float[Array, ""],
    found: Float[Array, ""],
    target: Float[Array, ""],
    slope: Float[Array, ""] | float,
    limits: tuple[float, float],
) -> Float[Array, ""]:
    """Go where what was found meets its target, if it grows by the power ``slope``."""
    error = jnp.log(target) - jnp.log(jnp.maximum(found, FAINT))
    # At most a factor of e in one iteration.
    step = jnp.clip(error / slope, -1.0, 1.0)
    return jnp.clip(value * jnp.exp(step), *limits)
