"""Text files that are checked before they are used: JSON and TOML.

A schema is plain Python. A type stands for its values (`float` for whole numbers too),
None for null, a tuple for one of several, a list of one for lists, a `Kind` for what a
function accepts. A dictionary stands for a table: a key that ends in '?' may be
missing, '...' is for all keys that are not named; without it they are refused.
"""

from __future__ import annotations

import json
import math
import os
import reprlib
import stat
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Raised where memory is there: a variable of the environment, in bytes.
LIMIT_NAME = "SOFTQD_MAX_BYTES"
_LIMIT = 2**30
# Bytes of memory per byte of text, at most: an empty list is "[]," and 72 bytes, a cell
# of a table is "1," and a pointer.
_OBJECTS, CELLS = 32, 8
# Of the line that an error is.
_MAX_LINE = 300
_MAX_DEPTH = 6
# What is nested deeply has no repr.
_brief = reprlib.Repr()
_brief.maxlevel, _brief.maxstring = 3, 50


class FileError(ValueError):
    """A file that cannot be used: where in it, what was expected, what is there."""


@dataclass(frozen=True)
class Kind:
    """Values that a function accepts, in words."""

    words: str
    accepts: Callable[[Any], bool]


def file_error(path: str | Path, what: str) -> FileError:
    """The error about a file: one line of at most 300 characters.

    Examples:
        >>> str(file_error("a.json", "is empty"))
        'a.json is empty'
        >>> len(str(file_error("x" * 400, "y" * 400)))
        300
    """
    what = _line(what)
    what = what if len(what) <= 230 else f"{what[:227]}..."
    name, room = _line(str(path)), _MAX_LINE - len(what) - 1
    name = name if len(name) <= room else f"...{name[3 - room :]}"
    return FileError(f"{name} {what}")


def one_line(text: str) -> str:
    """A message that was made elsewhere, in one line of at most 300 characters."""
    text = _line(text)
    return text if len(text) <= _MAX_LINE else f"{text[: _MAX_LINE - 3]}..."


def printable(text: str) -> str:
    r"""A text without what a terminal would obey.

    Examples:
        >>> print(printable("red \x1b[31m"))
        red \x1b[31m
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _line(text: str) -> str:
    return printable(" ".join(text.split()))


def shown(value: Any, most: int = 50) -> str:
    """A value in a message."""
    text = " ".join(_brief.repr(value).split())
    return text if len(text) <= most else f"{text[: most - 3]}..."


def max_bytes() -> int:
    """What a file may take in memory where its size on disk does not allow more.

    Raises:
        ValueError: If the variable holds something else than a number.
    """
    text = os.environ.get(LIMIT_NAME, str(_LIMIT))
    if not text.isdecimal():
        raise ValueError(f"{LIMIT_NAME} must be a number of bytes; got {text!r}")
    return int(text)


def open_regular(path: Path) -> Any:
    """Open a file for reading; nothing that one would wait for, such as a pipe.

    Raises:
        FileError: If it is not there, or is not a file.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise file_error(path, "is not a file; expected one")
        return open(path, "rb")
    except OSError as error:
        raise file_error(path, f"cannot be read: {error.strerror}") from None


def read_text(path: Path, per_byte: int = _OBJECTS) -> str:
    """The text of a file.

    Args:
        path: The file.
        per_byte: Bytes of memory that what is read from a byte may take.

    Raises:
        FileError: If it cannot be read, is too large or is not UTF-8.
    """
    with open_regular(path) as file:
        size, limit = os.fstat(file.fileno()).st_size * per_byte, max_bytes()
        if size > limit:
            raise file_error(path, too_large(size, limit))
        try:
            return file.read().decode()
        except UnicodeDecodeError as error:
            raise file_error(path, f"is not text: {error}") from None
        except OSError as error:
            raise file_error(path, f"cannot be read: {error.strerror}") from None


def too_large(size: int, limit: int) -> str:
    """The words about a size beyond the limit."""
    return (
        f"takes {size} bytes of memory, and the limit is {limit}; if you trust it, set "
        f"{LIMIT_NAME}={size}"
    )


def read_json(path: Path, wanted: Any) -> Any:
    """Read and check a JSON file.

    Raises:
        FileError: If it cannot be read, or holds something else than wanted.
    """
    return _read(path, wanted, json.loads, "JSON")


def read_toml(path: Path, wanted: Any) -> Any:
    """Read and check a TOML file.

    Raises:
        FileError: If it cannot be read, or holds something else than wanted.
    """
    return _read(path, wanted, tomllib.loads, "TOML")


def _read(path: Path, wanted: Any, parse: Callable, kind: str) -> Any:
    text = read_text(path)
    if not text.strip():
        raise file_error(path, "is empty")
    try:
        value = parse(text)
    except (ValueError, RecursionError) as error:
        raise file_error(path, f"is not a {kind} file: {error}") from None
    check(path, value, wanted)
    return value


def check(path: Path, value: Any, wanted: Any, place: str = "") -> None:
    """Refuse a value of a file that is not what is wanted.

    Raises:
        FileError: Naming the file, the place, what was expected and what is there.

    Examples:
        >>> try:
        ...     check("a.json", {"seed": "3"}, {"seed": int})
        ... except FileError as error:
        ...     print(error)
        a.json: seed must be a whole number; got '3'
    """
    if isinstance(wanted, tuple):
        simple = [w for w in wanted if not isinstance(w, (dict, list))]
        if any(_is(value, w) for w in simple):
            return
        nested = [w for w in wanted if isinstance(value, type(w))]
        if nested:
            check(path, value, nested[0], place)
            return
    elif _is(value, wanted):
        if isinstance(wanted, list):
            for i, entry in enumerate(value):
                check(path, entry, wanted[0], f"{place}[{i}]")
        elif isinstance(wanted, dict):
            _check_table(path, value, wanted, place)
        return
    what = f"{place} must be {_words(wanted)}" if place else f"must be {_words(wanted)}"
    raise _misfit(path, f"{what}; got {shown(value)}", place)


def _check_table(path: Path, table: dict, wanted: dict, place: str) -> None:
    optional = {key[:-1]: w for key, w in wanted.items() if key[-1] == "?"}
    required = {k: w for k, w in wanted.items() if k[-1] != "?" and k != "..."}
    for key in required:
        if key not in table:
            where = f" in {place}" if place else ""
            raise _misfit(path, f"{key!r} is missing{where}", " ")
    known = required | optional
    for key, value in table.items():
        if key not in known and "..." not in wanted:
            expected = f"expected {', '.join(known)}"
            raise _misfit(path, f"{shown(key)} is not known here; {expected}", " ")
        name = key if len(key) <= 30 else f"{key[:27]}..."
        inner = f"{place}.{name}" if place else name
        check(path, value, known.get(key, wanted.get("...")), inner)


def _misfit(path: Path, what: str, place: str) -> FileError:
    return file_error(f"{path}:" if place else path, what)


def _is(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Kind):
        return wanted.accepts(value)
    if isinstance(wanted, (dict, list)):
        return isinstance(value, type(wanted))
    if wanted in (int, float):
        # Beyond 64 bits nothing that computes with it can go on.
        is_int = isinstance(value, int) and not isinstance(value, bool)
        return (is_int and abs(value) < 2**63) or (
            wanted is float and isinstance(value, float)
        )
    return value is None if wanted is None else isinstance(value, wanted)


def _words(wanted: Any) -> str:
    if isinstance(wanted, tuple):
        return " or ".join(map(_words, wanted))
    if isinstance(wanted, Kind):
        return wanted.words
    if isinstance(wanted, (dict, list)):
        return "a table" if isinstance(wanted, dict) else "a list"
    words = {int: "a whole number", float: "a number", str: "a text", None: "null"}
    return words.get(wanted) or {bool: "true or false"}[wanted]


def _is_plain(value: Any, depth: int = 0) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return depth < _MAX_DEPTH and all(_is_plain(v, depth + 1) for v in value)
    return value is None or any(_is(value, kind) for kind in (bool, float, str))


def _is_name(value: Any) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value) <= 200
        and value.isprintable()
        and value[0] not in ". "
        and not set(value) & set("/\\")
    )


ANY = Kind("anything", lambda value: True)
PLAIN = Kind("text, a number, true, false, or lists and tables of these", _is_plain)
NAME = Kind("a name, which is no path", _is_name)
FINITE = Kind(
    "a finite number", lambda value: _is(value, float) and math.isfinite(value)
)
COUNT = Kind("a count", lambda value: _is(value, int) and value >= 0)
