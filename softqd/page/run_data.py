"""What the report page knows of one run: a plain dictionary, arrays in base64."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

from softqd.experiment.pictures import encoded, members_to_draw
from softqd.experiment.result import COUNTS, Result, versions
from softqd.experiment.watch import outside_words
from softqd.experiment.words import behavior_names, label_of
from softqd.metrics import METRICS

# Points of a curve; more could not be seen.
MAX_POINTS = 500
_TABLES = ("problem", "algorithm", "run")


def run_data(run: Result, pictures: int) -> tuple[dict[str, Any], list[str]]:
    """The page's dictionary of a run, and its pictures.

    Args:
        run: The run.
        pictures: Most pictures to show.
    """
    kept = run.population.compact()
    quality, behavior = np.asarray(kept.quality), np.asarray(kept.behavior)
    dim = behavior.shape[1]
    bounds = [[None] * dim, [None] * dim]
    if run.problem is not None:
        bounds = [[finite(x) for x in side] for side in run.problem.bounds(dim)]
    members, drawn = _pictures(run, pictures)
    target = None if run.problem is None else run.problem.target
    config = run.config
    data = {
        "algorithm": name_of(config, "algorithm"),
        "problem": problem_name(config),
        "seed": run.seed,
        "num": len(quality),
        "names": list(behavior_names(run.problem, dim)),
        "low": bounds[0],
        "high": bounds[1],
        "quality": encode(quality),
        "level": finite(run.quality_level),
        "behavior": encode(behavior),
        "members": members,
        "target": None if target is None else _base64(encoded(target)),
        "metrics": metric_rows(run.metrics),
        "history": history_columns(run.history),
        "settings": {t: as_json(config.get(t, {})) for t in _TABLES},
        "versions": run.versions,
        "timings": {k: finite(v) for k, v in run.timings.items()},
        "notes": [*run.notes, *_missing(run), *_space(run.metrics), *_outside(run)],
    }
    return data, drawn


def _space(metrics: dict[str, Any]) -> list[str]:
    """What to know of the units of diversity, if anything."""
    return [text for name, text in metrics.get("notes", {}).items() if name == "space"]


def _outside(run: Result) -> list[str]:
    """How many behaviors have left their bounds, if any."""
    num = run.history.get("clipped_behaviors", [0])[-1:]
    return [outside_words(int(n), run.problem) for n in num if n > 0]


def metric_rows(metrics: dict[str, Any]) -> list[dict[str, Any]]:
    """Metrics and counts in order, each with its label, error and note."""
    notes = metrics.get("notes", {})
    names = [name for name in METRICS if not name.endswith("_stderr")]
    rows = []
    for name in (*names, *COUNTS, "seconds"):
        if not metrics:
            continue
        value = finite(metrics.get(name))
        why = "" if value is not None else "not in this run's metrics.json"
        rows.append(
            {
                "name": name,
                "label": label_of(name),
                "value": value,
                "stderr": finite(metrics.get(f"{name}_stderr")),
                "note": notes.get(name, why),
            }
        )
    return rows


def history_columns(history: dict[str, np.ndarray]) -> dict[str, list[float | None]]:
    """Columns of the history, thinned to what a curve can show."""
    length = len(history.get("iteration", ()))
    keep = thinned(length)
    return {
        name: [finite(x) for x in np.asarray(column)[keep].tolist()]
        for name, column in history.items()
    }


def thinned(length: int) -> np.ndarray:
    """Indices of at most `MAX_POINTS` rows, the first and the last among them."""
    num = min(length, MAX_POINTS)
    return np.unique(np.linspace(0, max(length - 1, 0), num).round().astype(int))


def encode(array: Any) -> str:
    """Numbers as little-endian float32 in base64.

    Examples:
        >>> encode([1.0])
        'AACAPw=='
    """
    with np.errstate(over="ignore"):  # a file may hold larger numbers
        return _base64(np.asarray(array, "<f4").tobytes())


def finite(value: Any) -> Any:
    """A number that JSON can hold, to eight digits; None for any other.

    Examples:
        >>> finite(float("nan")), finite(3), finite(1 / 3)
        (None, 3, 0.33333333)
    """
    if value is None or not isinstance(value, (int, float, np.number)):
        return None
    if isinstance(value, (int, np.integer)):
        return int(value)
    return float(f"{value:.8g}") if math.isfinite(value) else None


def name_of(config: dict[str, Any], table: str) -> str:
    """Name of the problem or algorithm."""
    return config.get(table, {}).get("name", "unknown")


def problem_name(config: dict[str, Any]) -> str:
    """The preset that was run, or else the problem."""
    return config.get("run", {}).get("preset", name_of(config, "problem"))


def as_json(value: Any) -> Any:
    """Values as JSON can hold them; infinite numbers as text."""
    if isinstance(value, dict):
        return {str(k): as_json(v) for k, v in value.items()}
    if isinstance(value, list):
        return [as_json(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _pictures(run: Result, most: int) -> tuple[list[int], list[str]]:
    """Rows that have a picture, best first, and the pictures."""
    kept = {} if run.pictures is None or not most else run.pictures.small
    rows = np.array(list(kept), int)
    chosen = rows[members_to_draw(-np.arange(len(rows)), most)].tolist()
    return chosen, [_base64(kept[row]) for row in chosen]


def _missing(run: Result) -> list[str]:
    """What the page cannot show, and what another version did."""
    notes = []
    now, then = versions()["softqd"], run.versions.get("softqd", "unknown")
    if then != now:
        notes.append(f"Run by softqd {then}, page by softqd {now}.")
    if not run.metrics:
        notes.append("There is no metrics.json; softqd evaluate computes metrics.")
    if run.problem is None:
        notes.append(
            "The run folder does not say the bounds of the behavior space: the axes "
            "span the population. Folders of this version do; 'softqd run "
            "DIR/config.toml --out DIR --resume' makes it one."
        )
    return notes


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
