"""Progress bars: of a run, and of an experiment of many runs."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

# A run that takes longer than this is announced, in seconds.
_LONG = 60.0


class ProgressBar:
    """A context manager around a rich progress bar on standard error."""

    def __init__(self):
        self._progress = Progress(
            TextColumn("iteration {task.fields[iteration]}"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}"),
            console=Console(stderr=True),
        )
        self._is_announced = False
        self._task = self._progress.add_task(
            "run", total=1.0, iteration=0, text="compiling"
        )

    def announce(self, seconds: float) -> None:
        """Say once how long a long run will take, by what an iteration took."""
        if not self._is_announced and seconds > _LONG:
            self._progress.console.print(
                f"this run will take about {duration(seconds)}", highlight=False
            )
        self._is_announced = True

    def update(self, share: float, iteration: int, latest: dict[str, float]) -> None:
        """Show how far the run is, its iteration and its newest figures."""
        text = (
            f"quality {latest['mean_quality']:.4g} best {latest['max_quality']:.4g}, "
            f"{latest['rate']:,.0f} eval/s"
        )
        self._progress.update(
            self._task, completed=share, iteration=iteration, text=text
        )

    def __enter__(self) -> ProgressBar:
        self._progress.start()
        return self

    def __exit__(self, *exception) -> None:
        self._progress.stop()


class ExperimentBar:
    """A context manager: runs done of all runs, and the time left for the rest."""

    def __init__(self, num_runs: int, num_kept: int):
        self._progress = Progress(
            TextColumn("{task.fields[done]} of {task.fields[runs]} runs"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}"),
            console=Console(stderr=True),
            # Algorithms differ in speed: all of the past tells more than the last.
            speed_estimate_period=24 * 3600.0,
        )
        self._kept = num_kept
        self._task = self._progress.add_task(
            "experiment",
            total=float(num_runs - num_kept),
            done=num_kept,
            runs=num_runs,
            text="",
        )

    def update(self, shares: float, done: int, text: str) -> None:
        """Show the sum of the runs' shares, how many are done, and what goes on."""
        self._progress.update(
            self._task, completed=shares, done=self._kept + done, text=text
        )

    def __enter__(self) -> ExperimentBar:
        self._progress.start()
        return self

    def __exit__(self, *exception) -> None:
        self._progress.stop()


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
