"""The Gaussian bump and its pairwise form: the one place sigma meets gamma_sq.

A solution of quality f at b lights the point x with ``f * exp(-|x-b|^2 / (2 sigma^2))``
(Eq. 2 of Soft Quality-Diversity Optimization). The pairwise bound of Theorem 2 uses
``exp(-|b-b'|^2 / gamma_sq)`` with ``gamma_sq = 8 sigma^2``.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

# Pair kernels below this are dropped, as in the published runs.
KERNEL_CUTOFF = 1e-6


def gamma_sq_of(sigma: float | Array) -> float | Array:
    """Bandwidth of the pairwise bound for bumps of width ``sigma``.

    Examples:
        >>> gamma_sq_of(0.5)
        2.0
    """
    return 8.0 * sigma**2


def bump(dist_sq: Float[Array, "*s"], sigma: float | Array) -> Float[Array, "*s"]:
    """``exp(-dist_sq / (2 sigma^2))``."""
    return jnp.exp(dist_sq * (-0.5 / sigma**2))


def pair_kernel(
    dist_sq: Float[Array, "*s"],
    gamma_sq: Float[Array, "*_"] | float,
    cutoff: float = 0,
) -> Float[Array, "*s"]:
    """``exp(-dist_sq / gamma_sq)``, zero where below ``cutoff``."""
    kernel = jnp.exp(-dist_sq / gamma_sq)
    return jnp.where(kernel < cutoff, 0.0, kernel) if cutoff else kernel
