"""What a run folder holds: one schema, one writer and one reader for every file.

``docs/run-folder.md`` describes the format. Everything is data: reading imports and
calls nothing that a file names.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from softqd.experiment.files.archive import as_archive
from softqd.experiment.files.csv_file import is_number
from softqd.experiment.files.readers import load_population
from softqd.experiment.files.schema import (
    CELLS,
    COUNT,
    FINITE,
    PLAIN,
    FileError,
    check,
    file_error,
    read_json,
    read_text,
    read_toml,
    shown,
)
from softqd.experiment.files.whole import Content, write_together, write_whole
from softqd.experiment.pictures import Pictures, picture_arrays, read_pictures
from softqd.ops.level import declared_level
from softqd.ops.units import Units
from softqd.types import Population, Problem, named_leaves

FORMAT = 2
CHECKPOINT = "checkpoint"
# Written in this order: the metrics say that a run is finished.
CONFIG, POPULATION, HISTORY = "config.toml", "population.npz", "history.csv"
PICTURES, SUMMARY, METRICS = "pictures.npz", "result.json", "metrics.json"
_NEEDED = (CONFIG, POPULATION, HISTORY, SUMMARY, METRICS)

# Where a configuration is from that only tells what is known of a run.
PYTHON = "Python"
# Columns that every history has, the first two of whole numbers.
_COLUMNS = ("iteration", "evaluations", "mean_quality", "max_quality")
_NAMED = {"name": str, "...": PLAIN}
_TEXTS = {"...": str}
_CONFIG = {
    "problem?": (_NAMED, str),
    "algorithm?": (_NAMED, str),
    "run?": {"preset?": str, "cells?": COUNT, "...": PLAIN},
    "versions?": _TEXTS,
    "origin?": str,
    "...": PLAIN,
}
_PROBLEM = {
    "name": str,
    "low": [(FINITE, None)],
    "high": [(FINITE, None)],
    "behavior_names": ([str], None),
    "quality_level": (FINITE, None),
}
_FORMAT_1 = {
    "seed": int,
    "versions?": _TEXTS,
    "timings?": {"...": float},
    "quality_level?": FINITE,
}
_SUMMARY = {
    **_FORMAT_1,
    "format": int,
    "behavior_units?": ([[FINITE]], None),
    "interrupted?": bool,
    "problem": (_PROBLEM, None),
    "notes": [str],
}
_METRICS = {
    "settings?": {"quality_level?": FINITE, "cells?": COUNT, "...": PLAIN},
    "notes?": _TEXTS,
    "seeds_together?": COUNT,
    "...": (float, None),
}


class NoRunError(FileNotFoundError, ValueError):
    """A folder without a run that has ended."""


class RunFolder:
    """A run folder as it is read: every file when it is asked for, and once.

    Every attribute raises a `FileError` if its file is missing or not what it should
    be: which file, where in it, what was expected, what is there.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)

    @property
    def is_finished(self) -> bool:
        """Whether no file of a finished run is missing or empty."""
        files = [self.path / name for name in _NEEDED]
        if (self.path / PICTURES).exists():
            files.append(self.path / PICTURES)
        return all(file.is_file() and file.stat().st_size for file in files)

    def check_there(self) -> None:
        """Refuse a folder without a run that has ended, with what to do.

        Raises:
            NoRunError: If there is none.
        """
        path = self.path
        has_population = (path / POPULATION).exists()
        if has_population and (path / SUMMARY).exists():
            return
        if not path.is_dir():
            raise NoRunError(f"there is no folder {path}; give a run folder")
        if (path / CHECKPOINT / "state.npz").exists():
            raise NoRunError(
                f"{path} holds a run that has not finished; continue it with 'softqd "
                f"run {path}/{CONFIG} --out {path} --resume'"
            )
        if has_population:
            raise NoRunError(
                f"{path} has no {SUMMARY}: the process that wrote it ended too early; "
                f"make it again, or give {path / POPULATION} to 'softqd evaluate'"
            )
        if any(path.glob("*/seed_*")) or (path / "unfinished").exists():
            raise NoRunError(
                f"{path} holds a comparison that has not finished; call the same "
                f"'softqd compare' again, or give its finished runs, such as "
                f"{path}/*/seed_0"
            )
        raise NoRunError(
            f"{path} is not a run folder: it has no {POPULATION}, and it is no "
            f"comparison; make one with 'softqd run PROBLEM --out {path}'"
        )

    # --- reading ------------------------------------------------------------------

    @cached_property
    def config(self) -> dict[str, Any]:
        """What the run was started with."""
        found = read_toml(self.path / CONFIG, _CONFIG)
        for table in ("problem", "algorithm"):
            if isinstance(found.get(table), str):  # format 1, from Python
                found[table] = {"name": found[table]}
        return found

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Seed, versions, timings, quality level, the problem as data, notes."""
        path = self.path / SUMMARY
        found = read_json(path, {"format?": int, "...": PLAIN})
        number = found.get("format", 1)
        if number not in (1, FORMAT):
            raise file_error(
                path,
                f"has format {number}, and this softqd knows 1 and {FORMAT}; read it "
                "with the version that wrote it, or a later one",
            )
        check(path, found, _SUMMARY if number == FORMAT else _FORMAT_1)
        return found

    @property
    def seed(self) -> int:
        """The seed."""
        return self.summary["seed"]

    @property
    def quality_level(self) -> float:
        """From where quality is measured."""
        return float(self.summary.get("quality_level", 0.0))

    @property
    def behavior_units(self) -> Units | None:
        """In which behaviors are measured where no bounds are declared."""
        units = self.summary.get("behavior_units")
        if units is None or _are_units(units):
            return units
        what = "must be two lists, low ends below high ends"
        path = self.path / SUMMARY
        raise file_error(f"{path}:", f"behavior_units {what}; got {shown(units)}")

    @property
    def versions(self) -> dict[str, str]:
        """Of what the run ran with."""
        return self.summary.get("versions", {})

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """The metrics; empty where there are none."""
        path = self.path / METRICS
        return read_json(path, _METRICS) if path.exists() else {}

    @cached_property
    def history(self) -> dict[str, np.ndarray]:
        """Columns of the history; whole numbers where all are."""
        return read_history(self.path / HISTORY)

    @cached_property
    def population(self) -> Population:
        """The final population."""
        return load_population(self.path / POPULATION)

    @cached_property
    def pictures(self) -> Pictures | None:
        """Pictures of some members, where there are any."""
        path = self.path / PICTURES
        return read_pictures(path, len(self.population)) if path.exists() else None

    @cached_property
    def problem(self) -> Problem | None:
        """What is known of the problem, as data; None in a folder of format 1.

        It has bounds, names, level and target, and no code: it cannot evaluate.
        """
        table = self.summary.get("problem")
        if table is None:
            return None
        low, high = (
            tuple(end if x is None else float(x) for x in table[side])
            for side, end in (("low", -np.inf), ("high", np.inf))
        )
        names = table["behavior_names"]
        dims = {len(low), len(high), *([] if names is None else [len(names)])}
        pictures = self.path / PICTURES
        try:
            if len(dims) > 1:
                raise ValueError(
                    "low, high and behavior_names are of different lengths"
                )
            return Problem(
                _not_here,
                behavior_bounds=(low, high),
                name=table["name"],
                behavior_names=None if names is None else tuple(names),
                quality_level=table["quality_level"],
                target=_target(self.pictures) if pictures.exists() else None,
            )
        except FileError:
            raise
        except ValueError as error:
            raise file_error(self.path / SUMMARY, f"problem: {error}") from None

    # --- writing ------------------------------------------------------------------

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write ``config.toml`` of a run that begins."""
        write_whole(self.path / CONFIG, _config_text(config))

    def write_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Write ``metrics.json`` of a run that is measured again."""
        write_whole(self.path / METRICS, _json_text(metrics))

    def write(
        self,
        *,
        config: Mapping[str, Any],
        population: Population,
        history: Mapping[str, np.ndarray],
        summary: Mapping[str, Any],
        pictures: Pictures | None = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> None:
        """Write all of a run.

        No file takes its place before all are on disk. What says that there is a run,
        or that it is finished, goes first and comes last: of two runs nothing is mixed.
        """
        files: dict[str, Content] = {
            CONFIG: _config_text(config),
            POPULATION: as_archive(_population_arrays(population)),
            HISTORY: _table_text(history),
        }
        if pictures is not None:
            files[PICTURES] = as_archive(picture_arrays(pictures))
        files[SUMMARY] = _json_text({"format": FORMAT, **summary})
        if metrics:
            files[METRICS] = _json_text(metrics)
        outdated = [self.path / name for name in (METRICS, SUMMARY, PICTURES)]
        write_together({self.path / k: v for k, v in files.items()}, outdated)


def describe(problem: Problem | None, dim: int) -> dict[str, Any] | None:
    """What a run folder keeps of a problem, as JSON holds it."""
    if problem is None:
        return None
    sides = ([float(x) for x in side] for side in problem.bounds(dim))
    low, high = ([x if np.isfinite(x) else None for x in side] for side in sides)
    names = problem.behavior_names
    return {
        "name": problem.name,
        "low": low,
        "high": high,
        "behavior_names": None if names is None else list(names),
        "quality_level": declared_level(problem),
    }


def write_population(path: Path, population: Population) -> None:
    """Write the occupied rows: ``quality``, ``behavior`` and the solutions.

    In an ``.npz`` solutions are one array ``solutions``, or ``solutions/<name>`` for
    each leaf of a pytree; no pickled objects. A ``.csv`` has the columns of
    `Population.to_columns`.
    """
    is_table = path.suffix.lower() == ".csv"
    content: Content = (
        _table_text(population.to_columns())
        if is_table
        else as_archive(_population_arrays(population))
    )
    write_whole(path, content)


def _population_arrays(population: Population) -> dict[str, np.ndarray]:
    kept = population.compact()
    arrays = {"quality": kept.quality, "behavior": kept.behavior}
    arrays |= dict(named_leaves(kept.solutions, "solutions"))
    return {name: _known(array) for name, array in arrays.items()}


def _config_text(config: Mapping[str, Any]) -> str:
    return tomli_w.dumps(plain(config)) or "# Nothing is known of it.\n"


def _json_text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=1) + "\n"


def _table_text(columns: Mapping[str, np.ndarray]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    lists = (column.tolist() for column in columns.values())
    writer.writerows(map(repr, row) for row in zip(*lists, strict=True))
    return text.getvalue()


def read_history(path: Path) -> dict[str, np.ndarray]:
    """Read ``history.csv``.

    Raises:
        FileError: If it is not a table of numbers with a header and a row.
    """
    try:
        names, *rows = csv.reader(
            io.StringIO(read_text(path, CELLS), newline=""), strict=True
        )
    except (csv.Error, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise file_error(path, "is empty or no table of columns") from None
    if not rows or not all(names) or len(set(names)) < len(names):
        raise file_error(path, "must have a header of different names, and a row")
    for i, row in enumerate(rows):
        if len(row) != len(names):
            what = f"line {i + 2} must have {len(names)} cells; got {len(row)}"
            raise file_error(path, what)
    columns = {
        name: _column(path, name, column)
        for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }
    for name in _COLUMNS:
        if name not in columns:
            raise file_error(path, f"column {name} is missing")
    for name in _COLUMNS[:2]:
        if columns[name].dtype != np.int64:
            raise file_error(path, f"column {name} must hold whole numbers")
    return columns


def _column(path: Path, name: str, texts: tuple[str, ...]) -> np.ndarray:
    """Numbers of a column, whole ones where all are."""
    kind = np.int64 if all(map(str.isdecimal, texts)) else np.float64
    try:
        return np.array([kind(text) for text in texts], kind)
    except (ValueError, OverflowError):
        wrong = next((t for t in texts if not is_number(t)), "a number too large")
        what = f"column {shown(name)} must hold numbers; got {shown(wrong)}"
        raise file_error(path, what) from None


def plain(value: Any) -> Any:
    """What TOML can hold: None is left out, arrays become lists, the rest text."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if hasattr(value, "__array__"):
        return np.asarray(value).tolist()
    return value if isinstance(value, (str, int, float, bool)) else repr(value)


def _known(array: Any) -> np.ndarray:
    """An array in a type that NumPy knows by itself: bfloat16 becomes float32."""
    array = np.asarray(array)
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def _target(pictures: Pictures | None) -> np.ndarray | None:
    if pictures is None or pictures.target is None:
        return None
    return pictures.target.astype(np.float32) / 255


def _are_units(units: list[list[float]]) -> bool:
    if len(units) != 2 or not 0 < len(units[0]) == len(units[1]):
        return False
    return all(low < high for low, high in zip(*units, strict=True))


def _not_here(solution: Any) -> Any:
    raise ValueError(
        "this problem was read from a run folder, which holds no code; to evaluate, "
        "give softqd.load the problem: softqd.load(folder, like=problem)"
    )
