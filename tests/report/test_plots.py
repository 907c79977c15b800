import numpy as np
import pytest

from softqd.report import plots


def population(d, n=30):
    rng = np.random.default_rng(d)
    return rng.random(n), rng.random((n, d))


@pytest.mark.parametrize(("d", "panels"), [(1, 1), (2, 1), (3, 3), (4, 6), (5, 1)])
def test_scatter_has_a_panel_per_pair_or_principal_components(d, panels):
    quality, behavior = population(d)
    figure = plots.behavior_scatter(quality, behavior, (np.zeros(d), np.ones(d)))
    drawn = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    used = [axes for axes in drawn if axes.collections]
    assert len(used) == panels
    assert sum(len(axes.collections[0].get_offsets()) for axes in used) == 30 * panels
    labels = {axes.get_xlabel() for axes in used}
    assert any("principal" in label for label in labels) == (d > 4)


def test_value_map_is_brightest_at_the_best_solution():
    quality, behavior = np.array([1.0, 4.0]), np.array([[0.2, 0.2], [0.7, 0.6]])
    figure = plots.value_map(
        quality, behavior, (np.zeros(2), np.ones(2)), resolution=101
    )
    light = figure.axes[0].images[0].get_array()
    row, column = np.unravel_index(light.argmax(), light.shape)
    assert (column / 100, row / 100) == (0.7, 0.6)
    np.testing.assert_allclose(light.max(), 4.0, rtol=1e-5)
    assert "sigma 0.03" in figure.axes[0].get_title()


def test_value_map_of_negative_quality_and_unbounded_space():
    quality, behavior = population(2)
    infinite = np.full(2, np.inf)
    figure = plots.value_map(
        quality - 2.0, behavior, (-infinite, infinite), resolution=5
    )
    assert not figure.axes[0].images[0].get_array().any()


@pytest.mark.parametrize("n", [1, 2])
def test_few_solutions_still_draw(n):
    quality, behavior = population(6, n)
    assert plots.behavior_scatter(quality, behavior).axes
    assert plots.quality_histogram(quality).axes


def test_landscape_peaks_at_the_shift():
    image = plots.landscape(resolution=401).axes[0].images[0].get_array()
    row, column = np.unravel_index(image.argmax(), image.shape)
    np.testing.assert_allclose([row, column], (2.048 + 5.12) / 10.24 * 400, atol=1)
    assert image.max() <= 100.0
