"""Progress of a run, and of an experiment of many runs, on standard error.

A bar in a terminal and in a notebook, where it needs no widgets; a line now and then
where standard error is a file or a pipe.
"""

from __future__ import annotations

import html
import math
import sys
import time
from typing import Any, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

# A run that takes longer than this is announced, in seconds.
_LONG = 60.0
# A line is due after so many seconds, or so much of the way if a second has passed.
_PAUSE, _PART, _LEAST = 10.0, 0.1, 1.0
# Seconds between two pictures of a notebook's bar.
_REDRAW = 0.2


class Display(Protocol):
    """Where progress is shown."""

    def show(self, share: float, head: str, text: str) -> None:
        """The share that is done, from 0 to 1, and the words around it."""
        ...

    def say(self, line: str) -> None:
        """A line that stays."""
        ...

    def close(self) -> None:
        """Show the last state."""
        ...


class _Terminal:
    """A bar of rich."""

    def __init__(self, console: Console, period: float):
        self._progress = Progress(
            TextColumn("{task.fields[head]}"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}"),
            console=console,
            speed_estimate_period=period,
        )
        self._task = self._progress.add_task("", total=1.0, head="", text="compiling")
        self._progress.start()

    def show(self, share: float, head: str, text: str) -> None:
        self._progress.update(self._task, completed=share, head=head, text=text)

    def say(self, line: str) -> None:
        self._progress.console.print(line, highlight=False)

    def close(self) -> None:
        self._progress.stop()


class _Pace:
    """The time left, by how the share has grown so far."""

    def __init__(self):
        self._began, self._first = time.perf_counter(), None

    def left(self, share: float) -> str:
        if self._first is None:
            self._began, self._first = time.perf_counter(), share
        done = share - self._first
        if done <= 0 or share >= 1:
            return ""
        elapsed = time.perf_counter() - self._began
        return f", {duration(elapsed * (1 - share) / done)} left"


class _Lines:
    """A line now and then."""

    def __init__(self):
        self._pace, self._line = _Pace(), ""
        self._said, self._share = None, 0.0

    def show(self, share: float, head: str, text: str) -> None:
        self._line = f"{head}, {share:.0%}{self._pace.left(share)}: {text}"
        now = time.perf_counter()
        if self._said is None:  # compiling does not count
            self._said, self._share = now, share
        since, done = now - self._said, share - self._share
        if since >= _PAUSE or (since >= _LEAST and done >= _PART):
            self._said, self._share = now, share
            self.close()

    def say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._line:
            self.say(self._line)
        self._line = ""


class _Notebook:
    """A bar in HTML, drawn again in its place."""

    def __init__(self):
        # A notebook has it.
        from IPython.display import (  # pyright: ignore[reportMissingImports]
            HTML,
            display,
        )

        self._picture: Any = HTML
        self._handle: Any = display(HTML(""), display_id=True)
        self._pace, self._drawn, self._html = _Pace(), -math.inf, ""

    def show(self, share: float, head: str, text: str) -> None:
        words = html.escape(f"{head}{self._pace.left(share)}: {text}")
        self._html = f'<progress value="{share:.4f}" max="1"></progress> {words}'
        if time.perf_counter() - self._drawn >= _REDRAW:
            self.close()

    def say(self, line: str) -> None:
        """The bar says how much time is left."""

    def close(self) -> None:
        self._drawn = time.perf_counter()
        self._handle.update(self._picture(self._html))


def display_for(console: Console, period: float = 30.0) -> Display:
    """The display that suits the output.

    Args:
        console: On standard error.
        period: Seconds that a terminal's estimate of the time left looks back.
    """
    if console.is_jupyter:
        return _Notebook()
    return _Terminal(console, period) if console.is_terminal else _Lines()


class _Shown:
    """A context manager with a display that opens when it is entered."""

    period = 30.0
    _display: Display

    def __enter__(self) -> Self:
        self._display = display_for(Console(stderr=True), self.period)
        return self

    def __exit__(self, *exception) -> None:
        self._display.close()


class ProgressBar(_Shown):
    """A context manager and a `Reporter` that shows how far a run is."""

    def __init__(self):
        self._is_announced = False

    def announce(self, seconds: float) -> None:
        """Say once how long a long run will take, by what an iteration took."""
        if not self._is_announced and _LONG < seconds < math.inf:
            self._display.say(f"this run will take about {duration(seconds)}")
        self._is_announced = True

    def update(self, share: float, iteration: int, latest: dict[str, float]) -> None:
        """Show how far the run is, its iteration and its newest figures."""
        text = (
            f"quality {latest['mean_quality']:.4g} best {latest['max_quality']:.4g}, "
            f"{latest['rate']:,.0f} eval/s"
        )
        self._display.show(share, f"iteration {iteration}", text)


class ExperimentBar(_Shown):
    """A context manager: runs done of all runs, and the time left for the rest."""

    # Algorithms differ in speed: all of the past tells more than the last.
    period = 24 * 3600.0

    def __init__(self, num_runs: int, num_kept: int):
        self._runs, self._kept = num_runs, num_kept

    def update(self, shares: float, done: int, text: str) -> None:
        """Show the sum of the runs' shares, how many are done, and what goes on."""
        share = shares / max(1, self._runs - self._kept)
        head = f"{self._kept + done} of {self._runs} runs"
        self._display.show(share, head, text)


def duration(seconds: float) -> str:
    """Seconds in the words of a clock, to two figures or so.

    Examples:
        >>> duration(75), duration(600), duration(7500)
        ('1 min 15 s', '10 min', '2 h 5 min')
    """
    whole = round(seconds)
    if whole >= 600:
        hours, minutes = divmod(round(whole / 60), 60)
        parts = [(hours, "h"), (minutes, "min")]
    else:
        parts = [(whole // 60, "min"), (whole % 60, "s")]
    return " ".join(f"{n} {unit}" for n, unit in parts if n) or "0 s"
