import jax
import jax.numpy as jnp
import numpy as np
import pytest

from softqd.ops.trigonometry import cos_2pi, sin_2pi


@pytest.mark.parametrize(("fast", "exact"), [(cos_2pi, np.cos), (sin_2pi, np.sin)])
def test_float32_error_against_double_precision(fast, exact):
    x = np.concatenate(
        [np.linspace(-2, 2, 400_001), np.random.default_rng(0).uniform(-8, 8, 400_000)]
    ).astype(np.float32)
    error = np.abs(
        np.asarray(fast(jnp.asarray(x))) - exact(2 * np.pi * x.astype(float))
    )
    assert error.max() < 2.5e-7


def test_gradients_are_each_other():
    x = jnp.linspace(-1.3, 1.3, 51)
    two_pi = 2 * np.pi
    slope = jax.vmap(jax.grad(cos_2pi))(x)
    np.testing.assert_allclose(slope, -two_pi * np.sin(two_pi * x), atol=3e-6)
    slope = jax.vmap(jax.grad(sin_2pi))(x)
    np.testing.assert_allclose(slope, two_pi * np.cos(two_pi * x), atol=3e-6)


def test_double_precision_stays_double(x64):
    x = jnp.linspace(-3.0, 3.0, 101)
    np.testing.assert_allclose(cos_2pi(x), np.cos(2 * np.pi * x), atol=1e-14)
