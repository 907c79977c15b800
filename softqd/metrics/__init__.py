"""Metrics of a population. Functions take plain arrays, behaviors already in [0, 1]."""

from softqd.metrics._archive import (
    cell_of,
    coverage,
    published_centroids,
    qd_score,
)
from softqd.metrics._evaluate import evaluate_population, to_unit
from softqd.metrics._soft_qd import behavior_value
from softqd.metrics._vendi import quality_vendi_score, vendi_score

__all__ = [
    "behavior_value",
    "cell_of",
    "coverage",
    "evaluate_population",
    "published_centroids",
    "qd_score",
    "quality_vendi_score",
    "to_unit",
    "vendi_score",
]
