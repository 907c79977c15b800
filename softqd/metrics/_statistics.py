"""Statistics of a comparison: one number per seed, several algorithms.

As in the Soft QD paper (section 5.1): Kruskal-Wallis over all, then two-sided
Mann-Whitney U tests of the best against each other, with Holm's correction. Beyond the
paper: bootstrap confidence intervals, and how many seeds such a test needs at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

ALPHA = 0.05
# Numbers in two samples up to which the exact test takes no time.
_MAX_EXACT = 200


class Summary(NamedTuple):
    """Mean of some numbers and how sure it is."""

    num: int
    mean: float
    stderr: float  # NaN for a single number
    low: float  # of the 95 % bootstrap interval of the mean
    high: float


class Verdict(NamedTuple):
    """Which algorithm is best, and which cannot be told from it."""

    best: str
    kruskal_p: float  # NaN where there are fewer than two algorithms
    p_values: dict[str, float]  # against the best, Holm-corrected; not the best itself
    not_worse: tuple[str, ...]  # p at least ALPHA; not the best itself


def summarize(values: Sequence[float], seed: int = 0) -> Summary:
    """Mean, standard error and 95 % bootstrap interval (BCa) of the mean.

    Args:
        values: At least one number, all finite.
        seed: Of the bootstrap.

    Raises:
        ValueError: If there is no number, or one is not finite.

    Examples:
        >>> summarize([1.0, 2.0, 3.0]).mean
        2.0
        >>> round(summarize([1.0, 2.0, 3.0]).stderr, 4)
        0.5774
    """
    x = _check("values", values)
    mean = float(x.mean())
    if len(x) == 1:
        return Summary(1, mean, math.nan, math.nan, math.nan)
    if np.ptp(x) == 0:  # the bootstrap has nothing to vary
        return Summary(len(x), mean, 0.0, mean, mean)
    # BCa looks at the sample with one number left out, which needs three.
    method = "BCa" if len(x) > 2 else "percentile"
    interval = scipy.stats.bootstrap(
        (x,), np.mean, method=method, rng=np.random.default_rng(seed)
    ).confidence_interval
    stderr = float(scipy.stats.sem(x))
    return Summary(len(x), mean, stderr, float(interval.low), float(interval.high))


def holm(p_values: Sequence[float]) -> Float[np.ndarray, " m"]:
    """Holm's step-down correction: the k-th smallest of m times m + 1 - k.

    Examples:
        >>> holm([0.01, 0.04, 0.03]).tolist()
        [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, float)
    order = p.argsort()
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(steps, 1.0)
    return corrected


def against_best(samples: Mapping[str, Sequence[float]]) -> Verdict:
    """Test the algorithm with the highest mean against each other one.

    Args:
        samples: Algorithm to one number per seed, larger is better. Numbers of samples
            may differ.

    Raises:
        ValueError: If there is no sample, or a sample is empty or not finite.

    Examples:
        >>> found = against_best({"a": [1, 2, 3, 4], "b": [5, 6, 7, 8]})
        >>> found.best, round(found.p_values["a"], 4), found.not_worse
        ('b', 0.0286, ())
    """
    if not samples:
        raise ValueError("samples is empty; give at least one algorithm's numbers")
    arrays = {name: _check(name, values) for name, values in samples.items()}
    best = max(arrays, key=lambda name: arrays[name].mean())
    others = [name for name in arrays if name != best]
    if not others:
        return Verdict(best, math.nan, {}, ())
    corrected = holm([_mann_whitney(arrays[best], arrays[name]) for name in others])
    p_values = dict(zip(others, corrected.tolist(), strict=True))
    not_worse = tuple(name for name, p in p_values.items() if p >= ALPHA)
    return Verdict(best, _kruskal(list(arrays.values())), p_values, not_worse)


def seeds_needed(num_algorithms: int) -> int:
    """Fewest seeds from which the best can be told from another at all.

    Where every number of one sample of n is above every number of the other, the exact
    two-sided Mann-Whitney test gives 2 / C(2n, n), its smallest value; Holm multiplies
    the smallest of m p-values by m.

    Args:
        num_algorithms: Algorithms compared, the best included; at least 2.

    Examples:
        >>> seeds_needed(2), seeds_needed(7)
        (4, 5)
    """
    if num_algorithms < 2:
        raise ValueError(f"num_algorithms must be at least 2; got {num_algorithms}")
    num_tests, num_seeds = num_algorithms - 1, 1
    while num_tests * 2 / math.comb(2 * num_seeds, num_seeds) >= ALPHA:
        num_seeds += 1
    return num_seeds


def _mann_whitney(x: np.ndarray, y: np.ndarray) -> float:
    both = np.concatenate([x, y])
    if np.ptp(both) == 0:  # SciPy divides by zero
        return 1.0
    # By itself SciPy takes the normal approximation from nine seeds, whose p cannot get
    # as small as the exact one's: 2 / C(20, 10) for ten seeds.
    is_exact = len(np.unique(both)) == len(both) and len(both) <= _MAX_EXACT
    method = "exact" if is_exact else "auto"
    return float(scipy.stats.mannwhitneyu(x, y, method=method).pvalue)


def _kruskal(arrays: list[np.ndarray]) -> float:
    if np.ptp(np.concatenate(arrays)) == 0:
        return 1.0
    return float(scipy.stats.kruskal(*arrays).pvalue)


def _check(name: str, values: Sequence[float]) -> Float[np.ndarray, " n"]:
    x = np.asarray(values, float)
    if x.ndim != 1 or not x.size or not np.isfinite(x).all():
        raise ValueError(
            f"{name} must be a list of finite numbers, at least one; got {values!r:.80}"
        )
    return x
