import numpy as np
import pytest

import softqd
from softqd import plot

X = np.array([0, 10, 20])
COLUMNS = {"evaluations": X, "mean_quality": X / 10, "max_quality": X / 5}


def result(**columns):
    return softqd.Result(None, {**COLUMNS, **columns})


@pytest.mark.parametrize("run", [result(), COLUMNS])
def test_mean_and_best_of_a_run(run):
    axes = plot.history(run).axes[0]
    mean, best = axes.lines
    np.testing.assert_array_equal(mean.get_ydata(), [0, 1, 2])
    np.testing.assert_array_equal(best.get_ydata(), [0, 2, 4])
    assert (mean.get_label(), best.get_label()) == ("mean quality", "best quality")


def test_a_panel_per_title_and_a_line_per_run():
    figure = plot.histories({"a": [result(), result()], "b": [COLUMNS]})
    assert [axes.get_title() for axes in figure.axes] == ["a", "b"]
    assert [len(axes.lines) for axes in figure.axes] == [4, 2]
    words = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    assert words == ["mean quality", "best quality"]


def test_bandwidth_wants_a_run_that_logs_it():
    left, right = plot.bandwidth(result(gamma_sq=X + 1.0, overlap=X / 100)).axes
    np.testing.assert_array_equal(left.lines[0].get_ydata(), [1, 11, 21])
    np.testing.assert_array_equal(right.lines[0].get_ydata(), [0, 0.1, 0.2])
    with pytest.raises(ValueError, match=r"logs overlap; this one logs evaluations"):
        plot.bandwidth(result())
