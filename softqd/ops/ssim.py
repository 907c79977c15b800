"""Structural similarity of two pictures (Wang, Bovik, Sheikh, Simoncelli, 2004).

Computes what `dm_pix.ssim` computes. The window is applied by one matrix product for
each side, which is several times as fast as small convolutions, forward and backward.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# Constants of the 2004 paper.
_K1, _K2 = 0.01, 0.03
# Variances are at least this, as in dm_pix: single precision's epsilon squared.
_MIN_VARIANCE = float(np.finfo(np.float32).eps) ** 2


def ssim(
    a: Float[Array, "h w c"],
    b: Float[Array, "h w c"],
    *,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
) -> Float[Array, ""]:
    """Mean SSIM over all places of a Gaussian window and all channels.

    Args:
        a: One picture, with values in [0, 1].
        b: The other.
        filter_size: Side of the window, at most the pictures' smaller side.
        filter_sigma: Standard deviation of the window's Gaussian, in pixels.

    Raises:
        ValueError: If the window does not fit.

    Examples:
        >>> import jax.numpy as jnp
        >>> gray = jnp.full((16, 16, 3), 0.5)
        >>> float(ssim(gray, gray))
        1.0
    """
    if not 1 <= filter_size <= min(a.shape[:2]):
        raise ValueError(
            f"filter_size must be between 1 and the smaller side of {a.shape[:2]}; "
            f"got {filter_size}"
        )
    across, down = (_window(n, filter_size, filter_sigma, a.dtype) for n in a.shape[:2])

    def blur(z):
        rows = jnp.einsum("ih,hwc->iwc", across, z, precision="highest")
        return jnp.einsum("jw,iwc->ijc", down, rows, precision="highest")

    mean_a, mean_b = blur(a), blur(b)
    var_a = jnp.maximum(blur(a * a) - mean_a**2, _MIN_VARIANCE)
    var_b = jnp.maximum(blur(b * b) - mean_b**2, _MIN_VARIANCE)
    covariance = blur(a * b) - mean_a * mean_b
    limit = jnp.sqrt(var_a * var_b)
    covariance = jnp.sign(covariance) * jnp.minimum(limit, jnp.abs(covariance))
    c1, c2 = _K1**2, _K2**2
    brightness = (2 * mean_a * mean_b + c1) / (mean_a**2 + mean_b**2 + c1)
    structure = (2 * covariance + c2) / (var_a + var_b + c2)
    return (brightness * structure).mean()


def _window(
    length: int, size: int, sigma: float, dtype: Any
) -> Float[np.ndarray, "m length"]:
    """Matrix that averages a side of this length over every place of the window."""
    offset = np.arange(size) - (size - 1) / 2
    weights = np.exp(-0.5 * (offset / sigma) ** 2)
    start = np.arange(length - size + 1)[:, None]
    matrix = np.zeros((len(start), length), dtype)
    matrix[np.arange(len(start))[:, None], start + np.arange(size)[None]] = (
        weights / weights.sum()
    )
    return matrix
