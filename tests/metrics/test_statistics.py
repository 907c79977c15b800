import math

import numpy as np
import pytest
from scipy import stats

from softqd.metrics import against_best, holm, seeds_needed, summarize

A, B, C = [5.0, 6.1, 7.2, 8.3, 9.4], [4.9, 6.0, 7.3, 8.1, 9.5], [0.1, 0.4, 0.2, 0.6, 0]


def test_mean_and_standard_error_by_hand():
    found = summarize([2.0, 4.0, 9.0])
    assert (found.num, found.mean) == (3, 5.0)
    # variance (9 + 1 + 16) / 2 = 13, over 3 numbers
    np.testing.assert_allclose(found.stderr, math.sqrt(13 / 3))


def test_interval_is_scipys():
    x = np.random.default_rng(1).exponential(size=12)
    expected = stats.bootstrap((x,), np.mean, rng=np.random.default_rng(0))
    found = summarize(x)
    assert (found.low, found.high) == tuple(expected.confidence_interval)
    assert found.low < found.mean < found.high


def test_interval_of_the_mean_covers_the_truth():
    rng = np.random.default_rng(0)
    intervals = [summarize(rng.normal(size=20)) for _ in range(200)]
    covered = np.mean([i.low <= 0 <= i.high for i in intervals])
    # Nominally 0.95, a little less for 20 numbers; standard error 0.017.
    assert 0.88 < covered < 0.98


def test_few_and_equal_numbers():
    one = summarize([3.0])
    assert one.mean == 3.0
    assert math.isnan(one.stderr)
    assert math.isnan(one.low)
    assert summarize([3.0, 3.0, 3.0]) == (3, 3.0, 0.0, 3.0, 3.0)
    two = summarize([1.0, 3.0])
    assert (two.low, two.high) == (1.0, 3.0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # 0.01 * 4, 0.013 * 3, 0.03 * 2, 0.04 * 1, each at least the one before
        ([0.01, 0.04, 0.03, 0.013], [0.04, 0.06, 0.06, 0.04]),
        ([0.5, 0.9], [1.0, 1.0]),
        ([0.2], [0.2]),
        ([], []),
    ],
)
def test_holm_by_hand(given, expected):
    np.testing.assert_allclose(holm(given), expected)


def test_best_against_each_other():
    found = against_best({"a": A, "c": C, "b": B})
    raw = [stats.mannwhitneyu(A, x).pvalue for x in (C, B)]
    assert raw[0] < raw[1]
    assert found.best == "a"  # means 7.2, 7.16, 0.26
    np.testing.assert_allclose(found.p_values["c"], 2 * raw[0])
    np.testing.assert_allclose(found.p_values["b"], raw[1])
    np.testing.assert_allclose(found.kruskal_p, stats.kruskal(A, C, B).pvalue)
    assert found.not_worse == ("b",)
    # 5 against 5, completely apart: 2 / C(10, 5) = 2 / 252, twice by Holm
    np.testing.assert_allclose(found.p_values["c"], 4 / 252)


def test_ten_seeds_apart_give_the_exact_p():
    found = against_best({"a": range(10), "b": range(10, 20)})
    np.testing.assert_allclose(found.p_values["a"], 2 / math.comb(20, 10))


def test_nothing_to_tell_apart():
    same = against_best({"a": [1.0, 1.0], "b": [1.0, 1.0]})
    assert same.kruskal_p == 1.0
    assert same.p_values == {"b": 1.0}
    alone = against_best({"a": [1.0, 2.0]})
    assert math.isnan(alone.kruskal_p)
    assert alone.p_values == {}


@pytest.mark.parametrize("num_algorithms", [2, 3, 7, 20])
def test_seeds_needed_is_what_scipy_reaches(num_algorithms):
    def corrected(n):
        apart = stats.mannwhitneyu(np.arange(n), n + np.arange(n), method="exact")
        return (num_algorithms - 1) * apart.pvalue

    needed = seeds_needed(num_algorithms)
    assert corrected(needed) < 0.05 <= corrected(needed - 1)


def test_bad_samples_are_refused():
    with pytest.raises(ValueError, match="samples is empty"):
        against_best({})
    with pytest.raises(ValueError, match="b must be a list of finite numbers"):
        against_best({"a": [1.0], "b": [math.nan]})
    with pytest.raises(ValueError, match="values must be"):
        summarize([])
    with pytest.raises(ValueError, match="at least 2"):
        seeds_needed(1)
