"""Population files of columns: CSV with a header, as pandas and others write it.

Names that are not given are guessed from those that quality-diversity tools use. All
other columns are ignored, such as pandas' unnamed index or pyribs' 'threshold'.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from softqd.experiment.files.parts import Parts, not_readable, origin_text
from softqd.ops.names import unknown_message

_QUALITY = ("quality", "fitness", "objective", "score", "reward")
# Numbered as in name_0, name0 or name[0]; a leaf of a pytree as in solution/leaf_0.
_NUMBER = r"[_\[. ]?(\d+)\]?"
_BEHAVIOR = re.compile(
    rf"(behaviou?r|measure|descriptor|desc|bd|b)s?{_NUMBER}", re.IGNORECASE
)
_SOLUTION = re.compile(rf"(solution|genotype|x)s?(?:/(.+?))?{_NUMBER}", re.IGNORECASE)


class _Columns(NamedTuple):
    """Which columns make a population, and which of them were guessed."""

    quality: str
    behavior: list[str]
    solutions: dict[str, list[str]]  # by the leaf's path, '' for a single array
    guessed: list[str]


def read_csv(path: Path, quality: str | None, behavior: list[str]) -> Parts:
    """Read the columns that make a population.

    Args:
        path: The file: UTF-8, a header, cells separated by comma, semicolon or tab.
        quality: Name of a column; guessed if None.
        behavior: Names of columns, in order; guessed if there are none.

    Raises:
        ValueError: If a column cannot be found, or a row is not what the header says.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            delimiter = max(",;\t", key=file.readline().count)
            file.seek(0)
            rows = csv.reader(file, delimiter=delimiter, strict=True)
            header = _header(path, rows)
            columns = _choose(path, header, quality, behavior)
            leaves = [name for leaf in columns.solutions.values() for name in leaf]
            names = [columns.quality, *columns.behavior, *leaves]
            table, lines = _numbers(path, rows, header, names)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(not_readable(path, error)) from None
    place = {name: i for i, name in enumerate(names)}

    def take(some: list[str]) -> np.ndarray:
        return table[:, [place[name] for name in some]]

    return Parts(
        quality=table[:, 0],
        behavior=take(columns.behavior),
        solutions={path: take(leaf) for path, leaf in columns.solutions.items()},
        origin=origin_text(
            "CSV", columns.quality, columns.behavior, leaves, columns.guessed
        ),
        row_name=lambda row: f"line {lines[row]}",
    )


def _header(path: Path, rows: Any) -> list[str]:
    """The names of the columns; none twice, empty for an unnamed one."""
    header = [name.strip() for name in next((row for row in rows if row), [])]
    if not any(header):
        raise ValueError(f"{path} is empty: it has no header")
    if not all(map(str.isprintable, header)):
        raise ValueError(not_readable(path, "its first line is not text"))
    if all(map(is_number, header)):
        raise ValueError(
            f"{path} has no header: its first line is numbers; put a line such as "
            "quality,behavior_0,behavior_1 above them"
        )
    for name, count in Counter(filter(None, header)).items():
        if count > 1:
            raise ValueError(f"{path} has {count} columns {name!r}; rename all but one")
    return header


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _choose(
    path: Path, header: list[str], quality: str | None, behavior: list[str]
) -> _Columns:
    """Take the names given, and guess the others."""
    for name in (quality, *behavior):
        if name is not None and name not in header:
            see = f"the columns are {_listed(header)}"
            raise ValueError(f"{path}: {unknown_message('column', name, header, see)}")
    guessed = []
    if quality is None:
        guessed.append("quality")
        quality = _guess_quality(
            path, [name for name in header if name not in behavior]
        )
    if not behavior:
        guessed.append("behavior")
        behavior = _guess_behavior(path, [name for name in header if name != quality])
    taken = {quality, *behavior}
    solutions = _solution_columns([name for name in header if name not in taken])
    return _Columns(quality, behavior, solutions, guessed)


def _guess_quality(path: Path, header: list[str]) -> str:
    found = [name for name in header if name.lower() in _QUALITY]
    if len(found) == 1:
        return found[0]
    expected = f"one column called {', '.join(_QUALITY[:-1])} or {_QUALITY[-1]}"
    raise ValueError(_cannot_tell(path, "quality", expected, header))


def _guess_behavior(path: Path, header: list[str]) -> list[str]:
    """Numbered columns of one name, in order, none missing."""
    groups: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for name in header:
        if match := _BEHAVIOR.fullmatch(name):
            groups[match[1].lower()].append((int(match[2]), name))
    if len(groups) == 1:
        (group,) = groups.values()
        numbers, names = zip(*sorted(group), strict=True)
        if numbers[0] in (0, 1) and numbers == tuple(
            range(numbers[0], numbers[-1] + 1)
        ):
            return list(names)
    expected = "one name, numbered without a gap, such as behavior_0, behavior_1"
    raise ValueError(_cannot_tell(path, "behavior", expected, header))


def _cannot_tell(path: Path, part: str, expected: str, header: list[str]) -> str:
    wanted = "NAME" if part == "quality" else "NAME,NAME"
    return (
        f"{path}: cannot tell the {part} from the columns {_listed(header)}; expected "
        f"{expected}; say which with --{part} {wanted} (in Python {part}=)"
    )


def _solution_columns(header: list[str]) -> dict[str, list[str]]:
    """Numbered columns of solutions, in order, by the leaf's path."""
    roots: dict[str, dict[str, list[tuple[int, str]]]]
    roots = {root: defaultdict(list) for root in ("solution", "genotype", "x")}
    for name in header:
        if match := _SOLUTION.fullmatch(name):
            roots[match[1].lower()][match[2] or ""].append((int(match[3]), name))
    leaves = next((leaves for leaves in roots.values() if leaves), {})
    return {path: [name for _, name in sorted(leaf)] for path, leaf in leaves.items()}


def _listed(header: list[str], most: int = 12) -> str:
    """Names of columns, those of solutions left out if there are many."""
    names = [name for name in header if name]
    if len(names) > most:
        names = [x for x in names if not _SOLUTION.fullmatch(x)] or names
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _numbers(
    path: Path, rows: Any, header: list[str], names: list[str]
) -> tuple[np.ndarray, list[int]]:
    """The cells of some columns, and the line each row is on."""
    place = {name: i for i, name in enumerate(header)}
    at = [place[name] for name in names]
    table, lines = [], []
    for row in rows:
        if not row:
            continue
        line = rows.line_num
        if len(row) != len(header):
            raise ValueError(
                f"{path}: line {line} has {len(row)} cells, the header has "
                f"{len(header)}; the file may be cut off"
            )
        try:
            table.append(np.array([float(row[i]) for i in at]))
        except ValueError:
            i = next(i for i in at if not is_number(row[i]))
            raise ValueError(
                f"{path}: line {line}, column {header[i]!r} is {row[i]!r}, expected a "
                "number"
            ) from None
        lines.append(line)
    if not table:
        raise ValueError(f"{path} holds no solutions: below its header there is no row")
    return np.stack(table), lines
