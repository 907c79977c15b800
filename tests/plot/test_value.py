import numpy as np
import pytest

import softqd
from softqd import plot


def population(d, n=30):
    rng = np.random.default_rng(d)
    return rng.random(n), rng.random((n, d))


def test_value_map_is_brightest_at_the_best_solution():
    quality, behavior = np.array([1.0, 4.0]), np.array([[0.2, 0.2], [0.7, 0.6]])
    found = (quality, behavior)
    figure = plot.value_map(found, bounds=(0, 1), resolution=101)
    light = figure.axes[0].images[0].get_array()
    row, column = np.unravel_index(light.argmax(), light.shape)
    assert (column / 100, row / 100) == (0.7, 0.6)
    np.testing.assert_allclose(light.max(), 4.0, rtol=1e-5)
    assert "sigma 0.03" in figure.axes[0].get_title()


def test_value_map_of_negative_quality_and_unbounded_space():
    quality, behavior = population(2)
    infinite = np.full(2, np.inf)
    sides = (-infinite, infinite)
    figure = plot.value_map((quality - 2.0, behavior), bounds=sides, resolution=5)
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
    figure = plot.value_map(
        (quality, behavior),
        bounds=(np.zeros(3), np.ones(3)),
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


def named():
    """Two behaviors with names, in [0, 4] x [-1, 1]; quality counts from 1."""
    return softqd.Problem(
        lambda x: (x.sum(), x),
        behavior_bounds=([0, -1], [4, 1]),
        behavior_names=("distance (m)", "$ per hour"),
        quality_level=1.0,
    )


def everyone(occupied=(True, True, False)):
    behavior = np.array([[1.0, 0.0], [3.0, 0.5], [2.0, -0.5]])
    return softqd.Population(
        behavior, np.array([2.0, 5.0, 9.0]), behavior, np.array(occupied)
    )


def test_a_population_with_its_problem():
    """Bounds, names and level are the problem's; empty rows are not drawn."""
    axes = plot.value_map(everyone(), named(), resolution=41).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("distance (m)", r"\$ per hour")
    assert (axes.get_xlim(), axes.get_ylim()) == ((0, 4), (-1, 1))
    assert axes.images[0].get_clim() == (0.0, 4.0)
    assert len(axes.collections[0].get_offsets()) == 2


def test_a_result_knows_its_level():
    """Both lie on the grid of points; at them, the value is the quality's rest."""
    result = softqd.Result(everyone(), {}, quality_level=-1.0)
    figure = plot.value_map(result, bounds=([0, -1], [4, 1]), resolution=41)
    assert figure.axes[0].images[0].get_clim() == (0.0, 6.0)
    figure = plot.value_map(result, named(), level=4.0)
    assert figure.axes[0].images[0].get_clim() == (0.0, 1.0)


def test_without_bounds_the_map_spans_the_population():
    axes = plot.value_map(everyone()).axes[0]
    assert (axes.get_xlim(), axes.get_ylim()) == ((1, 3), (0, 0.5))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("behavior 1", "behavior 2")


def test_several_share_scale_space_and_the_lowest_level():
    low = softqd.Result(everyone(), {}, quality_level=-3.0)
    high = softqd.Result(everyone((True, False, False)), {}, quality_level=0.0)
    first, second = plot.value_maps({"a": low, "b": high}, named()).axes[:2]
    assert first.images[0].get_clim() == second.images[0].get_clim() == (0.0, 8.0)
    assert first.get_title().startswith("a (sigma 0.12")
    assert second.get_xlabel() == "distance (m)"


def test_surfaces_have_the_names_of_behaviors():
    axes = plot.surfaces({"a": everyone()}, named(), resolution=5).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("distance (m)", r"\$ per hour")


def test_what_cannot_be_mapped_is_said():
    with pytest.raises(ValueError, match="the population is empty"):
        plot.value_map(everyone((False,) * 3), named())
    with pytest.raises(ValueError, match="needs two behaviors or more"):
        plot.value_map((np.ones(2), np.ones((2, 1))))
    with pytest.raises(TypeError, match=r"softqd.Result, a .*; got ndarray"):
        plot.value_map(np.ones(3))
