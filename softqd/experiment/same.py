"""Whether two runs are the same, and if not, in what they differ first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from softqd.experiment.files.schema import printable, shown


class Difference(NamedTuple):
    """Where settings differ, and what is there, as a message shows it."""

    place: str
    before: str
    now: str


def first_difference(
    before: Mapping[str, Any], now: Mapping[str, Any]
) -> Difference | None:
    """The first setting, names before others, in which tables differ.

    Examples:
        >>> first_difference({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}})
        Difference(place='a c', before='2', now='3')
    """
    for key in sorted({**before, **now}, key=lambda k: (k != "name", k)):
        old, new = before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            if inner := first_difference(old, new):
                return inner._replace(place=f"{_name(key)} {inner.place}")
        elif old != new:
            return Difference(_name(key), shown(old), shown(new))
    return None


def _name(key: str) -> str:
    return printable(key if len(key) <= 30 else f"{key[:27]}...")
