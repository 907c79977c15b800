"""What the report page knows of one run: a plain dictionary, arrays in base64."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

from softqd.experiment.result import COUNTS
from softqd.experiment.watch import outside_words
from softqd.experiment.words import behavior_names, label_of
from softqd.metrics import METRICS
from softqd.page.reading import Run
from softqd.page.thumbnails import encode_picture, members_to_draw, thumbnails
from softqd.types import Problem

# Points of a curve; more could not be seen.
MAX_POINTS = 500


def run_data(run: Run, pictures: int) -> tuple[dict[str, Any], list[str]]:
    """The page's dictionary of a run, and its pictures.

    Args:
        run: The run.
        pictures: Most solutions to draw.
    """
    kept = run.result.population.compact()
    quality, behavior = np.asarray(kept.quality), np.asarray(kept.behavior)
    dim = behavior.shape[1]
    bounds = [[None] * dim, [None] * dim]
    if run.problem is not None:
        bounds = [[finite(x) for x in side] for side in run.problem.bounds(dim)]
    members, drawn, why = _pictures(run.problem, kept.solutions, quality, pictures)
    target = None if run.problem is None else run.problem.target
    config = run.result.config
    data = {
        "algorithm": name_of(config, "algorithm"),
        "problem": problem_name(config),
        "seed": run.result.seed,
        "num": len(quality),
        "names": list(behavior_names(run.problem, dim)),
        "low": bounds[0],
        "high": bounds[1],
        "quality": encode(quality),
        "level": finite(run.result.quality_level),
        "behavior": encode(behavior),
        "members": members.tolist(),
        "target": None if target is None else encode_picture(np.asarray(target)),
        "metrics": metric_rows(run.metrics),
        "history": history_columns(run.result.history),
        "settings": {t: _plain(v) for t, v in config.items() if t != "versions"},
        "versions": run.result.versions,
        "timings": {k: finite(v) for k, v in run.result.timings.items()},
        "notes": [*run.notes, *why, *_space(run.metrics), *_outside(run)],
    }
    return data, drawn


def _space(metrics: dict[str, Any]) -> list[str]:
    """What to know of the units of diversity, if anything."""
    return [text for name, text in metrics.get("notes", {}).items() if name == "space"]


def _outside(run: Run) -> list[str]:
    """How many behaviors have left their bounds, if any."""
    num = run.result.history.get("clipped_behaviors", [0])[-1:]
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
    return base64.b64encode(np.asarray(array, "<f4").tobytes()).decode()


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
    """Name of the problem or algorithm; runs from Python may hold it as text."""
    found = config.get(table, "unknown")
    return str(found.get("name", "unknown") if isinstance(found, dict) else found)


def problem_name(config: dict[str, Any]) -> str:
    """The preset that was run, or else the problem."""
    run = config.get("run", {})
    return str(run.get("preset", name_of(config, "problem")))


def _plain(value: Any) -> Any:
    """Settings as JSON can hold them; infinite ones as text."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _pictures(
    problem: Problem | None, solutions: Any, quality: np.ndarray, most: int
) -> tuple[np.ndarray, list[str], list[str]]:
    """Rows drawn, their pictures, and what went wrong."""
    nobody = np.zeros(0, int)
    if problem is None or problem.render is None or not most or not len(quality):
        return nobody, [], []
    members = members_to_draw(quality, most)
    try:
        return members, thumbnails(problem, solutions, members), []
    except Exception as error:  # a user's render may fail in any way
        reason = " ".join(str(error).split()) or type(error).__name__
        return nobody, [], [f"The solutions could not be drawn ({reason:.200})."]
