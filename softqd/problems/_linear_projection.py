"""Linear Projection: shifted Rastrigin with averaged chunks as behavior.

Fontaine et al. 2020, as used in Soft Quality-Diversity Optimization (appendix). The
paper's formula divides a chunk's sum by d; the published runs took the chunk's mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from softqd.ops.checks import check_count
from softqd.ops.trigonometry import cos_2pi
from softqd.types import Evaluation, Key, Problem

LIMIT = 5.12
SHIFT = 0.4 * LIMIT  # 2.048


def linear_projection(behavior_dim: int = 4, solution_dim: int = 1024) -> Problem:
    """Rastrigin quality, mean of ``behavior_dim`` equal chunks as behavior in [0, 1].

    The optimum, 2.048 in every coordinate, has quality 100, the corner -5.12 has 0, and
    there is no lower end. Solutions start uniform in [-5.12, 5.12]; the box is not
    enforced afterwards, but a coordinate outside counts as 5.12 / x in the behavior.

    Args:
        behavior_dim: d; the published runs use 4, 8 and 16.
        solution_dim: p, a multiple of d.

    Raises:
        ValueError: If ``behavior_dim`` does not divide ``solution_dim``.

    Examples:
        >>> import jax.numpy as jnp
        >>> problem = linear_projection(behavior_dim=4)
        >>> quality, behavior = problem.evaluate(jnp.full((1024,), 2.048))
        >>> float(quality), behavior.shape
        (100.0, (4,))
    """

    def quality(x: Float[Array, " p"]) -> Float[Array, ""]:
        worst = solution_dim * float(_rastrigin_at(-LIMIT))
        centered = x - SHIFT
        # Two plain sums: XLA's CPU backend vectorizes them better than one of both.
        rastrigin = (centered**2).sum() + 10.0 * (
            solution_dim - cos_2pi(centered).sum()
        )
        return 100.0 - (100.0 / worst) * rastrigin

    return chunked_problem("linear_projection", quality, behavior_dim, solution_dim)


def _rastrigin_at(x: float) -> float:
    """One coordinate's share of the shifted Rastrigin function."""
    return 10.0 + (x - SHIFT) ** 2 - 10.0 * math.cos(2 * math.pi * (x - SHIFT))


def chunked_problem(
    name: str, quality: Callable, behavior_dim: int, solution_dim: int
) -> Problem:
    """A problem on [-5.12, 5.12]^p whose behavior is the mean of equal chunks.

    Raises:
        ValueError: If the chunks are not equal.
    """
    check_count("behavior_dim", behavior_dim, 1)
    check_count("solution_dim", solution_dim, 1)
    if solution_dim % behavior_dim:
        raise ValueError(
            f"solution_dim must be a multiple of behavior_dim; got "
            f"solution_dim={solution_dim}, behavior_dim={behavior_dim}"
        )

    def sample(key: Key) -> Float[Array, " p"]:
        return jax.random.uniform(key, (solution_dim,), minval=-LIMIT, maxval=LIMIT)

    return Problem(
        lambda x: Evaluation(quality(x), project(x, behavior_dim)),
        sample=sample,
        behavior_bounds=(0.0, 1.0),
        name=f"{name}(behavior_dim={behavior_dim})",
        quality_bounds=(0.0, 100.0),
    )


def project(x: Float[Array, " p"], behavior_dim: int) -> Float[Array, " d"]:
    """Mean over equal chunks of the folded coordinates, scaled to [0, 1]."""
    is_inside = jnp.abs(x) <= LIMIT
    folded = jnp.where(is_inside, x, LIMIT / jnp.where(is_inside, 1.0, x))
    means = folded.reshape(behavior_dim, -1).mean(1)
    return (means + LIMIT) / (2 * LIMIT)
