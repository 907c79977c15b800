"""A bandwidth that sets itself: SQUAD without a gamma_sq to tune.

A solution whose neighbors overlap with it by ``o`` has the share ``1 / (1 + o)`` of its
light for itself. The overlap of a population is the number that, put in place of every
``o``, gives the same mean share: 0 where all solutions are apart, the number of
neighbors where they coincide. gamma_sq follows a target for it, which is a number
without a unit: multiplying behaviors or qualities changes nothing.

As the bandwidth narrows, steps must shorten too, or solutions jump over the neighbors
they are to keep clear of: the pace, a factor of all steps, keeps them within a part of
the bandwidth.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from softqd.ops.distances import mask_self, squared_distances
from softqd.ops.kernels import pair_kernel
from softqd.types import Problem

# The target falls by this factor from the first iteration to the last: spread, then
# polish.
ANNEALING = 30.0
# How far solutions go in the last iteration, in bandwidths, root mean square.
REACH = 0.2
# Limits of gamma_sq, in squared standard deviations of the population, and of the pace.
GAMMA_LIMITS, PACE_LIMITS = (1e-8, 1e4), (1e-3, 1.0)
# A behavior's scale is at least this part of its bounded range, or of its largest value
# where it has none: what varies less is taken for constant.
_SMALLEST, _SMALLEST_UNBOUNDED = 1e-2, 1e-4
# Mean overlap with a neighbor from which on a place counts as shared.
_SHARED = 0.9
# Overlaps below this count as this.
_FAINT = 1e-6
# Solutions looked at for the first bandwidth.
_NUM_LOOKED_AT = 256


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
    largest = _SMALLEST_UNBOUNDED * jnp.abs(z).max(0)
    smallest = jnp.where(is_bounded, _SMALLEST, largest)
    tiny = jnp.finfo(z.dtype).tiny ** 0.5
    return Scale(z.mean(0), jnp.maximum(jnp.maximum(z.std(0), smallest), tiny))


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
    return jnp.clip((overlap / others - _SHARED) / (1.0 - _SHARED), 0.0, 1.0)


def annealed(
    last: float, iteration: Int[Array, ""], horizon: Int[Array, ""]
) -> Float[Array, ""]:
    """A target at an iteration: from ``last * ANNEALING`` down to ``last``.

    Args:
        last: The last target.
        iteration: From 0 on.
        horizon: Iterations of the run.
    """
    left = 1.0 - jnp.clip(iteration / jnp.maximum(horizon - 1, 1), 0.0, 1.0)
    return last * ANNEALING**left


def overlap_at(
    overlap: float | optax.Schedule, iteration: Int[Array, ""], horizon: Int[Array, ""]
) -> Float[Array, ""]:
    """The target of the overlap: annealed to a number, or a schedule's."""
    if callable(overlap):
        return jnp.asarray(overlap(iteration))
    return annealed(overlap, iteration, horizon)


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


def steer_gamma_sq(
    gamma_sq: Float[Array, ""],
    overlap: Float[Array, ""],
    target: Float[Array, ""],
    others: int,
) -> Float[Array, ""]:
    """The next iteration's bandwidth, from the overlap that this one's led to."""
    return _steer(
        gamma_sq, overlap, target, overlap_slope(target, others), GAMMA_LIMITS
    )


def steer_pace(
    pace: Float[Array, ""], moved: Float[Array, ""], most: Float[Array, ""]
) -> Float[Array, ""]:
    """The next iteration's pace, from how far solutions moved and should at most."""
    return _steer(pace, moved, most, 1.0, PACE_LIMITS)


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


def _steer(value, found, target, slope, limits):
    """Go where what was found meets its target, if it grows by the power ``slope``."""
    error = jnp.log(target) - jnp.log(jnp.maximum(found, _FAINT))
    # At most a factor of e in one iteration.
    step = jnp.clip(error / slope, -1.0, 1.0)
    return jnp.clip(value * jnp.exp(step), *limits)
