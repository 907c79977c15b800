import jax
import jax.numpy as jnp
import numpy as np
import pytest

from softqd.ops import cvt

nearest_centroid = jax.jit(cvt.nearest_centroid)


def exact_dist_sq(points, centroids):
    """All squared distances, in double precision."""
    points, centroids = (np.asarray(x, np.float64) for x in (points, centroids))
    return ((points[:, None] - centroids[None]) ** 2).sum(2)


def random_points(seed, n, d):
    return np.random.default_rng(seed).random((n, d), dtype=np.float32)


@pytest.mark.parametrize("m", [1, 15, 16, 17, 1000])
@pytest.mark.parametrize("d", [1, 2, 7, 70])
def test_nearest_of_all(m, d):
    points, centroids = random_points(0, 200, d), random_points(1, m, d)
    index, dist_sq = nearest_centroid(jnp.asarray(points), jnp.asarray(centroids))
    exact = exact_dist_sq(points, centroids)
    np.testing.assert_array_equal(index, exact.argmin(1))
    np.testing.assert_allclose(dist_sq, exact.min(1), rtol=2e-6)


@pytest.mark.parametrize("origin", [0.0, 0.7, 5.0])
def test_cells_far_smaller_than_their_distance_from_the_origin(origin):
    """The product alone would be wrong about most of these points."""
    points, centroids = (
        np.float32(origin) + np.float32(1e-3) * random_points(seed, 500, 2)
        for seed in (0, 1)
    )
    centroids = np.concatenate([centroids, np.zeros((1, 2), np.float32)])
    index, _ = nearest_centroid(jnp.asarray(points), jnp.asarray(centroids))
    exact = exact_dist_sq(points, centroids)
    found = np.take_along_axis(exact, np.asarray(index)[:, None], 1)[:, 0]
    np.testing.assert_allclose(found, exact.min(1), rtol=2e-6)


def test_the_first_of_equals():
    # Repeated far apart and close by; the last is what fills the last group.
    centroids = jnp.tile(jnp.array([[0.0], [1.0], [0.25]]), (15, 1))
    points = jnp.array([[0.0], [0.5], [0.1], [0.125], [2.0]])
    index, _ = nearest_centroid(points, centroids)
    assert index.tolist() == [0, 2, 0, 0, 1]


@pytest.mark.parametrize("scale", [10.0, 1e4, 1e30])
def test_points_far_away_still_find_a_cell(scale):
    centroids = random_points(0, 300, 3)
    points = scale * (random_points(1, 50, 3) - 0.5)
    index, _ = nearest_centroid(jnp.asarray(points), jnp.asarray(centroids))
    exact = exact_dist_sq(points, centroids)
    found = np.take_along_axis(exact, np.asarray(index)[:, None], 1)[:, 0]
    np.testing.assert_allclose(found, exact.min(1), rtol=2e-6)


@pytest.mark.parametrize("far", [3.0, -1e3, 1e6, -1e20])
def test_points_beside_a_grid_are_as_if_clipped(far):
    centers = (np.arange(20, dtype=np.float32) + 0.5) / 20
    centroids = np.stack([x.ravel() for x in np.meshgrid(centers, centers)], axis=1)
    points = random_points(0, 100, 2)
    points[:, 0] = far
    index, _ = nearest_centroid(jnp.asarray(points), jnp.asarray(centroids))
    clipped = np.clip(points, 0.0, 1.0)
    np.testing.assert_array_equal(index, exact_dist_sq(clipped, centroids).argmin(1))


def test_chunks_and_vmap_change_nothing(monkeypatch):
    points, centroids = (jnp.asarray(random_points(s, 3 * 90, 2)) for s in (0, 1))
    points, centroids = points.reshape(3, 90, 2), centroids.reshape(3, 90, 2)
    found = jax.vmap(nearest_centroid)(points, centroids)[0]
    monkeypatch.setattr(cvt, "_MAX_ENTRIES", 96 * 7)
    in_chunks = jax.jit(lambda x, c: cvt.nearest_centroid(x, c))  # not traced before
    for i in range(3):
        index, _ = in_chunks(points[i], centroids[i])
        np.testing.assert_array_equal(found[i], index)


def test_double_precision(x64):
    centroids = jnp.array([[0.0], [1.0]])
    points = jnp.array([[0.5 + 1e-12], [0.5 - 1e-12]])
    assert nearest_centroid(points, centroids)[0].tolist() == [1, 0]
