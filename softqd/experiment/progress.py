"""The progress bar of a run: iteration, time left, quality, evaluations per second."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)


class ProgressBar:
    """A context manager around a rich progress bar on standard error."""

    def __init__(self, num_iterations: int | None, done: int):
        self._progress = Progress(
            TextColumn("iteration"),
            MofNCompleteColumn(),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}"),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task(
            "run", total=num_iterations, completed=done, text=""
        )

    def update(self, iteration: int, latest: dict[str, float]) -> None:
        """Show an iteration and the newest figures."""
        text = (
            f"quality mean {latest['mean_quality']:.4g} best "
            f"{latest['max_quality']:.4g}, {latest['rate']:,.0f} evaluations/s"
        )
        self._progress.update(self._task, completed=iteration, text=text)

    def __enter__(self) -> ProgressBar:
        self._progress.start()
        return self

    def __exit__(self, *exception) -> None:
        self._progress.stop()
