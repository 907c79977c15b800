"""Conditions that end a run: functions of a `LogPoint`, for ``run(stop_when=...)``.

They look at the history alone, so that a run that was interrupted stops where it would
have stopped without that. They compose as functions do:
``lambda point: is_good(point) or is_stuck(point)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from softqd.experiment.loop import LogPoint
from softqd.ops.checks import check_count

Condition = Callable[[LogPoint], bool]


def target(column: str, value: float) -> Condition:
    """Stop once a column of the history has reached a value.

    Args:
        column: Of the history, as ``mean_quality`` or what ``measure`` adds.
        value: That it must be at least.

    Raises:
        ValueError: If the value is not a number.

    Examples:
        >>> is_good = target("max_quality", 2.0)
        >>> [is_good(LogPoint(9, {"max_quality": [q]}, None)) for q in (1.5, 2.0)]
        [False, True]
    """
    if not (isinstance(value, (int, float, np.number)) and not math.isnan(value)):
        raise ValueError(f"value must be a number; got {value!r}")
    return lambda point: bool(_column(point, column)[-1] >= value)


def patience(column: str, iterations: int, min_change: float = 0.0) -> Condition:
    """Stop once the best of a column has not grown for some iterations.

    Args:
        column: Of the history, as ``mean_quality`` or what ``measure`` adds.
        iterations: How long to wait for a better value.
        min_change: By how much more than this it must be better.

    Raises:
        ValueError: If a number cannot be used.

    Examples:
        >>> is_stuck = patience("max_quality", iterations=10)
        >>> history = {"iteration": [0, 10, 20], "max_quality": [1.0, 3.0, 2.0]}
        >>> is_stuck(LogPoint(20, history, None))
        True
    """
    check_count("iterations", iterations, 1)
    if not 0 <= min_change < math.inf:
        raise ValueError(f"min_change must be at least 0 and finite; got {min_change}")

    def is_stuck(point: LogPoint) -> bool:
        values = _column(point, column)
        is_old = np.asarray(point.history["iteration"]) <= point.iteration - iterations
        # NaN: nobody was there yet.
        old, new = (x[~np.isnan(x)] for x in (values[is_old], values[~is_old]))
        if not len(old):
            return False
        return not (new > old.max() + min_change).any()

    return is_stuck


def _column(point: LogPoint, name: str) -> Float[np.ndarray, " rows"]:
    if name not in point.history:
        raise ValueError(
            f"the history has no column {name!r}; it has {', '.join(point.history)}. "
            "run(measure=...) adds columns"
        )
    return np.asarray(point.history[name], float)
