"""Evaluations that were paid for, kept in a file until a checkpoint holds them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

_NAME = "journal.jsonl"


class Journal:
    """One line for each evaluation, written as soon as it is known.

    A run that goes on from a checkpoint asks for the same solutions again, bit for bit,
    and finds here what it had been told of them.

    Args:
        folder: Where it is.
        is_resumed: Whether what is there counts; else it is removed.
    """

    def __init__(self, folder: Path, is_resumed: bool):
        self._path = folder / _NAME
        self._known: dict[str, list[tuple[float, list[float]]]] = {}
        if is_resumed and self._path.exists():
            self._read()
        else:
            self._path.unlink(missing_ok=True)

    def _read(self) -> None:
        for line in self._path.read_text().splitlines():
            try:
                row = json.loads(line)
                value = float(row["quality"]), row["behavior"]
                self._known.setdefault(row["solution"], []).append(value)
            except (ValueError, KeyError, TypeError):
                continue  # torn when the process ended

    def take(self, arrays: Iterable[np.ndarray]) -> tuple[float, Any] | None:
        """What is known of a solution; once for each time that it was evaluated."""
        known = self._known.get(_digest(arrays)) if self._known else None
        return known.pop(0) if known else None

    def write(
        self, arrays: Iterable[np.ndarray], quality: float, behavior: np.ndarray
    ) -> None:
        """Add a solution and what it evaluates to."""
        row = {"solution": _digest(arrays), "quality": quality}
        line = json.dumps({**row, "behavior": behavior.tolist()})
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open(self._path, "a") as file:
            # After a line that was torn, a new one begins.
            file.write(("" if file.tell() == 0 else "\n") + line)

    def clear(self) -> None:
        """Begin anew: a checkpoint holds what came of this."""
        self._known.clear()
        self._path.unlink(missing_ok=True)


def _digest(arrays: Iterable[np.ndarray]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
