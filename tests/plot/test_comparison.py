import numpy as np
import pytest
from scipy import stats

import softqd
from softqd import plot
from softqd.experiment.many.comparison import COMPARED, Entry, conclude
from softqd.experiment.result import COUNTS
from softqd.plot import _comparison

X = np.array([10, 20, 30])
Y = np.array([[1.0, 2.0, 3.0], [3.0, 4.0, 9.0], [2.0, 6.0, 3.0]])


def bands_of(axes):
    """Lower and upper edge of every band, at its first place."""
    return [c.get_paths()[0].get_extents() for c in axes.collections]


def test_bands_are_one_standard_error_around_the_mean():
    axes = _comparison.draw_bands({"a": (X, Y), "b": (X, Y + 5)}).axes[0]
    first, second = axes.lines
    np.testing.assert_allclose(first.get_ydata(), Y.mean(0))
    np.testing.assert_allclose(second.get_ydata(), Y.mean(0) + 5)
    low, high = Y.mean(0) - stats.sem(Y), Y.mean(0) + stats.sem(Y)
    box = bands_of(axes)[0]
    np.testing.assert_allclose([box.y0, box.y1], [low.min(), high.max()])
    assert first.get_color() != second.get_color()
    assert first.get_marker() != second.get_marker()  # not by color alone
    assert axes.get_xlabel() == "evaluations"
    assert "3 seeds" in axes.get_title()


def test_curves_begin_where_there_is_a_value():
    """An empty archive has no quality yet; a single seed has no band."""
    y = np.array([[np.nan, 2.0, 3.0]])
    axes = _comparison.draw_bands({"a": (X, y)}).axes[0]
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), [20, 30])
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [2.0, 3.0])
    assert bands_of(axes)[0].height == 1.0


def test_distributions_show_every_run_and_the_median():
    values = {"QVS": {"a": [1.0, 2.0, 9.0], "b": []}, "coverage": {"a": [0.5]}}
    figure = _comparison.draw_boxes(values)
    first, second = figure.axes[:2]
    medians = [
        line.get_ydata()[0] for line in first.lines if line.get_color() == "black"
    ]
    assert 2.0 in medians
    runs = first.lines[-1]
    np.testing.assert_array_equal(runs.get_ydata(), [1.0, 2.0, 9.0])
    assert (first.get_ylabel(), second.get_ylabel()) == ("QVS", "coverage")
    assert [label.get_text() for label in first.get_xticklabels()] == ["a"]


@pytest.mark.parametrize(
    ("xs", "scale"), [([0.1, 10.0], "log"), ([1, 2], "linear"), ([0, 100], "linear")]
)
def test_settings_are_drawn_to_scale(xs, scale):
    ys = [[1.0, 3.0], [4.0, 8.0]]
    figure = _comparison.draw_settings({"": (xs[::-1], ys)}, "gamma_sq", "QVS")
    axes = figure.axes[0]
    line, _, (bars,) = axes.containers[0]
    np.testing.assert_array_equal(line.get_xdata(), xs)  # in order
    np.testing.assert_array_equal(line.get_ydata(), [6.0, 2.0])
    ends = [segment[:, 1] for segment in bars.get_segments()]
    np.testing.assert_allclose(ends, [[4.0, 8.0], [1.0, 3.0]])  # sem of two values
    assert axes.get_xscale() == scale
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("gamma_sq", "QVS")
    assert not figure.legends


def test_settings_that_are_no_numbers_stand_side_by_side():
    series = {
        "b=1": (["logit", "probit"], [[1.0], [2.0]]),
        "b=2": (["probit"], [[3.0]]),
    }
    figure = _comparison.draw_settings(series, "transform", "QVS")
    axes = figure.axes[0]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["logit", "probit"]
    np.testing.assert_array_equal(axes.containers[1][0].get_xdata(), [1])
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["b=1", "b=2"]


def test_tradeoff_has_a_point_per_setting():
    points = {"a": ([1.0, 3.0], [10.0, 10.0]), "b": ([4.0], [5.0])}
    axes = _comparison.draw_tradeoff(points, connect=True).axes[0]
    centers = [(c[0].get_xdata()[0], c[0].get_ydata()[0]) for c in axes.containers]
    assert centers == [(2.0, 10.0), (4.0, 5.0)]
    np.testing.assert_array_equal(axes.lines[-1].get_xdata(), [2.0, 4.0])


def entries():
    """Two algorithms, three seeds; QVS 1, 2, 3 and 11, 12, 13."""
    seeds = [0, 1, 2]
    names = (*COMPARED, *COUNTS, "iterations", "seconds")
    return {
        name: Entry({}, seeds, {key: [start + s for s in (1, 2, 3)] for key in names})
        for name, start in (("squad", 0.0), ("dns", 10.0))
    }


def test_distributions_of_a_comparison():
    found = conclude({"name": "sphere"}, 20, entries(), {})
    figure = plot.distributions(found, "qvs")
    assert [axes.get_ylabel() for axes in figure.axes] == ["QVS"]
    np.testing.assert_array_equal(figure.axes[0].lines[-1].get_ydata(), [11, 12, 13])
    assert len(plot.distributions(found).axes) >= len(COMPARED)
    with pytest.raises(ValueError, match="unknown metric 'qv'; did you mean 'qvs'"):
        plot.distributions(found, "qv")


def test_settings_and_tradeoff_of_a_sweep():
    found = conclude({"name": "sphere"}, 20, entries(), {})
    points = {"squad": {"overlap": 0.1}, "dns": {"overlap": 0.4}}
    grid = {"overlap": [0.1, 0.4]}
    sweep = softqd.Sweep("squad", "qvs", grid, points, "dns", {}, found, [])
    axes = plot.setting_curves(sweep).axes[0]
    np.testing.assert_array_equal(axes.containers[0][0].get_xdata(), [0.1, 0.4])
    np.testing.assert_array_equal(axes.containers[0][0].get_ydata(), [2.0, 12.0])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("overlap", "QVS")
    # Values of one setting are joined, algorithms are not.
    assert len(plot.tradeoff(sweep).axes[0].lines) == 1 + len(
        plot.tradeoff(found).axes[0].lines
    )


def test_curves_of_results_over_seeds():
    """The run that ended first sets the end; both begin together."""
    runs = [
        softqd.Result(None, {"evaluations": X, "mean_quality": row}) for row in Y[:2]
    ]
    short = {"evaluations": X[:2], "mean_quality": Y[2][:2]}
    axes = plot.curves({"squad": [*runs, short]}).axes[0]
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), [10, 20])
    np.testing.assert_allclose(axes.lines[0].get_ydata(), Y.mean(0)[:2])
    assert axes.get_ylabel() == "mean quality"
    with pytest.raises(ValueError, match=r"unknown column 'qvs'; .*squad logs"):
        plot.curves({"squad": runs}, "qvs")
    with pytest.raises(ValueError, match="nothing to draw"):
        plot.curves({"squad": []})
