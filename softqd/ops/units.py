"""Units in which behaviors are measured: where metrics see 0 and 1.

Declared bounds, or what a first population shows where a problem declares none: the
box in which uniform numbers have its mean and standard deviation. Behaviors may leave
that box; it is a unit, not a limit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from softqd.types import Problem

# Lower and upper end, one number per behavior, as JSON holds them.
Units = list[list[float]]
# Half the width of an interval over the standard deviation of uniform numbers in it.
_HALF = 3**0.5
# A spread below this part of the values is rounding.
_CONSTANT = 1e-6


def units_of(
    problem: Problem | None, behavior: Float[np.ndarray, "n d"]
) -> Units | None:
    """Declared bounds, and the units of a first population where there are none.

    None where nothing is declared and nobody there. A behavior that is constant has the
    unit 1.

    Examples:
        >>> import numpy as np
        >>> units_of(None, np.array([[-1.0], [1.0]]))
        [[-1.7320508075688772], [1.7320508075688772]]
    """
    dim = behavior.shape[1]
    low, high = (np.full(dim, -np.inf), np.full(dim, np.inf))
    if problem is not None:
        low, high = problem.bounds(dim)
    is_declared = np.isfinite(low) & np.isfinite(high)
    if is_declared.all():
        return [low.tolist(), high.tolist()]
    if not len(behavior):
        return None
    behavior = np.asarray(behavior, np.float64)
    center, spread = behavior.mean(0), behavior.std(0)
    is_constant = spread <= _CONSTANT * np.abs(behavior).max(0)
    half = np.where(is_constant, 0.5, _HALF * spread)
    low = np.where(is_declared, low, center - half)
    high = np.where(is_declared, high, center + half)
    return [low.tolist(), high.tolist()]


def pooled_units(several: Sequence[Units]) -> Units:
    """Units of first populations put together, each with the same weight.

    Examples:
        >>> pooled_units([[[0.0], [2.0]], [[0.0], [2.0]]])
        [[0.0], [2.0]]
    """
    low, high = np.asarray(several, np.float64).swapaxes(0, 1)
    center, spread = (low + high) / 2, (high - low) / 2 / _HALF
    total = np.sqrt((spread**2 + (center - center.mean(0)) ** 2).mean(0))
    # Declared ones are the same everywhere, and stay what they are to the last bit.
    is_same = (low == low[:1]).all(0) & (high == high[:1]).all(0)
    half = _HALF * total
    low = np.where(is_same, low[0], center.mean(0) - half)
    high = np.where(is_same, high[0], center.mean(0) + half)
    return [low.tolist(), high.tolist()]
