"""What a run tells about its progress: a bar, a panel and a comparison listen."""

from __future__ import annotations

from typing import Protocol


class Reporter(Protocol):
    """What a run tells about its progress."""

    def announce(self, seconds: float) -> None:
        """About how long the run will go on."""
        ...

    def update(self, share: float, iteration: int, latest: dict[str, float]) -> None:
        """How far the run is, from 0 to 1, its iteration and its newest figures."""
        ...
