"""A run to watch in the terminal: the population in braille dots, and its curves.

Characters only, so that it works over ssh. Drawn a few times a second at most, however
often the run looks up; where the output is no terminal, the plain progress bar remains.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from softqd.experiment.loop import LogPoint
from softqd.experiment.progress import duration
from softqd.types import Problem

# Least seconds between two pictures: the population has to come from the device.
_PAUSE = 0.5
_BLOCKS = "▁▂▃▄▅▆▇█"
# Bits of a braille character, by row and column of its dots (Unicode, U+2800).
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
_BRAILLE = 0x2800


def sparkline(values: Sequence[float], width: int) -> str:
    """Numbers as a row of blocks, the lowest to the highest; NaN is a space.

    Examples:
        >>> sparkline([0.0, 1.0, 2.0, 7.0], width=4)
        '▁▂▃█'
    """
    x = np.asarray(values, float)
    if len(x) > width:
        x = x[np.linspace(0, len(x) - 1, width).round().astype(int)]
    known = x[np.isfinite(x)]
    if not len(known):
        return " " * len(x)
    low, span = known.min(), float(np.ptp(known)) or 1.0
    top = len(_BLOCKS) - 1
    return "".join(
        _BLOCKS[round((v - low) / span * top)] if math.isfinite(v) else " " for v in x
    )


def braille_scatter(
    points: Float[np.ndarray, "n 2"],
    bounds: tuple[Any, Any],
    width: int,
    height: int,
) -> list[str]:
    """Points as braille dots, two across and four down in a character.

    Args:
        points: Where they are; those outside are left out.
        bounds: Lower left and upper right corner.
        width: Characters in a line.
        height: Lines.

    Examples:
        >>> corners = np.array([[0.0, 0.0], [1.0, 1.0]])
        >>> braille_scatter(corners, ([0, 0], [1, 1]), width=2, height=1)
        ['⡀⠈']
    """
    low, high = (np.asarray(side, float) for side in bounds)
    span = np.where(high > low, high - low, 1.0)
    share = (np.asarray(points, float) - low) / span
    share = share[((share >= 0) & (share <= 1)).all(1)]
    last = np.array([2 * width - 1, 4 * height - 1])
    across, up = (share * last).round().astype(int).T
    down = last[1] - up
    cells = np.zeros((height, width), int)
    np.bitwise_or.at(cells, (down // 4, across // 2), _DOTS[down % 4, across % 2])
    return ["".join(chr(_BRAILLE + cell) for cell in row) for row in cells]


class LivePanel:
    """A context manager and a `Reporter` that draws the run on standard error.

    Args:
        problem: What is being solved, for the bounds of its behavior space.
        console: Where to draw.
    """

    def __init__(self, problem: Problem, console: Console | None = None):
        self._problem = problem
        console = console or Console(stderr=True)
        self._live = Live(Text("compiling"), console=console, auto_refresh=False)
        self._drawn, self._point = -math.inf, None
        self._left = ""

    def announce(self, seconds: float) -> None:
        """Remember how long the run will go on."""
        is_known = 0 < seconds < math.inf
        self._left = f"{duration(seconds)} left" if is_known else ""

    def look(self, point: LogPoint) -> None:
        """Remember the newest log point: the run's callback."""
        self._point = point

    def update(self, share: float, iteration: int, latest: dict[str, float]) -> None:
        """Draw, unless that was done a moment ago."""
        is_due = time.perf_counter() - self._drawn >= _PAUSE
        if self._point is not None and (is_due or share >= 1.0):
            self._live.update(self._panel(share, iteration, latest), refresh=True)
            self._drawn = time.perf_counter()

    def _panel(self, share: float, iteration: int, latest: dict[str, float]) -> Panel:
        assert self._point is not None  # update draws after the first log point
        size = self._live.console.size
        width = max(16, min(56, size.width - 46))
        height = max(6, min(18, size.height - 6))
        population = self._point.population()
        keep = np.asarray(population.occupied)
        behavior = np.asarray(population.behavior)[keep]
        quality = np.asarray(population.quality)[keep]
        table = Table.grid(padding=(0, 2))
        lines = braille_scatter(*self._view(behavior, quality), width, height)
        numbers = self._numbers(share, iteration, latest, len(quality))
        table.add_row(Text("\n".join(lines), style="green"), numbers)
        room = size.width - 4  # within the frame
        done = round(share * room)
        bar = Text("━" * done, style="green") + Text("━" * (room - done), "dim")
        title = f"population: {self._axes(behavior.shape[1])}"
        return Panel(Group(table, bar), title=Text(title), title_align="left")

    def _axes(self, dim: int) -> str:
        numbered = [f"behavior {i + 1}" for i in range(dim)]
        names = list(self._problem.behavior_names or numbered)
        return " and ".join([*names, "quality"][:2])

    def _view(self, behavior: np.ndarray, quality: np.ndarray):
        """Two columns to draw, and their limits."""
        bounds = self._problem.bounds(behavior.shape[1])
        low, high = (np.array(side, float)[:2] for side in bounds)
        points = behavior[:, :2]
        if behavior.shape[1] == 1:
            points = np.column_stack([behavior[:, 0], quality])
            low, high = np.append(low, -np.inf), np.append(high, np.inf)
        if not len(points):
            return points, (np.zeros(2), np.ones(2))
        low = np.where(np.isfinite(low), low, points.min(0))
        high = np.where(np.isfinite(high), high, points.max(0))
        return points, (low, high)

    def _numbers(
        self, share: float, iteration: int, latest: dict[str, float], num: int
    ) -> Table:
        assert self._point is not None
        table = Table.grid(padding=(0, 1))
        for name, value in (
            ("iteration", f"{iteration:,} ({share:.0%}) {self._left}"),
            ("evaluations", f"{latest['evaluations']:,.0f}"),
            ("speed", f"{latest['rate']:,.0f} eval/s"),
            ("solutions", f"{num:,}"),
        ):
            table.add_row(Text(name, "dim"), value)
        for name, label in (("mean_quality", "mean quality"), ("max_quality", "best")):
            table.add_row(Text(label, "dim"), f"{latest[name]:.5g}")
            table.add_row("", Text(sparkline(self._point.history[name], 24), "cyan"))
        return table

    def __enter__(self) -> LivePanel:
        self._live.start()
        return self

    def __exit__(self, *exception) -> None:
        self._live.stop()
