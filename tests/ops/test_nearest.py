import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import cKDTree

from softqd.ops import nearest
from softqd.ops.nearest import mean_nearest_distance, squares_kernel


def points(n, seed=0):
    return 64 * jax.random.uniform(jax.random.key(seed), (n, 2))


@pytest.mark.parametrize(("n", "k"), [(2, 1), (6, 5), (40, 5), (600, 3)])
def test_value_equals_a_kd_tree(n, k):
    x = points(n)
    distance, _ = cKDTree(np.asarray(x)).query(np.asarray(x), k + 1)
    expected = np.sqrt(distance[:, 1:] ** 2 + 1e-6).mean()
    np.testing.assert_allclose(mean_nearest_distance(x, k), expected, rtol=1e-5)


@pytest.mark.parametrize(("n", "k"), [(6, 5), (40, 5), (600, 3)])
def test_kernel_equals_a_sort(n, k):
    x = np.asarray(points(n), np.float64)
    dist_sq = ((x[:, None] - x[None]) ** 2).sum(-1)
    expected = np.sort(dist_sq, axis=1)[:, 1 : k + 1].T
    found = squares_kernel(jnp.asarray(x, jnp.float32), k, interpret=True)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("max_entries", [64, 2**18])
def test_gradient_equals_autodiff_of_a_top_k(monkeypatch, max_entries):
    monkeypatch.setattr(nearest, "_MAX_ENTRIES", max_entries)
    x = points(50)

    def straightforward(x):
        distance = jnp.sqrt(((x[:, None] - x[None]) ** 2).sum(-1) + 1e-6)
        distance = jnp.where(jnp.eye(len(x), dtype=bool), jnp.inf, distance)
        return -jax.lax.top_k(-distance, 5)[0].mean()

    expected = jax.grad(straightforward)(x)
    found = jax.grad(lambda x: mean_nearest_distance(x, 5))(x)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_equally_far_neighbors_share_the_derivative():
    """Of a cross, the middle point has four neighbors at 1 and takes two."""
    x = jnp.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    gradient = jax.grad(lambda x: mean_nearest_distance(x, 2, 1e-12))(x)
    np.testing.assert_allclose(gradient[0], 0.0, atol=1e-6)
    np.testing.assert_allclose(gradient[1], -gradient[2], atol=1e-6)
    np.testing.assert_allclose(gradient[1][::-1], gradient[3], atol=1e-6)
    # Own nearest: the middle in full, two of its diagonal neighbors half each; and it
    # is half a neighbor of the middle, half of each of the two.
    own = 1.0 + 2 * 0.5 / np.sqrt(2)
    others = 0.5 + 2 * 0.5 / np.sqrt(2)
    np.testing.assert_allclose(gradient[1], [(own + others) / 10, 0.0], atol=1e-6)


def test_coinciding_points_are_still():
    value, gradient = jax.value_and_grad(lambda x: mean_nearest_distance(x, 5))(
        jnp.ones((20, 2))
    )
    np.testing.assert_allclose(value, 1e-3, rtol=1e-5)
    np.testing.assert_array_equal(gradient, 0.0)


@pytest.mark.parametrize("k", [0, 4])
def test_too_few_points(k):
    with pytest.raises(ValueError, match="num_nearest must be between 1 and 3"):
        mean_nearest_distance(points(4), k)
