"""From a bounded behavior space to the unbounded one where repulsion acts.

Coordinates of bounded dimensions are first scaled to [0, 1]; unbounded dimensions, and
those bounded on one side only, are left alone.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logit, ndtri
from jaxtyping import Array, Bool, Float

from softqd.types import Problem

# Unit coordinates are clipped this far from 0 and 1, as in the published runs.
MARGIN = 1e-6

TRANSFORMS: dict[str, Callable] = {
    "logit": lambda u: logit(jnp.clip(u, MARGIN, 1 - MARGIN)),
    "probit": lambda u: ndtri(jnp.clip(u, MARGIN, 1 - MARGIN)),
    "identity": lambda u: jnp.clip(u, 0, 1),
}


def transform_function(transform: str | Callable) -> Callable:
    """The elementwise function of unit coordinates behind a name, or itself.

    Raises:
        ValueError: If the name is unknown.
    """
    if callable(transform):
        return transform
    if transform not in TRANSFORMS:
        names = ", ".join(TRANSFORMS)
        raise ValueError(
            f"unknown transform {transform!r}; use one of {names}, or a function of "
            "unit coordinates"
        )
    return TRANSFORMS[transform]


def behavior_transform(
    problem: Problem, dim: int, transform: str | Callable = "logit"
) -> Callable[[Float[Array, "n d"]], Float[Array, "n d"]]:
    """Build the map from declared behaviors to the space where repulsion acts.

    Args:
        problem: Declares the bounds.
        dim: Number of behavior dimensions.
        transform: 'logit', 'probit' or 'identity', or an elementwise function of unit
            coordinates.

    Raises:
        ValueError: If the transform is unknown.
    """
    function = transform_function(transform)
    low, high = problem.bounds(dim)
    bounded = np.isfinite(low) & np.isfinite(high)
    offset, width = np.where(bounded, low, 0.0), np.where(bounded, high - low, 1.0)

    def apply(behavior):
        if not bounded.any():
            return behavior
        rank = (1,) * (behavior.ndim - 1) + (dim,)
        constant = lambda x: jnp.asarray(x, behavior.dtype).reshape(rank)  # noqa: E731
        unit = (behavior - constant(offset)) / constant(width)
        if bounded.all():
            return function(unit)
        mask = jnp.broadcast_to(jnp.asarray(bounded).reshape(rank), unit.shape)
        # 0.5 is inside every transform's domain: no NaN leaks through the gradient.
        return jnp.where(mask, function(jnp.where(mask, unit, 0.5)), behavior)

    return apply


def is_outside(
    problem: Problem, behavior: Float[Array | np.ndarray, "n d"]
) -> Bool[np.ndarray, " n"]:
    """Which behaviors lie outside the declared bounds, beyond rounding."""
    behavior = np.asarray(behavior)
    low, high = problem.bounds(behavior.shape[-1])
    width = np.where(np.isfinite(high - low), high - low, 1.0)
    # A mean of values in [low, high] may leave it by a few units in the last place.
    slack = 4 * float(jnp.finfo(behavior.dtype).eps) * width
    is_out = (behavior < (low - slack)[None]) | (behavior > (high + slack)[None])
    return np.asarray(is_out.any(1))
