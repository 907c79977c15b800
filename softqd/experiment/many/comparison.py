"""What a comparison found: numbers of every run, and their statistics.

``comparison.json``, schema 1: ``schema``, ``problem`` (name and settings),
``evaluations`` (the budget), ``algorithms`` (name to settings, seeds, one value per
seed of every metric and count, failures by seed), ``statistics`` (metric to best,
p-values and one summary per algorithm; null where no run has a value), ``notes`` (why a
metric has no value), ``warnings``, ``quality_level``. ``comparison.csv``: one row per
run.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from softqd import html
from softqd.experiment.files.lock import locked
from softqd.experiment.files.schema import (
    ANY,
    COUNT,
    FINITE,
    NAME,
    PLAIN,
    check,
    file_error,
    read_json,
    shown,
)
from softqd.experiment.files.whole import write_whole
from softqd.experiment.result import COUNTS
from softqd.experiment.run_folder import RunFolder
from softqd.experiment.words import label_of
from softqd.metrics import METRICS, against_best, seeds_needed, summarize

SCHEMA = 1
FILE_NAME = "comparison.json"
# What is compared: more is better for all of them.
COMPARED = tuple(name for name in METRICS if not name.endswith("_stderr"))
_VALUES = (*COMPARED, *COUNTS, "iterations", "seconds")

_VALUE = (FINITE, None)
_SUMMARY = {
    "num": COUNT,
    "mean": FINITE,
    **dict.fromkeys(("stderr", "low", "high", "p"), _VALUE),
}
_TABLE = {
    "best": str,
    "not_worse": [str],
    "kruskal_p": _VALUE,
    "algorithms": {"...": _SUMMARY},
}
_ENTRY = {
    "settings": {"...": PLAIN},
    "seeds": [COUNT],
    "values": {**{name: [_VALUE] for name in _VALUES}, "...": [_VALUE]},
    "failures": {"...": str},
    "versions": [str],
}
_COMPARISON = {
    "problem": {"name?": str, "...": PLAIN},
    "evaluations": COUNT,
    "algorithms": {"...": _ENTRY},
    "statistics": dict.fromkeys(COMPARED, (_TABLE, None)),
    "notes": {"...": str},
    "warnings": [str],
    "quality_level?": FINITE,
}


@dataclass(frozen=True)
class Entry:
    """The runs of one algorithm.

    Attributes:
        settings: Of the algorithm.
        seeds: Those that finished.
        values: Metric or count to one value per seed; None where there is none.
        failures: Seed to what went wrong, for those that did not finish.
        versions: 'softqd 0.1.0, jax 0.10.2' and the like, all that occur.
    """

    settings: dict[str, Any]
    seeds: list[int]
    values: dict[str, list[float | None]]
    failures: dict[int, str] = field(default_factory=dict)
    versions: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Comparison:
    """Algorithms on one problem, several seeds each.

    Attributes:
        problem: Name and settings.
        evaluations: The budget of every run.
        algorithms: Name to its runs.
        statistics: Metric to a table with 'best', 'kruskal_p', 'not_worse' and, under
            'algorithms', 'num', 'mean', 'stderr', 'low', 'high' and 'p' of each
            algorithm; None where no run has a value.
        notes: Metric to why it has no value.
        warnings: What to know before believing it.
        quality_level: From where all runs measure quality, the lowest of theirs.
    """

    problem: dict[str, Any]
    evaluations: int
    algorithms: dict[str, Entry]
    statistics: dict[str, dict[str, Any] | None]
    notes: dict[str, str]
    warnings: list[str]
    quality_level: float = 0.0

    def __repr__(self) -> str:
        return f"Comparison({self._title()})"

    def _repr_html_(self) -> str:
        metric = next(
            (m for m in ("soft_qd_score", *COMPARED) if self.statistics.get(m)), ""
        )
        table = self.statistics.get(metric) or {"algorithms": {}, "best": ""}
        means = {
            name: f"{row['mean']:.4g}{' (best mean)' * (name == table['best'])}"
            for name, row in table["algorithms"].items()
        }
        values = {
            name: [v for v in entry.values.get(metric, []) if v is not None]
            for name, entry in self.algorithms.items()
        }
        every = [value for several in values.values() for value in several]
        label = f"{label_of(metric)}, every run, {html.span(every)}"
        then = ["softqd.plot.distributions(comparison)", "comparison.statistics"]
        return html.card(self._title(), means, html.strips(values, label), then)

    def _title(self) -> str:
        names = list(self.algorithms)
        shown = ", ".join(names[:6]) + ", ..." * (len(names) > 6)
        seeds = max((len(e.seeds) for e in self.algorithms.values()), default=0)
        problem = self.problem.get("name", "?")
        return (
            f"{shown} on {problem}: {_count(seeds, 'seed')}, {self.evaluations:,} "
            "evaluations each"
        )

    def save(self, directory: str | Path) -> Path:
        """Write ``comparison.json`` and ``comparison.csv``, replacing older ones.

        Raises:
            InUseError: If a process writes to the folder.
        """
        directory = Path(directory)
        with locked(directory):
            self.write(directory)
        return directory

    def write(self, directory: Path) -> None:
        """Write the files into a folder that the caller holds."""
        text = json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1, allow_nan=False)
        write_whole(directory / FILE_NAME, text + "\n")
        table = io.StringIO(newline="")
        writer = csv.writer(table)
        writer.writerow(["algorithm", "seed", *_VALUES, "error"])
        for name, entry in self.algorithms.items():
            columns = [entry.values[value] for value in _VALUES]
            for seed, *row in zip(entry.seeds, *columns, strict=True):
                writer.writerow([name, seed, *row, ""])
            blank = [""] * len(_VALUES)
            for seed, error in entry.failures.items():
                writer.writerow([name, seed, *blank, error])
        write_whole(directory / "comparison.csv", table.getvalue())


def load_comparison(directory: str | Path) -> Comparison:
    """Read ``comparison.json`` of a folder, or the file itself.

    Raises:
        ValueError: If it is not a comparison of this schema.
        FileNotFoundError: If there is none.
    """
    path = Path(directory)
    path = path / FILE_NAME if path.is_dir() else path
    if not path.exists():
        raise FileNotFoundError(f"there is no comparison {path}")
    data = read_found(path, _COMPARISON, "compare")
    entries = data.pop("algorithms")
    algorithms = {name: _entry(path, name, data) for name, data in entries.items()}
    for metric, table in data["statistics"].items():
        rows = table["algorithms"] if table else {}
        if table and not {table["best"]} <= set(rows) <= set(algorithms):
            raise file_error(path, f"statistics.{metric} names unknown algorithms")
    return Comparison(algorithms=algorithms, **data)


def read_found(path: Path, wanted: dict[str, Any], command: str) -> dict[str, Any]:
    """What a command wrote as JSON, without the number of its schema.

    Raises:
        FileError: If it is of another schema, or something else than wanted.
    """
    data = read_json(path, {"schema": PLAIN, "...": ANY})
    if data.pop("schema") != SCHEMA:
        raise file_error(
            path,
            f"is not of this version; run 'softqd {command}' with the same --out again",
        )
    check(path, data, wanted)
    return data


def _entry(path: Path, name: str, data: dict[str, Any]) -> Entry:
    """An entry whose parts fit each other."""
    failures = data["failures"]
    if not NAME.accepts(name):  # it is the name of a folder
        what = f"must be {NAME.words}"
    elif not all(map(str.isdecimal, failures)):
        what = "must have seeds as the keys of failures"
    elif {len(data["values"][value]) for value in _VALUES} != {len(data["seeds"])}:
        what = "must have one value of everything for each seed"
    else:
        return Entry(**{**data, "failures": {int(k): v for k, v in failures.items()}})
    raise file_error(path, f"algorithms: {shown(name)} {what}")


def entry_of(
    runs: dict[int, RunFolder], settings: dict[str, Any], failures: dict[int, str]
) -> tuple[Entry, dict[str, str]]:
    """The numbers of the finished runs of one algorithm; also the metrics' notes."""
    values: dict[str, list[float | None]] = {name: [] for name in _VALUES}
    notes: dict[str, str] = {}
    versions: dict[str, None] = {}
    for run in runs.values():
        last = {"iterations": int(run.history["iteration"][-1])}
        for name in _VALUES:
            values[name].append(_finite((run.metrics | last).get(name)))
        notes |= run.metrics.get("notes", {})
        found = run.versions
        versions[", ".join(f"{k} {found.get(k)}" for k in ("softqd", "jax"))] = None
    return Entry(settings, list(runs), values, failures, list(versions)), notes


def conclude(
    problem: dict[str, Any],
    evaluations: int,
    algorithms: dict[str, Entry],
    notes: dict[str, str],
    noun: str = "algorithms",
    quality_level: float = 0.0,
) -> Comparison:
    """Add statistics and warnings to the numbers of the runs of some ``noun``."""
    statistics = {name: _statistics(name, algorithms) for name in COMPARED}
    empty = {
        name: notes.get(name, "no run has a value")
        for name, table in statistics.items()
        if table is None
    }
    warnings = [
        *([notes["space"]] if "space" in notes else []),
        *_failure_warnings(algorithms),
        *_metric_warnings(statistics, algorithms),
        *_version_warnings(algorithms),
        *_seed_warnings(algorithms, noun),
    ]
    return Comparison(
        problem, evaluations, algorithms, statistics, empty, warnings, quality_level
    )


def _statistics(metric: str, algorithms: dict[str, Entry]) -> dict[str, Any] | None:
    samples = {
        name: [value for value in entry.values[metric] if value is not None]
        for name, entry in algorithms.items()
    }
    samples = {name: values for name, values in samples.items() if values}
    if not samples:
        return None
    rows = {}
    with np.errstate(over="ignore", invalid="ignore"):  # files may hold huge numbers
        verdict = against_best(samples)
        for name, values in samples.items():
            summary = {k: _finite(v) for k, v in summarize(values)._asdict().items()}
            rows[name] = {**summary, "p": verdict.p_values.get(name)}
    return {
        "best": verdict.best,
        "not_worse": list(verdict.not_worse),
        "kruskal_p": _finite(verdict.kruskal_p),
        "algorithms": rows,
    }


def _failure_warnings(algorithms: dict[str, Entry]) -> list[str]:
    lines = []
    for name, entry in algorithms.items():
        reasons: dict[str, list[int]] = {}
        for seed, error in entry.failures.items():
            reasons.setdefault(error, []).append(seed)
        lines += [
            f"{name} failed with {_seeds(seeds)}: {error}"
            for error, seeds in reasons.items()
        ]
    return lines


def _metric_warnings(statistics: dict[str, Any], algorithms: dict[str, Entry]):
    for metric, table in statistics.items():
        if table is None:
            continue
        for name, entry in algorithms.items():
            missing = entry.values[metric].count(None)
            if missing:
                yield (
                    f"{metric} is missing in {missing} of {len(entry.seeds)} runs of "
                    f"{name}; its statistics leave them out"
                )


def _version_warnings(algorithms: dict[str, Entry]) -> list[str]:
    found = sorted({v for entry in algorithms.values() for v in entry.versions})
    if len(found) < 2:
        return []
    return [f"runs of different versions are compared: {'; '.join(found)}"]


def _seed_warnings(algorithms: dict[str, Entry], noun: str) -> list[str]:
    counts = [len(entry.seeds) for entry in algorithms.values() if entry.seeds]
    if len(counts) < 2:
        return []
    needed = seeds_needed(len(counts))
    if min(counts) >= needed:
        return []
    return [
        f"{_count(min(counts), 'seed')} cannot tell {len(counts)} {noun} apart: "
        f"from {needed} seeds a Mann-Whitney test can reach p < 0.05 after correction"
    ]


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
