"""All metrics of one population, as the command line and reports show them."""

from __future__ import annotations

from typing import Any

import numpy as np

from softqd.metrics._archive import coverage, published_centroids, qd_score
from softqd.metrics._vendi import vendi_score
from softqd.types import Population, Problem

# Cells of the paper's tessellation where the problem does not name its own.
DEFAULT_CELLS = 512
# Above this the exact Vendi score, an eigendecomposition of n x n, is left out.
MAX_DENSE_VENDI = 4096


def to_unit(problem: Problem, behavior: np.ndarray) -> np.ndarray | None:
    """Behaviors mapped from the declared bounds to [0, 1]; None if unbounded."""
    low, high = problem.bounds(behavior.shape[1])
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None
    return np.clip((behavior - low) / (high - low), 0.0, 1.0).astype(behavior.dtype)


def evaluate_population(
    population: Population, problem: Problem, cells: int = DEFAULT_CELLS
) -> dict[str, Any]:
    """Mean and max quality, Vendi score, QVS, QD score and coverage.

    Args:
        population: Rows that are not occupied do not count.
        problem: Declares the behavior space; metrics work on [0, 1] of its bounds.
        cells: Size of the tessellation; published centroids are used where they exist.

    Returns:
        Metric names to numbers, None where a metric does not apply, and under 'notes'
        the reason for each None.
    """
    kept = population.compact()
    quality = np.asarray(kept.quality, np.float64)
    names = ("mean_quality", "max_quality", "vendi_score", "qvs", "qd_score")
    metrics: dict[str, Any] = dict.fromkeys(names)
    metrics |= dict.fromkeys(("coverage", "soft_qd_score", "soft_qd_score_stderr"))
    notes = {"soft_qd_score": "not available in this version"}
    if not len(quality):
        return {**metrics, "notes": dict.fromkeys(metrics, "the population is empty")}
    metrics["mean_quality"] = float(quality.mean())
    metrics["max_quality"] = float(quality.max())
    behavior = to_unit(problem, np.asarray(kept.behavior))
    if behavior is None:
        reason = "needs a bounded behavior space; declare behavior_bounds"
        notes |= dict.fromkeys(("vendi_score", "qvs", "qd_score", "coverage"), reason)
        return {**metrics, "notes": notes}
    if len(quality) <= MAX_DENSE_VENDI:
        metrics["vendi_score"] = vendi_score(behavior)
        metrics["qvs"] = max(metrics["mean_quality"], 0.0) * metrics["vendi_score"]
    else:
        reason = f"more than {MAX_DENSE_VENDI} solutions"
        notes |= dict.fromkeys(("vendi_score", "qvs"), reason)
    centroids = published_centroids(behavior.shape[1], cells)
    if centroids is None:
        reason = f"no published centroids for d={behavior.shape[1]} and {cells} cells"
        notes |= dict.fromkeys(("qd_score", "coverage"), reason)
    else:
        metrics["qd_score"] = qd_score(quality, behavior, centroids)
        metrics["coverage"] = coverage(behavior, centroids)
    return {**metrics, "notes": notes}
