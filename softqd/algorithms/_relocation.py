"""Relocation: children take places that they fill better.

A child is a solution with a little noise, moved towards or away from another one. What
a solution adds is its light for itself, ``f / (1 + overlap)``. A child that adds more
than the solution nearest to it takes that one's place: so a place changes hands, and
none is given up. Where there are no gradients to spread the population, a child may
also take the row of one of those that add least, wherever it is.

Beside gradients there are rounds of children only as often as they pay: as long as one
in `ENOUGH` takes a place in every iteration, and more seldom where fewer do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from softqd.ops.devices import over_devices
from softqd.ops.distances import map_rows, mask_self, squared_distances
from softqd.ops.kernels import pair_kernel
from softqd.ops.variation import iso_line
from softqd.types import Key

# Noise of a child, in standard deviations of the population: beside gradients, which
# find what is good, and without, where noise must.
NOISE, NOISE_ALONE = 0.01, 0.2
# How far a child goes along the line to another solution.
LINE = 0.2
# Light reaches farther here than where it pushes, by this factor of gamma_sq.
WIDER = 2.0
# Children of a round: one for so many solutions.
SOLUTIONS_PER_CHILD = 8
# If one child in so many takes a place, there is a round in every iteration; if fewer
# do, there are as many rounds fewer, but one in so many iterations.
ENOUGH, SELDOM = 20, 16
# How much the newest round counts in the mean of rounds.
_NEWEST = 0.1


class Places(NamedTuple):
    """Solutions as competitors see them."""

    z: Float[Array, "n d"]
    light: Float[Array, " n"]  # quality above the level, not negative


class RelocationState(NamedTuple):
    """How often there are rounds."""

    taken: Float[Array, ""]  # part of the children that take a place, mean of rounds
    due: Float[Array, ""]  # a round is due from 1 on


class Relocation(NamedTuple):
    """The part of SQUAD that makes children.

    Attributes:
        num_children: Of a round.
        init: ``() -> state``.
        propose: ``(key, solutions) -> (children, parents)``, with the row of each
            child's first parent.
        compete: ``(places, children's places, gamma_sq) -> rows``, the row that each
            child takes; n where it takes none.
        update: ``(state, number of children that took a place) -> state``, after an
            iteration; with or without a round.
    """

    num_children: int
    init: Callable
    propose: Callable
    compete: Callable
    update: Callable


def is_due(state: RelocationState) -> Bool[Array, ""]:
    """Whether there is a round in this iteration."""
    return state.due >= 1.0


def relocation(population_size: int, is_alone: bool) -> Relocation:
    """Children that compete for places.

    Args:
        population_size: Number of solutions.
        is_alone: Whether children are alone: noise is larger, a child may take the row
            of a solution far from it, and there is a round in every iteration.
    """
    strength = NOISE_ALONE if is_alone else NOISE
    num_children = max(1, population_size // SOLUTIONS_PER_CHILD)

    def init() -> RelocationState:
        return RelocationState(jnp.ones(()), jnp.ones(()))

    def propose(key: Key, solutions: PyTree) -> tuple[PyTree, Int[Array, " c"]]:
        n = jax.tree.leaves(solutions)[0].shape[0]
        rows_key, vary_key = jax.random.split(key)
        parents, others = jax.random.randint(rows_key, (2, num_children), 0, n)
        pick = lambda rows: jax.tree.map(lambda x: x[rows], solutions)  # noqa: E731
        noise = jax.tree.map(lambda x: strength * x.std(0), solutions)
        return iso_line(pick(parents), pick(others), vary_key, noise, LINE), parents

    def compete(places: Places, children: Places, gamma_sq: Array) -> Int[Array, " c"]:
        width = WIDER * gamma_sq
        near = nearest_places(places, children, width)
        rows = take_nearest(near, len(places.light))
        if not is_alone:
            return rows
        return take_least(rows, near, worth(places, width))

    def update(state: RelocationState, num_taken: Array) -> RelocationState:
        if is_alone:
            return state
        found = num_taken / num_children
        was_due = is_due(state)
        newest = jnp.where(was_due, _NEWEST, 0.0)
        taken = (1.0 - newest) * state.taken + newest * found
        often = jnp.clip(ENOUGH * taken, 1.0 / SELDOM, 1.0)
        left = jnp.where(was_due, state.due - 1.0, state.due)
        return RelocationState(taken, left + often)

    return Relocation(num_children, init, propose, compete, update)


class Nearest(NamedTuple):
    """Each child, and the solution nearest to it."""

    row: Int[Array, " c"]  # of the nearest solution
    worth: Float[Array, " c"]  # what the child adds in its place
    worth_of_nearest: Float[Array, " c"]
    worth_beside: Float[Array, " c"]  # what the child adds while all others stay


def nearest_places(places: Places, children: Places, width: Array) -> Nearest:
    """What children add, and what the solutions nearest to them add."""

    def of_children(children, everyone):
        places, width = everyone
        share = _shares(places)

        def rows(batch):
            child, light = batch
            dist_sq = squared_distances(child, places.z)
            row = jnp.argmin(dist_sq, axis=1)
            kernel = pair_kernel(dist_sq, width) * share[None]
            beside = kernel.sum(1)
            instead = jnp.maximum(
                beside - jnp.take_along_axis(kernel, row[:, None], 1)[:, 0], 0
            )
            theirs = _overlap(places, share, row, width)
            return Nearest(
                row=row,
                worth=light / (1.0 + instead),
                worth_of_nearest=places.light[row] / (1.0 + theirs),
                worth_beside=light / (1.0 + beside),
            )

        return map_rows(rows, tuple(children), 2 * len(share))

    return over_devices(of_children, children, (places, width))


def worth(places: Places, width: Array) -> Float[Array, " n"]:
    """What solutions add: their light for themselves."""

    def of_rows(index, everyone):
        places, width = everyone
        share = _shares(places)
        overlap = map_rows(
            lambda i: _overlap(places, share, i, width), index, len(share)
        )
        return places.light[index] / (1.0 + overlap)

    return over_devices(of_rows, jnp.arange(len(places.light)), (places, width))


def take_nearest(near: Nearest, n: int) -> Int[Array, " c"]:
    """Rows of the nearest solutions that add less; of rivals, the best child wins.

    Examples:
        >>> import jax.numpy as jnp
        >>> row, ones = jnp.array([2, 2, 0]), jnp.ones(3)
        >>> near = Nearest(row, jnp.array([2.0, 3.0, 0.5]), ones, ones)
        >>> take_nearest(near, 4).tolist()
        [4, 2, 4]
    """
    is_better = near.worth > near.worth_of_nearest
    order = jnp.arange(len(near.row))
    row = jnp.where(is_better, near.row, n)
    best = (
        jnp.full((n,), -jnp.inf, near.worth.dtype).at[row].max(near.worth, mode="drop")
    )
    is_best = is_better & (near.worth == best[near.row])
    # Of equals, the first.
    row = jnp.where(is_best, near.row, n)
    first = jnp.full((n,), len(order)).at[row].min(order, mode="drop")
    return jnp.where(is_best & (order == first[near.row]), near.row, n)


def take_least(
    rows: Int[Array, " c"], near: Nearest, worths: Float[Array, " n"]
) -> Int[Array, " c"]:
    """Give children without a place the rows of those that add least, if they add more.

    Args:
        rows: Rows that children take; n for those without a place.
        near: What children add.
        worths: What solutions add.

    Examples:
        >>> import jax.numpy as jnp
        >>> beside = jnp.array([9.0, 0.5, 2.0])
        >>> near = Nearest(jnp.zeros(3, int), beside, beside, beside)
        >>> take_least(jnp.array([3, 3, 0]), near, jnp.array([0.0, 1.0, 0.6])).tolist()
        [2, 3, 0]
    """
    n, c = len(worths), len(rows)
    is_taken = jnp.zeros((n,), bool).at[rows].set(True, mode="drop")
    left = jnp.where(is_taken, jnp.inf, worths)
    lowest, victims = jax.lax.top_k(-left, min(c, n))
    is_homeless = rows >= n
    # The best child meets the least solution.
    order = jnp.argsort(jnp.where(is_homeless, -near.worth_beside, jnp.inf))
    place = jnp.zeros((c,), int).at[order].set(jnp.arange(c))
    place = jnp.minimum(place, len(victims) - 1)
    is_enough = jnp.arange(c) < len(victims)
    wins: Bool[Array, " c"] = near.worth_beside > -lowest[place]
    wins &= is_homeless & is_enough[place]
    return jnp.where(wins, victims[place], rows)


def _shares(places: Places) -> Float[Array, " n"]:
    """Roots of the light in units of their mean, as the bound weighs overlaps."""
    root = jnp.sqrt(places.light)
    mean = root.mean()
    return root / jnp.where(mean > 0, mean, 1.0)


def _overlap(places: Places, share: Array, index: Array, width: Array) -> Array:
    """Overlap of some solutions with all others."""
    dist_sq = mask_self(squared_distances(places.z[index], places.z), index)
    return (pair_kernel(dist_sq, width) * share[None]).sum(1)
