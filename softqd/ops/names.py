"""Look a name up, or say which one was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any


class UnknownNameError(ValueError):
    """A name that is not registered; the message holds the nearest known one."""


def lookup(kind: str, name: str, known: Mapping[str, Any], see: str) -> Any:
    """Return ``known[name]``, or say what was probably meant.

    Raises:
        UnknownNameError: If the name is unknown.
    """
    if name in known:
        return known[name]
    raise UnknownNameError(unknown_message(kind, name, known, see))


def unknown_message(kind: str, name: str, known: Iterable[str], see: str) -> str:
    """One line that names the nearest known name and where to find the others."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"unknown {kind} {name!r:.80}; {hint}{see}"
