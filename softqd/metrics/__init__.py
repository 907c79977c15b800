"""Metrics of a population. Functions take plain arrays, behaviors already in [0, 1]."""

from softqd.cache import cvt_centroids
from softqd.metrics._archive import (
    cell_of,
    coverage,
    published_centroids,
    qd_score,
)
from softqd.metrics._bounds import lower_bound, overlap_error, truncation_error
from softqd.metrics._continuous import ContinuousQDScore, continuous_qd_score
from softqd.metrics._evaluate import (
    DEFAULT_CELLS,
    METRICS,
    centroids_of,
    evaluate_population,
    to_unit,
)
from softqd.metrics._field import ValueMap, cell_map, value_map
from softqd.metrics._select import select, selection_sigma
from softqd.metrics._soft_qd import (
    Estimate,
    behavior_value,
    default_sigma,
    soft_qd_score,
)
from softqd.metrics._statistics import (
    ALPHA,
    Summary,
    Verdict,
    against_best,
    holm,
    seeds_needed,
    summarize,
)
from softqd.metrics._vendi import (
    quality_vendi_score,
    vendi_estimate,
    vendi_score,
)

__all__ = [
    "ALPHA",
    "DEFAULT_CELLS",
    "METRICS",
    "ContinuousQDScore",
    "Estimate",
    "Summary",
    "ValueMap",
    "Verdict",
    "against_best",
    "behavior_value",
    "cell_map",
    "cell_of",
    "centroids_of",
    "continuous_qd_score",
    "coverage",
    "cvt_centroids",
    "default_sigma",
    "evaluate_population",
    "holm",
    "lower_bound",
    "overlap_error",
    "published_centroids",
    "qd_score",
    "quality_vendi_score",
    "seeds_needed",
    "select",
    "selection_sigma",
    "soft_qd_score",
    "summarize",
    "to_unit",
    "truncation_error",
    "value_map",
    "vendi_estimate",
    "vendi_score",
]
