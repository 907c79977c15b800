"""What keeps a population from spreading, told while a run goes on."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from softqd.ops.transforms import is_outside
from softqd.types import Problem

STILL = (
    "every quality and behavior is what it was: their gradients are zero. Is evaluate "
    "differentiable? round, floor, argmax, comparisons and casts to integers have no "
    "gradient; look at jax.grad of its quality"
)
# Behaviors that differ by less than this part of their size are one place.
_SAME = 1e-6


def trouble(
    quality: Float[np.ndarray, " n"],
    behavior: Float[np.ndarray, "n d"],
    level: float | None,
) -> str | None:
    """Why a population cannot spread; None if nothing is known to keep it from it.

    Args:
        quality: Qualities.
        behavior: Behaviors.
        level: From where the method measures quality; None for one that has no use for
            light.

    Examples:
        >>> import numpy as np
        >>> trouble(np.array([1.0, 2.0]), np.array([[0.0], [1.0]]), 0.0) is None
        True
        >>> trouble(np.array([1.0, 2.0]), np.array([[5.0], [5.0]]), 0.0)[:41]
        'all 2 solutions have one and the same beh'
    """
    if len(quality) < 2:
        return None
    if level is not None and not (quality > level).any():
        return (
            f"no solution is better than the level {level:g} from which quality is "
            f"measured (the best has {quality.max():g}): none is lit, so none is "
            "pushed away from another. Give Problem a lower quality_level"
        )
    if (np.ptp(behavior, axis=0) <= _SAME * np.abs(behavior).max(0)).all():
        place = np.array2string(behavior[0], precision=4, threshold=8)
        return (
            f"all {len(quality)} solutions have one and the same behavior, {place}: "
            "there is nothing to spread over. Does the behavior of evaluate depend on "
            "the solution, within behavior_bounds?"
        )
    return None


def num_outside(problem: Problem | None, behavior: Float[np.ndarray, "n d"]) -> int:
    """How many behaviors lie outside their declared bounds."""
    return 0 if problem is None else int(is_outside(problem, behavior).sum())


def outside_words(num: int, problem: Problem | None, which: str = "") -> str:
    """What to say of behaviors that have left their bounds."""
    name = "" if problem is None else f" of problem {problem.name!r}"
    are = "solution has a behavior" if num == 1 else "solutions have behaviors"
    return (
        f"at the end{which}, {num} {are} outside of the behavior_bounds{name}: "
        "distances and metrics take them for the border. Declare wider bounds, or None"
    )
