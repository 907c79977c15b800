import dm_pix
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from softqd.ops.ssim import ssim


def pair(seed, shape=(20, 24, 3), noise=0.2):
    a, b = (jax.random.uniform(jax.random.key(seed + i), shape) for i in (0, 1))
    return a, jnp.clip((1 - noise) * a + noise * b, 0, 1)


@pytest.mark.parametrize("size", [1, 4, 5, 11])
@pytest.mark.parametrize("noise", [0.0, 0.2, 1.0])
def test_value_equals_dm_pix(size, noise):
    a, b = pair(size, noise=noise)
    expected = dm_pix.ssim(a, b, filter_size=size)
    found = ssim(a, b, filter_size=size)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("size", [4, 5])
def test_gradient_equals_dm_pix(size):
    a, b = pair(7)
    expected = jax.grad(lambda a: dm_pix.ssim(a, b, filter_size=size))(a)
    found = jax.grad(lambda a: ssim(a, b, filter_size=size))(a)
    scale = float(jnp.abs(expected).max())
    np.testing.assert_allclose(found, expected, atol=1e-4 * scale)


def test_black_and_white():
    """Constant pictures have no structure: c1 / (1 + c1) is left."""
    black, white = jnp.zeros((8, 8, 1)), jnp.ones((8, 8, 1))
    expected = 1e-4 / (1 + 1e-4)
    np.testing.assert_allclose(ssim(black, white, filter_size=5), expected, rtol=1e-4)


def test_wrong_input():
    a, b = pair(0)
    with pytest.raises(ValueError, match="filter_size must be between 1"):
        ssim(a[:6, :6], b[:6, :6])
