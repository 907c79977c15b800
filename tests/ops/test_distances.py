import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from softqd.ops import distances


@pytest.mark.parametrize("dim", [1, 2, 16, 64, 100])
def test_squared_distances_against_scipy(dim):
    a = jax.random.normal(jax.random.key(0), (7, dim))
    b = jax.random.normal(jax.random.key(1), (9, dim))
    expected = cdist(np.asarray(a, float), np.asarray(b, float), "sqeuclidean")
    np.testing.assert_allclose(distances.squared_distances(a, b), expected, rtol=2e-6)


def test_close_points_far_from_the_origin_keep_their_distance():
    a = jnp.array([[1000.0, 0.0]])
    b = jnp.array([[1000.125, 0.0]])
    assert distances.squared_distances(a, b).item() == 0.125**2


def test_mean_nearest_against_a_tree():
    points = jax.random.normal(jax.random.key(0), (200, 3))
    nearest = KDTree(np.asarray(points, float)).query(np.asarray(points, float), k=2)[0]
    found = distances.mean_nearest_dist_sq(points)
    np.testing.assert_allclose(found, (nearest[:, 1] ** 2).mean(), rtol=1e-5)


def test_map_rows_in_uneven_chunks(monkeypatch):
    monkeypatch.setattr(distances, "MAX_ENTRIES", 30)
    rows = jnp.arange(23.0)
    found = distances.map_rows(lambda r: 2 * r, rows, row_length=5)
    np.testing.assert_array_equal(found, 2 * np.arange(23.0))
