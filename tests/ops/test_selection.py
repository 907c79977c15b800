import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from softqd.ops import selection

METHODS = {
    "dispatch": selection.kth_smallest,
    "sort": selection.kth_by_sort,
    "minima": selection.kth_by_minima,
    "kernel": lambda v, k: selection.kth_by_kernel(v, k, interpret=True),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("n", "k"), [(1, 1), (7, 7), (16, 3), (100, 15), (1024, 40)])
def test_equals_numpy_sort(method, n, k):
    values = jax.random.normal(jax.random.key(n), (5, n))
    expected = np.sort(np.asarray(values), axis=1)[:, k - 1]
    np.testing.assert_array_equal(METHODS[method](values, k), expected)


@pytest.mark.parametrize("method", METHODS)
def test_ties_infinities_and_signed_zero(method):
    values = jnp.array(
        [
            [1.0, 1.0, 1.0, 1.0, 1.0],
            [0.0, 2.0, 2.0, 2.0, 1.0],
            [jnp.inf, 3.0, jnp.inf, 1.0, 2.0],
            [-1.0, -0.0, 0.0, -1.0, 5.0],
        ]
    )
    for k in range(1, 6):
        expected = np.sort(np.asarray(values), axis=1)[:, k - 1]
        np.testing.assert_array_equal(METHODS[method](values, k), expected)


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(np.float32, (3, 12), elements=st.integers(-3, 3).map(float)),
    st.integers(1, 12),
)
def test_minima_survive_any_pattern_of_ties(values, k):
    expected = np.sort(values, axis=1)[:, k - 1]
    np.testing.assert_array_equal(
        selection.kth_by_minima(jnp.asarray(values), k), expected
    )


@pytest.mark.parametrize("method", METHODS)
def test_vmap_over_a_leading_axis(method):
    values = jax.random.normal(jax.random.key(0), (3, 4, 20))
    found = jax.vmap(lambda v: METHODS[method](v, 6))(values)
    np.testing.assert_array_equal(found, np.sort(np.asarray(values), 2)[..., 5])


@pytest.mark.parametrize("k", [0, 5])
def test_k_out_of_range(k):
    with pytest.raises(ValueError, match=f"k must be between 1 and 4; got {k}"):
        selection.kth_smallest(jnp.zeros((2, 4)), k)
