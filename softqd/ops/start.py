"""How a run opens: first solutions, sampled or given, and what they evaluate to."""

from __future__ import annotations

import jax
from jaxtyping import PyTree

from softqd.ops import evaluation
from softqd.ops.bounds import reflected
from softqd.ops.checks import check_first_evaluation, check_solutions
from softqd.types import Evaluation, Key, Problem


def first_solutions(
    problem: Problem,
    key: Key,
    solutions: PyTree | None,
    num_solutions: int,
    chunk_size: int = 0,
    *,
    any_number: bool = False,
) -> tuple[PyTree, int]:
    """Sample first solutions, or check those given; also the evaluations spent.

    Args:
        problem: The problem.
        key: Randomness.
        solutions: Those given, or None.
        num_solutions: How many to sample.
        chunk_size: How many at once; 0 means all.
        any_number: Whether other numbers may be given.

    Raises:
        ValueError: If the problem cannot sample, or those given cannot be used.
    """
    expected = None if any_number else num_solutions
    if solutions is not None:
        return check_solutions(problem, solutions, expected), 0
    sampled = evaluation.sample(problem, key, num_solutions, chunk_size)
    sampled = reflected(problem, sampled)
    spent = num_solutions * problem.sample_evaluations
    return check_solutions(problem, sampled, num_solutions), spent


def evaluate_first(
    problem: Problem, solutions: PyTree, key: Key, chunk_size: int = 0
) -> tuple[Evaluation, int]:
    """Evaluate solutions to start from; also the evaluations spent.

    Raises:
        ValueError: If an evaluation is not finite or out of bounds, outside `jit`.
    """
    found = evaluation.evaluate(problem, solutions, key, chunk_size)
    check_first_evaluation(problem, *found)
    return found, jax.tree.leaves(solutions)[0].shape[0]
