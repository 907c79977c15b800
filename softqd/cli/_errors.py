"""How commands fail: `softqd.cli.invoke` turns these into exit statuses."""

from __future__ import annotations


class UsageError(ValueError):
    """Wrong usage or bad input: one line on standard error, exit status 2."""


class Interrupted(Exception):
    """Ctrl-C, under a name that typer does not handle itself; says how to go on."""
