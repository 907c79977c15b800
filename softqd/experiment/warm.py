"""A start from any number of solutions: too few are completed, of too many some kept.

Of more than the population those are kept that keep most of the Soft QD Score. How many
an algorithm wants is its setting ``population_size``; without one it takes any number.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from softqd.metrics import select, to_unit
from softqd.ops import evaluation
from softqd.ops.bounds import reflected
from softqd.ops.checks import check_first_evaluation
from softqd.ops.level import level_of
from softqd.ops.seeds import key_of
from softqd.types import Algorithm, Key, Problem

# Solutions evaluated at once.
_CHUNK = 256
# What a key is folded with, so that init does not get the same keys by splitting it.
_DRAWN, _CHOSEN = 0x5EED, 0x5E1EC7


def missing(algorithm: Algorithm, solutions: PyTree | None) -> int:
    """How many solutions a start lacks."""
    size = algorithm.settings.get("population_size")
    if solutions is None or algorithm.problem is None or not isinstance(size, int):
        return 0
    return max(0, size - len(jax.tree.leaves(solutions)[0]))


def completed(problem: Problem, solutions: PyTree, key: Key, num: int) -> PyTree:
    """Solutions, and so many that are drawn."""
    drawn = evaluation.sample(problem, jax.random.fold_in(key, _DRAWN), num)
    return jax.tree.map(
        lambda a, b: jnp.concatenate([a, b.astype(a.dtype)]),
        solutions,
        reflected(problem, drawn),
    )


def fitted(
    algorithm: Algorithm, solutions: PyTree, seed: int, is_resumed: bool
) -> tuple[PyTree, int]:
    """At most as many solutions as the population, and evaluations that are spent.

    Args:
        algorithm: What is to start from them.
        solutions: Of its problem, checked.
        seed: For a stochastic problem.
        is_resumed: Whether nothing starts, and only their number matters.
    """
    size, problem = algorithm.settings.get("population_size"), algorithm.problem
    num = len(jax.tree.leaves(solutions)[0])
    if problem is None or not isinstance(size, int):
        return solutions, 0
    if num <= size:
        return solutions, (size - num) * problem.sample_evaluations
    if is_resumed:
        return jax.tree.map(lambda x: x[:size], solutions), 0
    key = jax.random.fold_in(key_of(seed), _CHOSEN)
    evaluate = jax.jit(evaluation.evaluate, static_argnames="chunk_size")
    found = evaluate(problem, solutions, key, chunk_size=_CHUNK)
    quality, behavior = map(np.asarray, found)
    check_first_evaluation(problem, quality, behavior)
    unit = to_unit(problem.bounds(behavior.shape[1]), behavior)
    if unit is None:  # unbounded: in units of what was given
        low, high = behavior.min(0), behavior.max(0)
        unit = (behavior - low) / np.where(high > low, high - low, 1.0)
    light = np.maximum(quality - (level_of(problem, quality) or 0.0), 0.0)
    chosen = np.sort(select(light, unit, size))
    return jax.tree.map(lambda x: x[chosen], solutions), num
