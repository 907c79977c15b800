"""How commands fail: `softqd.cli.invoke` turns these into exit statuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class UsageError(ValueError):
    """Wrong usage or bad input: one line on standard error, exit status 2."""


class Interrupted(Exception):
    """Ctrl-C, under a name that typer does not handle itself; says how to go on."""


@contextmanager
def interruptible(how: str = "continue with the same command") -> Iterator[None]:
    """Turn Ctrl-C into `Interrupted`, which says how to go on."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise Interrupted(how) from interrupt
