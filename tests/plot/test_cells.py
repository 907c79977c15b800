import numpy as np
import pytest

import softqd
from softqd import plot


def test_cells_beside_the_field():
    """Left the best occupant or dark, right its light, both on one scale."""
    quality, behavior = np.array([1.0, 4.0]), np.array([[0.2, 0.2], [0.4, 0.1]])
    halves = np.array([[0.25, 0.5], [0.75, 0.5]])
    found, options = (quality, behavior), {"resolution": 11, "sigma": 0.1}
    figure = plot.cells_and_value(found, centroids=halves, bounds=(0, 1), **options)
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


def test_cells_are_those_of_the_unit_cube():
    """In [0, 1] x [0, 100] the nearest centroid is found in the unit cube."""
    bounds = (np.zeros(2), np.array([1.0, 100.0]))
    centroids = np.array([[0.25, 50.0], [0.75, 50.0]])
    behavior = np.array([[0.4, 90.0]])
    found = (np.array([4.0]), behavior)
    figure = plot.cells(found, bounds=bounds, centroids=centroids, resolution=11)
    axes = figure.axes[0]
    light = axes.images[0].get_array()
    np.testing.assert_array_equal(light[:, :5], 4.0)
    assert np.ma.getmaskarray(light)[:, 6:].all()
    assert "2 cells, 50% occupied" in axes.get_title()
    assert axes.get_ylim() == (0.0, 100.0)


def test_cells_of_a_population_have_the_names_of_behaviors():
    behavior = np.array([[0.1, 0.2], [0.3, 0.4]])
    population = softqd.Population(behavior, np.ones(2), behavior, np.ones(2, bool))
    axes = plot.cells(population, softqd.problems.arm()).axes[0]
    assert axes.get_xlabel() == "x of hand (arm lengths)"
    assert "512 cells" in axes.get_title()
    with pytest.raises(ValueError, match=r"two bounded behaviors; .* has 2, unbounded"):
        plot.cells(population)


def test_archives_light_the_cells_of_their_best():
    centroids = np.array([[0.25, 0.5], [0.75, 0.5]])
    behavior = np.array([[0.2, 0.5], [0.3, 0.5]])
    figure = plot.archives({"SQUAD": (np.array([1.0, 3.0]), behavior)}, centroids)
    picture = figure.axes[0].images[0].get_array()
    assert picture[0, 0] == 3.0
    assert np.isnan(picture.filled(np.nan)[0, -1])
