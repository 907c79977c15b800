"""Small, lasting records of runs over several seeds: ``results/*.json``.

A record holds settings, versions and metrics of every seed, and a thinned history, but
no population. `docs/results.md` is generated from these files and from nothing else.

Schema 1: ``schema``, ``name``, ``preset``, ``variant``, ``config`` (problem, algorithm,
run), ``seeds``, ``metrics`` (name to one number per seed, or null), ``history`` (column
to one list per seed, for up to ten seeds; null where a population was empty),
``seconds`` (all seeds together), ``compile_seconds``, ``versions``; and ``quick``,
true, in the record of a small version that says nothing about the paper's.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from softqd.experiment.config import Config
from softqd.experiment.files.whole import write_whole
from softqd.experiment.many.measure import CURVES
from softqd.experiment.result import COUNTS
from softqd.experiment.run_folder import RunFolder
from softqd.metrics import METRICS

SCHEMA = 1
Record = dict[str, Any]
# Log points of a run that is to be recorded, the first included.
HISTORY_POINTS = 26
_HISTORY_SEEDS = 10
_HISTORY_COLUMNS = ("iteration", "evaluations", "mean_quality", "max_quality")
_KEYS = {"schema", "name", "preset", "variant", "config", "seeds", "metrics"}
_KEYS |= {"history", "seconds", "compile_seconds", "versions"}


def record_name(preset: str, algorithm: str, variant: str, quick: bool = False) -> str:
    """What a record is called, and its file.

    Examples:
        >>> record_name("ic", "squad", "batch_size=4", quick=True)
        'ic_squad_batch_size=4_quick'
    """
    return "_".join([preset, algorithm, variant, *["quick"] * quick])


def from_folders(
    config: Config, variant: str, folders: Mapping[int, Path], quick: bool = False
) -> Record:
    """The record of finished run folders that differ in their seed alone.

    Args:
        config: What all were started with, without seed.
        variant: What to call these settings.
        folders: Seeds to run folders, at least one.
        quick: Whether this is a small version.
    """
    runs = [RunFolder(folder) for folder in folders.values()]
    preset = config["run"]["preset"]
    name = record_name(preset, config["algorithm"]["name"], variant, quick)
    entry = {
        "schema": SCHEMA,
        "name": name,
        "preset": preset,
        "variant": variant,
        "config": config,
        "seeds": list(folders),
        "metrics": {
            key: [_finite(run.metrics.get(key)) for run in runs]
            for key in (*METRICS, *COUNTS)
        },
        "history": _thin_history(runs),
        # Seeds that advanced together were given the seconds of all.
        "seconds": sum(r.metrics["seconds"] / _together(r) for r in runs),
        "compile_seconds": sum(
            r.summary["timings"]["compile"] / _together(r) for r in runs
        ),
        "versions": runs[0].versions,
    }
    return check({**entry, "quick": True} if quick else entry)


def save(entry: Record, directory: str | Path) -> Path:
    """Write a record as ``<name>.json``."""
    check(entry)
    path = Path(directory) / f"{entry['name']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(entry, indent=1, allow_nan=False) + "\n")
    return path


def load_all(directory: str | Path) -> list[Record]:
    """Read and check every record of a folder, sorted by name.

    Summaries of `softqd compare`, ``*_comparison.json``, belong to pages of their own.

    Raises:
        ValueError: If another file is not a record.
    """
    paths = sorted(Path(directory).glob("*.json"))
    return [_load(path) for path in paths if not path.stem.endswith("_comparison")]


def _load(path: Path) -> Record:
    try:
        entry = json.loads(path.read_text())
        if not isinstance(entry, dict):
            raise ValueError("it is not a table")
    except ValueError as error:
        raise ValueError(f"{path} is not a record: {error}") from None
    return check(entry)


def check(entry: Record) -> Record:
    """Return a record, or refuse it.

    Raises:
        ValueError: If it is not of this schema.
    """
    name = entry.get("name", "record")
    if entry.get("schema") != SCHEMA or set(entry) - {"quick"} != _KEYS:
        difference = sorted((set(entry) - {"quick"}) ^ _KEYS)
        raise ValueError(
            f"{name}: not a record of schema {SCHEMA} (schema {entry.get('schema')!r}, "
            f"keys that differ: {difference})"
        )
    num_seeds = len(entry["seeds"])
    for metric, values in entry["metrics"].items():
        if len(values) != num_seeds:
            raise ValueError(
                f"{name}: metric {metric} has {len(values)} values for "
                f"{num_seeds} seeds"
            )
    return entry


def paper_evaluations(entry: Record) -> list[int | None]:
    """Evaluations of every seed as the paper counts them.

    It counts SQUAD once per solution and iteration, which is once per gradient; there
    are two evaluations, before and after a step. Baselines are counted as they are.
    """
    is_ascent = entry["config"]["algorithm"]["name"] == "squad_published"
    name = "gradient_evaluations" if is_ascent else "evaluations"
    return entry["metrics"][name]


def seed_histories(entry: Record) -> list[dict[str, list[float | None]]]:
    """The history of every seed that has one."""
    columns = entry["history"]
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def is_quick(entry: Record) -> bool:
    """Whether a record is of a small version."""
    return bool(entry.get("quick", False))


def _thin_history(runs: list[RunFolder]) -> dict[str, list[list[float | None]]]:
    histories = [run.history for run in runs[:_HISTORY_SEEDS]]
    return {
        name: [list(map(_plain, history[name].tolist())) for history in histories]
        for name in (*_HISTORY_COLUMNS, *CURVES)
        if name in histories[0]
    }


def _plain(value: float) -> float | None:
    """A rounded number; None where there is none, as in an archive still empty."""
    if not math.isfinite(value):
        return None
    return value if isinstance(value, int) else round(value, 4)


def _together(run: RunFolder) -> int:
    return run.metrics["seeds_together"]


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
