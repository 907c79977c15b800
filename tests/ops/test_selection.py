import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from softqd.ops import selection

METHODS = {
    "dispatch": selection.smallest,
    "sort": lambda v, k: selection.share_of(v, selection.kth_by_sort(v, k), k),
    "heap": lambda v, k: selection.share_of(v, selection.kth_by_heap(v, k), k),
    "minima": lambda v, k: selection.share_of(v, selection.kth_by_minima(v, k), k),
}


def expected_weights(values, k):
    """The definition, row by row, in NumPy."""
    weights = np.zeros(values.shape)
    for row, out in zip(np.asarray(values), weights, strict=True):
        kth = np.sort(row)[k - 1]
        out[row < kth] = 1.0
        out[row == kth] = (k - (row < kth).sum()) / (row == kth).sum()
    return weights


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("n", "k"), [(1, 1), (7, 7), (16, 3), (100, 15), (1024, 41)])
def test_without_ties_it_is_a_sort(method, n, k):
    values = jax.random.normal(jax.random.key(n), (5, n))
    weights = np.asarray(METHODS[method](values, k))
    assert set(np.unique(weights)) <= {0.0, 1.0}
    order = np.argsort(np.asarray(values), axis=1)
    assert np.take_along_axis(weights, order, 1)[:, :k].all()
    np.testing.assert_array_equal(weights.sum(1), k)


@pytest.mark.parametrize("method", METHODS)
def test_ties_infinities_and_signed_zeros(method):
    values = jnp.array(
        [
            [1.0, 1.0, 1.0, 1.0, 1.0],
            [0.0, 2.0, 2.0, 2.0, 1.0],
            [jnp.inf, 3.0, jnp.inf, 1.0, 2.0],
            [-1.0, -0.0, 0.0, -1.0, 5.0],
            [-3.0, -jnp.inf, 0.0, 7.0, -2.0],
        ]
    )
    for k in range(1, 6):
        found = METHODS[method](values, k)
        np.testing.assert_allclose(found, expected_weights(values, k), rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(np.float32, (3, 12), elements=st.integers(-3, 3).map(float)),
    st.integers(1, 12),
)
def test_minima_survive_any_pattern_of_ties(values, k):
    kth = selection.kth_by_minima(jnp.asarray(values), k)
    np.testing.assert_array_equal(kth, np.sort(values, axis=1)[:, k - 1])


@pytest.mark.parametrize("method", METHODS)
def test_vmap_over_a_leading_axis(method):
    values = jax.random.normal(jax.random.key(0), (3, 4, 20))
    found = jax.vmap(lambda v: METHODS[method](v, 6))(values)
    expected = np.stack([expected_weights(v, 6) for v in values])
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("k", [0, 5])
def test_k_out_of_range(k):
    with pytest.raises(ValueError, match=f"k must be between 1 and 4; got {k}"):
        selection.smallest(jnp.zeros((2, 4)), k)
