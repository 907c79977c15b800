"""How commands fail: `softqd.cli.invoke` turns these into exit statuses."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import softqd_command
from softqd.experiment.signals import Terminated


class UsageError(ValueError):
    """Wrong usage or bad input: one line on standard error, exit status 2."""


class Interrupted(Exception):
    """Ctrl-C or SIGTERM, under a name that typer does not handle itself."""

    def __init__(self, interrupt: KeyboardInterrupt):
        super().__init__(str(interrupt))
        is_term = isinstance(interrupt, Terminated)
        default = signal.SIGTERM if is_term else signal.SIGINT
        self.signal = getattr(interrupt, "signal", default)


@contextmanager
def interruptible(how: str = "continue with the same command") -> Iterator[None]:
    """What to say on Ctrl-C and SIGTERM; they may still be held back, or raised."""
    softqd_command.how_to_go_on = how
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise Interrupted(interrupt) from interrupt
