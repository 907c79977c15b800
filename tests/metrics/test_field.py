import numpy as np
import pytest

from softqd import metrics


def population(d, n=12, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(1, 5, n), rng.random((n, d))


def full_points(found, dims, rest, values):
    """All points of a map in the whole space, the other dimensions at ``values``."""
    x, y = np.meshgrid(found.x, found.y)
    points = np.empty((x.size, 2 + len(rest)))
    points[:, list(dims)] = np.stack([x.ravel(), y.ravel()], 1)
    points[:, rest] = values
    return points


def test_one_solution_in_closed_form():
    found = metrics.value_map(
        [2.0], [[0.5, 0.0, 0.7]], 0.4, dims=(2, 0), bounds=(-1, 1), resolution=5
    )
    np.testing.assert_array_equal(found.x, [-1.0, -0.5, 0.0, 0.5, 1.0])
    x, y = found.x[None, :], found.y[:, None]
    expected = 2 * np.exp(-((x - 0.7) ** 2 + (y - 0.5) ** 2) / (2 * 0.4**2))
    np.testing.assert_allclose(found.value, expected, rtol=1e-5)


def test_maximized_map_is_the_maximum_over_the_third_coordinate():
    quality, behavior = population(3)
    sigma, grid = 0.2, np.linspace(0, 1, 1001)
    found = metrics.value_map(quality, behavior, sigma, dims=(2, 0), resolution=7)
    slices = [
        metrics.behavior_value(
            full_points(found, (2, 0), [1], z), quality, behavior, sigma
        )
        for z in grid
    ]
    brute = np.max(slices, axis=0).reshape(7, 7)
    # A grid point is at most 0.0005 from the best z: exp(-0.0005^2 / (2 sigma^2)).
    np.testing.assert_allclose(found.value, brute, rtol=1e-5)
    assert (found.value >= brute - 1e-6).all()


@pytest.mark.parametrize("others", [[0.3, 0.8], 0.4])
def test_fixed_map_is_the_behavior_value_at_the_full_points(others):
    quality, behavior = population(4)
    found = metrics.value_map(
        quality, behavior, 0.3, dims=(1, 3), others=others, resolution=6
    )
    points = full_points(found, (1, 3), [0, 2], others)
    expected = metrics.behavior_value(points, quality, behavior, 0.3)
    np.testing.assert_allclose(found.value.ravel(), expected, rtol=1e-5)


def test_swapped_dims_transpose_the_map():
    quality, behavior = population(5)
    one = metrics.value_map(quality, behavior, 0.2, dims=(1, 4), resolution=9)
    other = metrics.value_map(quality, behavior, 0.2, dims=(4, 1), resolution=9)
    np.testing.assert_allclose(one.value, other.value.T, rtol=1e-5)


def test_bounds_per_dimension():
    found = metrics.value_map(
        [1.0],
        [[0.0, 1.0, 2.0]],
        1.0,
        bounds=([-1, 1, -np.inf], [1, 3, np.inf]),
        resolution=5,
    )
    np.testing.assert_array_equal(found.x, [-1.0, -0.5, 0.0, 0.5, 1.0])
    np.testing.assert_array_equal(found.y, [1.0, 1.5, 2.0, 2.5, 3.0])
    np.testing.assert_allclose(found.value[0], np.exp(-(found.x**2) / 2), rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dims": (0, 0)}, r"two different dimensions; got \(0, 0\)"),
        ({"dims": (0, 1, 2)}, "two different dimensions"),
        ({"dims": (0, 3)}, "dims must be a whole number between 0 and 2; got 3"),
        ({"others": "mean"}, "'max' or the values of the other dimensions; got 'mean'"),
        ({"others": [0.1, 0.2]}, "1 finite values, one for each dimension"),
        ({"others": [np.nan]}, "1 finite values"),
        ({"resolution": 1}, "resolution must be a whole number at least 2; got 1"),
        ({"bounds": (1, 0)}, r"bounds of dimension 0 .* got 1\.0 and 0\.0"),
        ({"bounds": (0, np.inf)}, "must be finite, low before high"),
        ({"sigma": 0.0}, "sigma must be positive"),
    ],
)
def test_bad_settings_of_a_map(settings, message):
    with pytest.raises(ValueError, match=message):
        metrics.value_map(*population(3), **{"sigma": 0.1, **settings})


def test_one_dimension_has_no_map():
    with pytest.raises(ValueError, match="use behavior_value at points along it"):
        metrics.value_map([1.0], [[0.5]], 0.1)


def test_cells_show_their_best_occupant():
    centers = np.array([[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]])
    behavior = np.array([[0.1, 0.1], [0.4, 0.3], [0.9, 0.6]])
    found = metrics.cell_map(
        np.array([2.0, 1.0, -3.0]), behavior, centers, resolution=4
    )
    empty = np.nan
    expected = [
        [2.0, 2.0, empty, empty],
        [2.0, 2.0, empty, empty],
        [empty, empty, -3.0, -3.0],
        [empty, empty, -3.0, -3.0],
    ]
    np.testing.assert_array_equal(found.value, expected)


def test_cells_of_another_dimension_than_two():
    with pytest.raises(ValueError, match=r"shape \(n, 2\) for a map of cells"):
        metrics.cell_map(np.ones(1), np.zeros((1, 3)), np.zeros((4, 3)))
