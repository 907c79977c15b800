"""The level from which quality is measured, so that light is not negative.

One rule for all that measures quality.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from softqd.types import Problem

# Of a first population that is negative somewhere, this part may lie below the level.
# Not the worst: one terrible solution would make all others look alike.
LOW_QUANTILE = 0.1


def declared_level(problem: Problem | None) -> float | None:
    """The level that a problem declares, itself or by the low end of its quality."""
    if problem is None:
        return None
    if problem.quality_level is not None:
        return float(problem.quality_level)
    if problem.quality_bounds is not None and np.isfinite(problem.quality_bounds[0]):
        return float(problem.quality_bounds[0])
    return None


def first_level(
    problem: Problem | None,
    quality: Float[Array | np.ndarray, " n"],
    occupied: Bool[Array | np.ndarray, " n"] | None = None,
) -> Float[Array, ""]:
    """The level of a run: declared, or found in its first population.

    Where nothing is declared it is 0 if no quality is negative, and a low quantile
    otherwise. Adding a number to a quality that is negative somewhere moves the level
    by that number.

    Args:
        problem: May declare it.
        quality: Of the first population.
        occupied: Rows that hold a solution; None for all.

    Examples:
        >>> import jax.numpy as jnp
        >>> first_level(None, jnp.array([3.0, 1.0])).item()
        0.0
        >>> first_level(None, jnp.arange(-11.0, 0.0)).item()
        -10.0
    """
    quality = jnp.asarray(quality)
    declared = declared_level(problem)
    if declared is not None:
        return jnp.asarray(declared, quality.dtype)
    if occupied is not None:
        quality = jnp.where(occupied, quality, jnp.nan)
    low = jnp.nanquantile(quality, LOW_QUANTILE)
    return jnp.where(jnp.nanmin(quality) < 0, low, 0.0).astype(quality.dtype)


def level_of(problem: Problem | None, quality: np.ndarray) -> float:
    """`first_level` as a number; 0 where nothing is declared and nobody there.

    Examples:
        >>> import numpy as np
        >>> level_of(None, np.array([]))
        0.0
    """
    if not len(quality):
        return declared_level(problem) or 0.0
    return float(first_level(problem, np.asarray(quality)))
