"""What figures are drawn from: a result, a population, or plain arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from softqd.experiment.result import Result
from softqd.experiment.words import behavior_names
from softqd.ops.level import declared_level
from softqd.types import Population, Problem

Arrays = tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n d"]]
Found = Result | Population | Arrays
Sides = tuple[np.ndarray, np.ndarray]


class View(NamedTuple):
    """What is known of a population and of its space."""

    quality: Float[np.ndarray, " n"]
    behavior: Float[np.ndarray, "n d"]
    bounds: Sides  # infinite where they are not known
    names: tuple[str, ...]
    level: float  # from where quality is measured
    solutions: Any = None
    target: np.ndarray | None = None  # of the problem

    @property
    def light(self) -> Float[np.ndarray, " n"]:
        """Quality above the level."""
        return np.maximum(self.quality - self.level, 0)


def view(
    found: Found,
    problem: Problem | None = None,
    bounds: Any = None,
    level: float | None = None,
) -> View:
    """Read what a figure is drawn from.

    Args:
        found: A `softqd.Result`, a `softqd.Population` or ``(quality, behavior)``.
        problem: For bounds, names of behaviors and the quality level; by default a
            result's own.
        bounds: ``(low, high)`` in place of the problem's, numbers or vectors.
        level: From where quality is measured; by default the result's, or else what
            the problem declares, or 0.

    Raises:
        TypeError: If ``found`` is something else.
        ValueError: If it holds no solution.
    """
    if isinstance(found, Result):
        problem = found.problem if problem is None else problem
        level = found.quality_level if level is None else level
        found = found.population
    solutions = None
    if isinstance(found, Population):
        kept = found.compact()
        solutions, quality, behavior = kept.solutions, kept.quality, kept.behavior
    elif isinstance(found, tuple) and len(found) == 2:
        quality, behavior = found
    else:
        raise TypeError(
            "found must be a softqd.Result, a softqd.Population or a pair (quality, "
            f"behavior); got {type(found).__name__}"
        )
    quality, behavior = np.asarray(quality), np.asarray(behavior)
    if not len(quality):
        raise ValueError(
            "the population is empty: there is nothing to draw; run for longer, or "
            "draw another one"
        )
    dim = behavior.shape[1]
    low, high = (-np.inf, np.inf) if problem is None else problem.bounds(dim)
    low, high = (low, high) if bounds is None else bounds
    sides = np.broadcast_to(low, (dim,)), np.broadcast_to(high, (dim,))
    level = declared_level(problem) or 0.0 if level is None else level
    names = behavior_names(problem, dim)
    target = None if problem is None else problem.target
    return View(quality, behavior, sides, names, level, solutions, target)


def views(
    several: Mapping[str, Found], problem: Problem | None, bounds: Any, level: Any
) -> dict[str, View]:
    """Read several populations, their quality measured from the lowest level."""
    found = {t: view(one, problem, bounds, level) for t, one in several.items()}
    lowest = min(one.level for one in found.values())
    return {title: one._replace(level=lowest) for title, one in found.items()}


def finite_bounds(behavior: Float[np.ndarray, "n d"], bounds: Sides) -> Sides:
    """Bounds as two vectors, the population's range where they are infinite."""
    low, high = (np.array(side, dtype=float) for side in bounds)
    low = np.where(np.isfinite(low), low, behavior.min(0))
    high = np.where(np.isfinite(high), high, behavior.max(0))
    return low, np.where(high > low, high, low + 1.0)
