"""Ctrl-C, and SIGTERM where somebody listens: held back, or raised.

Schedulers of clusters send SIGTERM. The command line treats it like Ctrl-C; elsewhere
Python leaves it to the system, and so does a run.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]


class Terminated(KeyboardInterrupt):
    """SIGTERM came, and is treated like Ctrl-C."""


def raise_interrupt(number: int, frame: FrameType | None = None) -> None:
    """A handler: raise `KeyboardInterrupt`, or `Terminated`."""
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def signal_of(error: KeyboardInterrupt) -> int:
    """Which of them raised this."""
    return signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT


@contextmanager
def handling(handler: Handler) -> Iterator[dict[int, Any]]:
    """Have both signals handled by this for a while, in the main thread.

    Yields:
        The handlers before, by signal; SIGTERM is left alone where it has none.
    """
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before[signal.SIGINT] = signal.getsignal(signal.SIGINT)
        if callable(found := signal.getsignal(signal.SIGTERM)):
            before[signal.SIGTERM] = found
    try:
        for number in before:
            signal.signal(number, handler)
        yield before
    finally:
        for number, found in before.items():
            signal.signal(number, found)


class Deferred:
    """Holds both back until a state is whole; a second one is immediate.

    Attributes:
        pending: The first that came; 0 while none has.
    """

    def __enter__(self) -> Deferred:
        self.pending = 0
        self._handling = handling(self._note)
        self._before = self._handling.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._handling.__exit__(*exception)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.pending:
            self.pending = number
            return
        found = self._before[number]
        # Of programs that were started to ignore Ctrl-C, too.
        (found if callable(found) else raise_interrupt)(number, frame)
