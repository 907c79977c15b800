from pathlib import Path

import numpy as np
import pytest

from softqd.report import fields, plots

EXAMPLES = Path(__file__).parents[2] / "examples"


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
    figure = fields.value_map(
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
    figure = fields.value_map(
        quality - 2.0, behavior, (-infinite, infinite), resolution=5
    )
    assert not figure.axes[0].images[0].get_array().any()


@pytest.mark.parametrize(
    ("others", "expected", "note"),
    [
        ("max", 4.0, "maximum over the others"),
        ([0.2], 4.0 * np.exp(-0.5), "others fixed"),
    ],
)
def test_value_map_of_three_dimensions(others, expected, note):
    """The better solution is one sigma away from the plane at 0.2."""
    quality, behavior = (
        np.array([1.0, 4.0]),
        np.array([[0.2, 0.2, 0.2], [0.7, 0.3, 0.6]]),
    )
    figure = fields.value_map(
        quality,
        behavior,
        (np.zeros(3), np.ones(3)),
        resolution=101,
        dims=(2, 0),
        others=others,
        sigma=0.1,
    )
    axes = figure.axes[0]
    light = axes.images[0].get_array()
    row, column = np.unravel_index(light.argmax(), light.shape)
    assert (column / 100, row / 100) == (0.6, 0.7)
    np.testing.assert_allclose(light.max(), expected, rtol=1e-5)
    assert note in axes.get_title()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("behavior 3", "behavior 1")
    np.testing.assert_array_equal(
        axes.collections[0].get_offsets(), behavior[:, [2, 0]]
    )


def test_cells_beside_the_field():
    """Left the best occupant or dark, right its light, both on one scale."""
    quality, behavior = np.array([1.0, 4.0]), np.array([[0.2, 0.2], [0.4, 0.1]])
    halves = np.array([[0.25, 0.5], [0.75, 0.5]])
    figure = fields.cells_and_field(
        quality, behavior, halves, (0, 1), resolution=11, sigma=0.1
    )
    cells, field = (axes.images[0] for axes in figure.axes[:2])
    left, right = cells.get_array()[:, :5], cells.get_array()[:, 6:]
    np.testing.assert_array_equal(left, 4.0)
    assert np.ma.getmaskarray(right).all()
    np.testing.assert_allclose(field.get_array()[1, 4], 4.0, rtol=1e-5)
    np.testing.assert_allclose(field.get_array()[2, 4], 4 * np.exp(-0.5), rtol=1e-5)
    assert cells.get_clim() == field.get_clim() == (0.0, 4.0)
    # The one border inside is the line x = 0.5.
    edges = figure.axes[0].collections[-1].get_segments()
    inside = [
        edge for edge in edges if (edge[:, 0] > 0).all() and (edge[:, 0] < 1).all()
    ]
    np.testing.assert_allclose(np.concatenate(inside)[:, 0], 0.5)


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
