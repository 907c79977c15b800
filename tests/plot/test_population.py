import numpy as np
import pytest

import softqd
from softqd import plot
from softqd.plot import _style


def arrays(d, n=30):
    rng = np.random.default_rng(d)
    return rng.random(n), rng.random((n, d))


@pytest.mark.parametrize(("d", "panels"), [(1, 1), (2, 1), (3, 3), (4, 6), (5, 1)])
def test_scatter_has_a_panel_per_pair_or_principal_components(d, panels):
    figure = plot.scatter(arrays(d), bounds=(np.zeros(d), np.ones(d)))
    drawn = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    used = [axes for axes in drawn if axes.collections]
    assert len(used) == panels
    assert sum(len(axes.collections[0].get_offsets()) for axes in used) == 30 * panels
    labels = {axes.get_xlabel() for axes in used}
    assert any("principal" in label for label in labels) == (d > 4)


@pytest.mark.parametrize("n", [1, 2])
def test_few_solutions_still_draw(n):
    assert plot.scatter(arrays(6, n)).axes
    assert plot.quality_histogram(arrays(6, n)).axes


def test_parallel_coordinates_span_the_bounds():
    quality = np.array([2.0, 1.0])
    behavior = np.array([[0.0, 5.0, 1.0], [4.0, 0.0, 3.0]])
    bounds = (np.array([0.0, 0.0, -np.inf]), np.array([8.0, 10.0, np.inf]))
    problem = softqd.Problem(
        lambda x: (x.sum(), x),
        behavior_bounds=bounds,
        behavior_names=("speed", "height", "mass"),
    )
    axes = plot.parallel_coordinates((quality, behavior), problem).axes[0]
    (lines,) = axes.collections
    worst, best = lines.get_segments()  # the best on top
    np.testing.assert_allclose(worst, [[0, 0.5], [1, 0.0], [2, 1.0]])
    np.testing.assert_allclose(best, [[0, 0.0], [1, 0.5], [2, 0.0]])
    assert [t.get_text() for t in axes.texts] == ["8", "10", "3"]
    ticks = [t.get_text() for t in axes.get_xticklabels()]
    assert ticks == ["0\nspeed", "0\nheight", "1\nmass"]


def test_large_populations_are_pixels_in_vector_files():
    rng = np.random.default_rng(0)
    sizes = []
    for n in (_style.MAX_VECTOR_MARKS, _style.MAX_VECTOR_MARKS + 1):
        figure = plot.scatter((rng.random(n), rng.random((n, 2))))
        sizes.append(figure.axes[0].collections[0].get_rasterized())
    assert sizes == [False, True]


@pytest.mark.parametrize("draw", [plot.scatter, plot.parallel_coordinates])
def test_results_and_populations_show_their_occupied_rows(draw):
    quality, behavior = arrays(2, 5)
    occupied = np.array([True, True, False, True, True])
    population = softqd.Population(behavior, quality, behavior, occupied)
    problem = softqd.problems.arm()
    for found in (population, softqd.Result(population, {})):
        axes = draw(found, problem).axes[0]
        (drawn,) = axes.collections
        assert len(drawn.get_array()) == 4
        words = [axes.get_xlabel(), *(t.get_text() for t in axes.get_xticklabels())]
        assert any("x of hand (arm lengths)" in word for word in words)


@pytest.mark.parametrize(
    "draw", [plot.scatter, plot.parallel_coordinates, plot.quality_histogram]
)
def test_an_empty_population_is_refused(draw):
    quality, behavior = arrays(2, 3)
    nobody = softqd.Population(behavior, quality, behavior, np.zeros(3, bool))
    with pytest.raises(ValueError, match="the population is empty"):
        draw(nobody)
