"""The behavior value: how brightly a population lights a point (Eq. 2)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from softqd.ops.distances import map_rows, squared_distances
from softqd.ops.kernels import bump


def behavior_value(
    points: Float[Array | np.ndarray, "m d"],
    quality: Float[Array | np.ndarray, " n"],
    behavior: Float[Array | np.ndarray, "n d"],
    sigma: float,
) -> Float[Array, " m"]:
    r"""$v(x) = \max_n f_n \exp(-\|x - b_n\|^2 / (2 \sigma^2))$ at every point.

    Args:
        points: Where to look.
        quality: Qualities, not negative.
        behavior: Behaviors.
        sigma: Width of a solution's light, positive.

    Raises:
        ValueError: If a quality is negative or sigma is not positive.

    Examples:
        >>> import jax.numpy as jnp
        >>> one = jnp.ones((1, 2))
        >>> behavior_value(one, jnp.array([3.0]), one, sigma=0.1).tolist()
        [3.0]
    """
    points, quality, behavior = map(jnp.asarray, (points, quality, behavior))
    if (quality < 0).any():
        raise ValueError(
            f"quality must not be negative; the smallest is {float(quality.min()):g}. "
            "Subtract a lower bound of your quality first"
        )
    if not sigma > 0:
        raise ValueError(f"sigma must be positive; got {sigma!r}")

    def brightest(rows):
        light = quality[None, :] * bump(squared_distances(rows, behavior), sigma)
        return light.max(1)

    return map_rows(brightest, points, len(quality))
