"""Dominated Novelty Search (Bahlous-Boldi et al. 2025), with and without gradients.

A population of fixed size; children compete with everyone, and those survive whose
distance to their nearest at-least-as-good others is largest: `ops.novelty`. DNS-G, from
the Soft QD paper, adds children that are parents moved up the gradient of quality.
Survivors keep their rows; accepted children take the rows of those that leave.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from softqd.algorithms._assembly import assemble, everyone, given, picked
from softqd.ops import evaluation
from softqd.ops.bounds import reflected
from softqd.ops.checks import check_count, rows_finite
from softqd.ops.novelty import dominated_novelty
from softqd.ops.start import evaluate_first, first_solutions
from softqd.ops.transforms import behavior_transform
from softqd.ops.variation import gradient_step, iso_line
from softqd.types import Algorithm, Evaluation, Key, Problem


class DnsState(NamedTuple):
    """What the next iteration needs."""

    key: Key
    iteration: Int[Array, ""]
    init_evaluations: Int[Array, ""]
    solutions: PyTree
    quality: Float[Array, " n"]
    behavior: Float[Array, "n d"]


class DnsInfo(NamedTuple):
    """What a person wants to see of one iteration."""

    evaluations: Int[Array, ""]
    gradient_evaluations: Int[Array, ""]
    vector_jacobian_products: Int[Array, ""]
    is_finite: Bool[Array, " n"]
    accepted: Int[Array, ""]  # children that survived
    rejected: Int[Array, ""]  # children whose evaluation was not finite


class Parts(NamedTuple):
    """Settings of both methods; `dns` takes no gradients."""

    population_size: int
    batch_size: int
    num_neighbors: int
    iso_sigma: float
    line_sigma: float
    grad_batch_size: int = 0
    step_size: float = 0.0


def dns(
    problem: Problem,
    *,
    population_size: int = 1024,
    batch_size: int = 128,
    num_neighbors: int = 8,
    iso_sigma: float = 0.05,
    line_sigma: float = 0.5,
) -> Algorithm:
    """Dominated Novelty Search.

    One iteration draws pairs of parents uniformly with replacement, makes children by
    iso+line variation, evaluates them, and keeps the ``population_size`` of parents and
    children with the largest dominated novelty, in unit coordinates of the behavior
    space. Children whose evaluation is not finite are never kept.

    Args:
        problem: The problem; no gradient is needed.
        population_size: N, at least 1.
        batch_size: Children of an iteration, at least 1.
        num_neighbors: Nearest at-least-as-good others that count.
        iso_sigma: Scale of the noise in every direction.
        line_sigma: Scale of the noise along the line to the second parent.

    Returns:
        An `Algorithm`. ``init`` also takes solutions to start from, N of them.

    Raises:
        ValueError: If a setting is out of range.

    Examples:
        >>> import softqd
        >>> problem = softqd.problems.sphere(solution_dim=8)
        >>> algorithm = softqd.dns(problem, population_size=16, batch_size=4)
        >>> result = softqd.run(algorithm, num_iterations=3, log_every=3)
        >>> result.history["evaluations"].tolist()
        [16, 28]
    """
    return _assembled("dns", problem, given(locals()))


def dns_g(
    problem: Problem,
    *,
    population_size: int = 1024,
    batch_size: int = 128,
    num_neighbors: int = 8,
    iso_sigma: float = 0.05,
    line_sigma: float = 0.5,
    grad_batch_size: int = 64,
    step_size: float = 0.1,
) -> Algorithm:
    """Dominated Novelty Search with gradient children.

    As `dns`, with further children: parents moved one plain step up the gradient of
    quality. Each of these costs two evaluations, one of them with a gradient.

    Args:
        problem: The problem; `evaluate` must be differentiable.
        population_size: N, at least 1.
        batch_size: Children by variation, at least 1.
        num_neighbors: Nearest at-least-as-good others that count.
        iso_sigma: Scale of the noise in every direction.
        line_sigma: Scale of the noise along the line to the second parent.
        grad_batch_size: Children by gradient, at least 1.
        step_size: Length of a step in units of the gradient.

    Returns:
        An `Algorithm`. ``init`` also takes solutions to start from, N of them.

    Raises:
        ValueError: If a setting is out of range.
    """
    check_count("grad_batch_size", grad_batch_size, 1)
    return _assembled("dns_g", problem, given(locals()))


def _assembled(name: str, problem: Problem, settings: dict[str, Any]) -> Algorithm:
    """`dns`, or `dns_g` with its two settings more."""
    for setting in ("population_size", "batch_size", "num_neighbors"):
        check_count(setting, settings[setting], 1)
    how = (_init, _step, everyone)
    return assemble(name, problem, settings, picked(Parts, settings), *how)


def _init(
    parts: Parts, problem: Problem, key: Key, solutions: PyTree | None = None
) -> DnsState:
    n, m = parts.population_size, parts.batch_size
    key, sample_key, evaluate_key = jax.random.split(key, 3)
    first, drawn = first_solutions(problem, sample_key, solutions, n, m)
    found, spent = evaluate_first(problem, first, evaluate_key, m)
    return DnsState(key, jnp.int32(0), jnp.int32(drawn + spent), first, *found)


def _step(parts: Parts, problem: Problem, state: DnsState) -> tuple[DnsState, DnsInfo]:
    key, *keys = jax.random.split(state.key, 7)
    children = _children(parts, problem, state.solutions, keys[:5])
    children = reflected(problem, children)
    new = evaluation.evaluate(problem, children, keys[5])
    k, num_gradients = parts.num_neighbors, parts.grad_batch_size
    state, accepted, is_sound = _compete(problem, state, children, new, k)
    info = DnsInfo(
        evaluations=jnp.int32(parts.batch_size + 2 * num_gradients),
        gradient_evaluations=jnp.int32(num_gradients),
        vector_jacobian_products=jnp.int32(num_gradients),
        is_finite=jnp.ones((parts.population_size,), bool),
        accepted=accepted,
        rejected=(~is_sound).sum(),
    )
    return state._replace(key=key, iteration=state.iteration + 1), info


def _children(
    parts: Parts, problem: Problem, solutions: PyTree, keys: list[Key]
) -> PyTree:
    """Variations of random parents, then parents moved up the gradient, if any."""

    def parents(key: Key, count: int) -> PyTree:
        rows = jax.random.randint(key, (count,), 0, parts.population_size)
        return jax.tree.map(lambda x: x[rows], solutions)

    first, second = (parents(k, parts.batch_size) for k in keys[:2])
    varied = iso_line(first, second, keys[2], parts.iso_sigma, parts.line_sigma)
    if not parts.grad_batch_size:
        return varied
    elders = parents(keys[3], parts.grad_batch_size)
    moved = gradient_step(problem, elders, keys[4], parts.step_size)
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), varied, moved)


def _compete(
    problem: Problem, state: DnsState, children: PyTree, new: Evaluation, k: int
) -> tuple[DnsState, Array, Array]:
    """Keep the most novel of parents and children, in place."""
    n = state.quality.shape[0]
    is_sound = rows_finite(new)
    # Unsound children are no rivals to anyone, and are kept by no one.
    quality = jnp.where(is_sound, new.quality, -jnp.inf)
    quality = jnp.concatenate([state.quality, quality])
    behavior = jnp.where(is_sound[:, None], new.behavior, 0.0)
    behavior = jnp.concatenate([state.behavior, behavior])
    to_unit = behavior_transform(problem, state.behavior.shape[1], "identity")
    score = dominated_novelty(quality, to_unit(behavior), k)
    score = jnp.where(jnp.isneginf(quality), -jnp.inf, score)
    _, best = jax.lax.top_k(score, n)  # of equals, the elder
    is_kept = jnp.zeros(score.shape, bool).at[best].set(True)
    rows = rows_to_replace(is_kept[:n], is_kept[n:])

    def replace(old, young):
        return old.at[rows].set(young, mode="drop")

    pairs = ((state.solutions, state.quality, state.behavior), (children, *new))
    solutions, quality, behavior = jax.tree.map(replace, *pairs)
    kept = state._replace(solutions=solutions, quality=quality, behavior=behavior)
    return kept, is_kept[n:].sum(), is_sound


def rows_to_replace(
    is_old_kept: Bool[Array, " n"], is_new_kept: Bool[Array, " b"]
) -> Int[Array, " b"]:
    """Rows that newcomers take over, one for each that is kept; n for the others.

    As many must leave as come.

    Examples:
        >>> import jax.numpy as jnp
        >>> old, new = jnp.array([True, False, False]), jnp.array([True, False, True])
        >>> rows_to_replace(old, new).tolist()
        [1, 3, 2]
    """
    n, b = is_old_kept.shape[0], is_new_kept.shape[0]
    free = jnp.nonzero(~is_old_kept, size=b, fill_value=n)[0]
    place = jnp.cumsum(is_new_kept) - 1
    return jnp.where(is_new_kept, free[jnp.maximum(place, 0)], n)
