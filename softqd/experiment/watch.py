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
# What may come of qualities whose gradients' squares are out of range.
_LARGE, _SMALL = 1e15, 1e-15
# Bounds that hold fewer numbers than this are hardly a space.
_FEW = 256
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


def still_words(quality: Float[np.ndarray, " n"]) -> str:
    """Why gradients moved nothing, as far as qualities tell.

    Examples:
        >>> still_words(np.array([2e30]))[:50]
        'every quality and behavior is what it was: qualiti'
    """
    size = float(np.abs(quality).max(initial=0))
    if size == 0 or _SMALL < size < _LARGE:
        return STILL
    return (
        f"every quality and behavior is what it was: qualities are as {_word(size)} as "
        f"{size:.1g}, and an optimizer that squares their gradients leaves the range "
        f"of float32. Multiply quality by {1 / size:.0e}"
    )


def _word(size: float) -> str:
    return "large" if size > 1 else "small"


def narrow_words(problem: Problem, dim: int, dtype: np.dtype) -> str | None:
    """What to say of bounds between which this type has hardly any numbers."""
    low, high = (np.asarray(side, float) for side in problem.bounds(dim))
    is_bounded = np.isfinite(low) & np.isfinite(high)
    size = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(invalid="ignore"):
        numbers = (high - low) / (size * np.finfo(dtype).eps)
        numbers = np.where(is_bounded, numbers, np.inf)
    if not (numbers < _FEW).any():
        return None
    i = int(numbers.argmin())
    return (
        f"behavior_bounds of problem {problem.name!r} go from {low[i]:.9g} to "
        f"{high[i]:.9g} in dimension {i}, between which {dtype} has about "
        f"{numbers[i]:.0f} numbers: behaviors can hardly differ there. Subtract "
        f"{low[i]:.9g} from the behavior, and from its bounds"
    )


def refused_words(
    num_there: int, refused: list[float], evaluations: float, gradients: float
) -> str | None:
    """What to say of solutions that were refused because they were not finite.

    Args:
        num_there: Solutions at the end.
        refused: How many an iteration refused, at log points.
        evaluations: Of an iteration.
        gradients: Taken in an iteration.

    Examples:
        >>> refused_words(0, [30.0, 30.0], 30, 0)[:48]
        'there is no solution: of about 30 evaluations in'
        >>> refused_words(5, [0.0, 8.0], 30, 4) is None
        True
    """
    if not refused:
        return None
    if num_there == 0 and refused[-1] == 0:
        return (
            f"there is no solution: none of about {evaluations:.0f} evaluations in an "
            "iteration found a cell. Do the behavior_bounds fit the behaviors?"
        )
    if num_there == 0:
        return (
            f"there is no solution: of about {evaluations:.0f} evaluations in an "
            f"iteration {refused[-1]:.0f} were not finite. Look at what evaluate "
            "gives for a solution of sample: quality and all behaviors must be numbers"
        )
    if gradients and min(refused) >= gradients:
        return (
            f"in every iteration that was logged at least {min(refused):.0f} solutions "
            f"were not finite, and {gradients:.0f} gradients were taken: are they "
            "finite? Look at jax.grad of quality and behavior; square roots, norms and "
            "quotients have none at 0"
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
