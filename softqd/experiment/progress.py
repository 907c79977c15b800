"""The progress bar of a run: iteration, time left, quality, evaluations per second."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)


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
        self._task = self._progress.add_task(
            "run", total=1.0, iteration=0, text="compiling"
        )

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
