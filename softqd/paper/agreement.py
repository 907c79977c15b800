"""The paper's numbers beside ours, in combined standard errors."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from softqd.paper.cases import Cell

# As far apart as two honest runs of the same thing hardly ever are.
MAX_ERRORS = 3


class Mean(NamedTuple):
    """Mean and standard error over seeds."""

    value: float
    error: float

    def text(self, digits: int = 2) -> str:
        """As tables print it; a single seed has no error."""
        if math.isnan(self.value):
            return "-"
        error = "" if math.isnan(self.error) else f" ± {self.error:.{digits}f}"
        return f"{self.value:.{digits}f}{error}"


class Agreement(NamedTuple):
    """Ours against the paper's, in the paper's unit."""

    ours: Mean
    paper: Mean
    num_errors: float  # difference in combined standard errors, after rounding

    @property
    def is_one_seed(self) -> bool:
        """Whether ours has no standard error to judge by."""
        return math.isnan(self.num_errors)

    @property
    def is_within(self) -> bool:
        """Whether they are at most three combined standard errors apart."""
        return self.num_errors <= MAX_ERRORS

    @property
    def percent(self) -> float:
        """By how much ours is larger, in percent of the paper's."""
        return 100.0 * (self.ours.value / self.paper.value - 1.0)

    @property
    def apart(self) -> str:
        """The difference in errors; of a single seed, in percent."""
        text = f"{self.num_errors:.1f}"
        return f"{self.percent:+.1f}%" if self.is_one_seed else text

    @property
    def verdict(self) -> str:
        """In one word or two."""
        if self.is_one_seed:
            return "one seed"
        return "agrees" if self.is_within else "differs"


def mean_of(values: Sequence[float | None], factor: float = 1.0) -> Mean:
    """Mean and standard error of a metric over seeds."""
    numbers = factor * np.array([v for v in values if v is not None], dtype=float)
    if not len(numbers):
        return Mean(math.nan, math.nan)
    spread = numbers.std(ddof=1) if len(numbers) > 1 else math.nan
    return Mean(float(numbers.mean()), float(spread / math.sqrt(len(numbers))))


def compare(ours: Mean, paper: Mean, last_digit: float) -> Agreement:
    """Difference in combined standard errors, half a printed digit forgiven.

    Args:
        ours: Over our seeds; the error of a single seed is NaN, and so is the answer.
        paper: As printed.
        last_digit: Unit of the last printed digit.

    Examples:
        >>> compare(Mean(1.0, 0.3), Mean(3.005, 0.4), 0.01).num_errors
        4.0
    """
    difference = max(0.0, abs(ours.value - paper.value) - last_digit / 2)
    combined = math.hypot(ours.error, paper.error)
    num_errors = difference / combined if combined else math.inf if difference else 0.0
    return Agreement(ours, paper, round(num_errors, 9))


@cache
def paper_tables() -> dict[str, Any]:
    """The paper's result tables, ``[mean, standard error]`` by name."""
    path = resources.files("softqd.paper") / "printed.json"
    return json.loads(path.read_text())


def printed(cell: Cell) -> Mean:
    """What the paper prints in a cell.

    Examples:
        >>> printed(Cell(("tab:ic_results (Table 1, IC)", "SQUAD", "max_objective")))
        Mean(value=93.58, error=0.1)
    """
    found: Any = paper_tables()
    for key in cell.path:
        found = found[key]
    return Mean(*found)


def agreement(values: Sequence[float | None], cell: Cell) -> Agreement:
    """Values over seeds against a cell of the paper."""
    ours = mean_of(values, cell.factor)
    return compare(ours, printed(cell), 10.0**-cell.digits)
