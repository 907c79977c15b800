"""The level from which quality is measured, so that light is not negative.

One rule for all that measures quality.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from softqd.types import Problem

# Of a first population that is negative somewhere, this part may lie below the level.
# Not the worst: one terrible solution would make all others look alike.
LOW_QUANTILE = 0.1
# Hopeless is what is worse than the lower quartile by so many interquartile ranges:
# Tukey's outer fence.
FENCE = 3.0


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
    otherwise, but not below the worst that is not hopelessly worse than the others.
    Adding a number to a quality that is negative somewhere moves the level by that
    number.

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
        >>> first_level(None, jnp.array([-1e9, -1e5, -4.0, -3.0, -2.0, -1.0])).item()
        -4.0
    """
    quality = jnp.asarray(quality)
    declared = declared_level(problem)
    if declared is not None:
        return jnp.asarray(declared, quality.dtype)
    if occupied is not None:
        quality = jnp.where(occupied, quality, jnp.nan)
    low = jnp.nanquantile(quality, LOW_QUANTILE)
    low = jnp.maximum(low, jnp.nanmin(within_fences(quality)))
    return jnp.where(jnp.nanmin(quality) < 0, low, 0.0).astype(quality.dtype)


def within_fences(quality: Float[Array, " n"]) -> Float[Array, " n"]:
    """NaN for what lies below the lower fence, again and again until nothing does.

    Energies and losses of random solutions may spread over many orders of magnitude;
    measured from their low end, all that are of any use would be equally good.

    Examples:
        >>> import jax.numpy as jnp
        >>> within_fences(jnp.array([-1e9, -1e3, 1.0, 2.0, 3.0, 4.0])).tolist()
        [nan, nan, 1.0, 2.0, 3.0, 4.0]
    """

    def trim(state):
        inside, _ = state
        lower, upper = jnp.nanquantile(inside, jnp.array([0.25, 0.75]))
        is_out = inside < lower - FENCE * (upper - lower)
        return jnp.where(is_out, jnp.nan, inside), is_out.any()

    return jax.lax.while_loop(lambda state: state[1], trim, (quality, True))[0]


def level_of(problem: Problem | None, quality: np.ndarray) -> float | None:
    """`first_level` as a number; None where nothing is declared and nobody there.

    Examples:
        >>> import numpy as np
        >>> level_of(None, np.array([2.0, 3.0]))
        0.0
        >>> level_of(None, np.array([])) is None
        True
    """
    if not len(quality):
        return declared_level(problem)
    return float(first_level(problem, np.asarray(quality)))
