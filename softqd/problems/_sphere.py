"""Sphere: Linear Projection's behavior over a quality with one smooth peak."""

from __future__ import annotations

from jaxtyping import Array, Float

from softqd.problems._linear_projection import LIMIT, SHIFT, chunked_problem
from softqd.types import Problem


def sphere(behavior_dim: int = 2, solution_dim: int = 2048) -> Problem:
    """Shifted sphere as quality, mean of equal chunks as behavior in [0, 1].

    Quality is 100 at 2.048 in every coordinate and 0 at the corner -5.12.

    Args:
        behavior_dim: d.
        solution_dim: p, a multiple of d.

    Raises:
        ValueError: If ``behavior_dim`` does not divide ``solution_dim``.

    Examples:
        >>> import jax.numpy as jnp
        >>> quality, _ = sphere(solution_dim=8).evaluate(jnp.full((8,), -5.12))
        >>> bool(abs(quality) < 1e-4)
        True
    """

    def quality(x: Float[Array, " p"]) -> Float[Array, ""]:
        worst = solution_dim * (LIMIT + SHIFT) ** 2
        return 100.0 - (100.0 / worst) * ((x - SHIFT) ** 2).sum()

    return chunked_problem("sphere", quality, behavior_dim, solution_dim)
