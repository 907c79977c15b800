"""All metrics of one population, as the command line and reports show them."""

from __future__ import annotations

from typing import Any

import numpy as np

from softqd.cache import cvt_centroids
from softqd.metrics._archive import (
    coverage,
    published_centroids,
    qd_score,
)
from softqd.metrics._soft_qd import default_sigma, soft_qd_score
from softqd.metrics._vendi import vendi_estimate
from softqd.ops.checks import as_array
from softqd.types import Population

# Cells where nothing else is said: those behind the paper's LP and LSI tables.
DEFAULT_CELLS = 512
# Where no bounds are declared.
UNITS = "units of the first population"
METRICS = (
    "mean_quality",
    "max_quality",
    "vendi_score",
    "qvs",
    "qd_score",
    "coverage",
    "soft_qd_score",
    "soft_qd_score_stderr",
)


def to_unit(bounds: Any, behavior: Any, is_limit: bool = True) -> np.ndarray | None:
    """Behaviors mapped from ``(low, high)`` to [0, 1]; None if that is unbounded.

    What lies outside is put on the border, unless ``bounds`` are a unit and no limit.
    """
    behavior = np.asarray(as_array(behavior))
    dtype = np.result_type(behavior, np.float32)  # whole numbers become fractions
    low, high = (np.asarray(side, np.float64) for side in bounds)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None
    unit = (behavior - low) / (high - low)
    return (np.clip(unit, 0.0, 1.0) if is_limit else unit).astype(dtype)


def evaluate_population(
    population: Population,
    bounds: Any,
    *,
    cells: int = DEFAULT_CELLS,
    sigma: float | None = None,
    seed: int = 0,
    level: float = 0.0,
    units: Any = None,
) -> dict[str, Any]:
    """Quality, Vendi score, QVS, QD score, coverage and Soft QD Score.

    Args:
        population: Rows that are not occupied do not count.
        bounds: ``(low, high)`` of the declared behavior space, numbers or ``(d,)``.
            Metrics work on behaviors mapped from there to [0, 1].
        cells: Size of the tessellation: published centroids where they exist, else
            `cvt_centroids` of seed 0.
        sigma: Width of a solution's light in the unit cube; `default_sigma` if None.
        seed: Of the Soft QD Score's points and of large populations' Vendi score.
        level: From where QVS, QD score and Soft QD Score measure quality.
        units: ``(low, high)`` to map from where ``bounds`` are infinite, such as a
            result's ``behavior_units``: behaviors may lie outside.

    Returns:
        The names of `METRICS` to numbers, None where a metric does not apply;
        'settings' says what they were computed with, and 'notes' why one is None or
        what was done to the data.
    """
    kept = population.compact()
    quality = np.asarray(kept.quality, np.float64)
    metrics: dict[str, Any] = dict.fromkeys(METRICS)
    notes: dict[str, str] = {}
    settings: dict[str, Any] = {"space": "unit cube of the declared bounds"}
    settings["quality_level"] = float(level)
    result = {**metrics, "settings": settings, "notes": notes}
    if not len(quality):
        notes |= dict.fromkeys(METRICS, "the population is empty")
        return result
    result["mean_quality"] = float(quality.mean())
    result["max_quality"] = float(quality.max())
    behavior = to_unit(bounds, np.asarray(kept.behavior))
    if behavior is None and units is not None:
        behavior = to_unit(units, np.asarray(kept.behavior), is_limit=False)
        settings |= {"space": UNITS, "behavior_units": units}
        notes["space"] = f"no behavior_bounds are declared: diversity is in {UNITS}"
    if behavior is None:
        reason = "needs a bounded behavior space; declare behavior_bounds"
        notes |= dict.fromkeys(METRICS[2:], reason)
        return result
    quality = quality - level
    _add_vendi(result, quality, behavior, seed)
    _add_cells(result, quality, behavior, cells)
    _add_score(result, quality, behavior, sigma, seed)
    return result


def _add_vendi(result, quality, behavior, seed):
    value, error = vendi_estimate(behavior, seed=seed)
    result["vendi_score"] = value
    result["qvs"] = max(float(quality.mean()), 0.0) * value
    result["settings"]["vendi_scale_sq"] = behavior.shape[1] / 6
    if error:
        note = f"estimated, relative standard error {error / value:.1e}"
        result["notes"] |= dict.fromkeys(("vendi_score", "qvs"), note)


def centroids_of(dim: int, cells: int) -> tuple[np.ndarray, str]:
    """Published centroids where they exist, else our own; and which of the two."""
    centroids = published_centroids(dim, cells)
    if centroids is not None:
        return centroids, "published"
    return cvt_centroids(cells, dim), "k-means, seed 0"


def _add_cells(result, quality, behavior, cells):
    centroids, origin = centroids_of(behavior.shape[1], cells)
    result["qd_score"] = qd_score(quality, behavior, centroids)
    result["coverage"] = coverage(behavior, centroids)
    result["settings"] |= {"cells": cells, "centroids": origin}


def _add_score(result, quality, behavior, sigma, seed):
    sigma = default_sigma(behavior.shape[1]) if sigma is None else sigma
    num_negative = int((quality < 0).sum())
    if num_negative:
        result["notes"]["soft_qd_score"] = (
            f"{num_negative} members below the quality level count as 0"
        )
    score = soft_qd_score(np.maximum(quality, 0.0), behavior, sigma, seed=seed)
    result["soft_qd_score"], result["soft_qd_score_stderr"] = score
    result["settings"] |= {"sigma": sigma, "seed": seed}
