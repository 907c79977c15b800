"""Ascent of the Soft QD Score itself, in SQUAD's loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import optax

from softqd.algorithms._squad import assemble
from softqd.algorithms._squad_settings import SELF_TUNING, Settings, check_settings
from softqd.ops.checks import check_count, is_concrete
from softqd.types import Algorithm, Problem


class Form(NamedTuple):
    """What settings are that are not given."""

    overlap: float | None


def soft_qd_ascent(
    problem: Problem,
    *,
    population_size: int = 1024,
    batch_size: int = 64,
    num_points: int = 16,
    sigma: float | None = None,
    overlap: float | optax.Schedule | None = None,
    optimizer: optax.GradientTransformation = optax.adam(0.05),  # noqa: B008 (pure)
    transform: str | Callable = "identity",
) -> Algorithm:
    r"""Climb the Soft QD Score itself, where `squad` climbs a lower bound of it.

    The score counts a solution's light only where it is the brightest. At random points
    around a solution it wins or loses: the share of wins is the pull on its quality,
    and lost points push it away. Without bias in the number of points, and with noise.
    A solution that wins nowhere has no gradient; where the width sets itself it leaves
    in a direction of its own.

    All else is as in `squad`: batches, two evaluations and one vector-Jacobian product
    per solution and iteration, and a width that sets itself.

    Args:
        problem: The problem; `evaluate` must be differentiable.
        population_size: N, at least 2.
        batch_size: M, from 1 to N; the last batch of an iteration may be smaller.
        num_points: Points around each solution; time and noise depend on it.
        sigma: Width of the light in the transformed space. None: it sets itself, so
            that the population's overlap follows a target.
        overlap: Diversity against quality where the width sets itself: a solution wins
            the share ``1 / (1 + overlap)`` of its light at the end of a run. None:
            0.15. It starts 30 times as high, unless this is a schedule.
        optimizer: Any optax optimizer; every solution has its own state.
        transform: Map from unit coordinates to the space where light falls: 'logit',
            'probit', 'identity', or an elementwise function.

    Returns:
        An `Algorithm`. ``init`` also takes solutions to start from, N of them.

    Raises:
        ValueError: If a setting is out of range.

    Examples:
        >>> import jax, softqd
        >>> problem = softqd.problems.sphere(solution_dim=16)
        >>> algorithm = softqd.soft_qd_ascent(problem, population_size=32, batch_size=8)
        >>> state = algorithm.init(jax.random.key(0))
        >>> state, info = jax.jit(algorithm.step)(state)
        >>> int(info.evaluations)
        64
    """
    check_count("num_points", num_points, 1)
    if sigma is not None and is_concrete(sigma) and not 0 < sigma < jnp.inf:
        raise ValueError(f"sigma must be positive and finite; got {sigma!r}")
    shown = {
        "population_size": population_size,
        "batch_size": batch_size,
        "num_points": num_points,
        "sigma": sigma,
        "overlap": form_of(sigma).overlap if overlap is None else overlap,
        "optimizer": optimizer,
        "transform": transform,
    }
    settings = Settings(
        population_size=population_size,
        batch_size=batch_size,
        num_neighbors=SELF_TUNING.num_neighbors,
        gamma_sq=None if sigma is None else 8.0 * jnp.asarray(sigma) ** 2,
        overlap=shown["overlap"],
        optimizer=optimizer,
        transform=transform,
        repulsion_weight=1.0,
        protect_quality=True,
        num_points=num_points,
    )
    if sigma is not None and overlap is not None:
        raise ValueError(
            f"overlap sets the width of the light and so does sigma; got {overlap!r} "
            f"and {sigma!r}. Leave sigma out (--set sigma=none) or overlap"
        )
    check_settings(settings)
    return assemble("soft_qd_ascent", problem, settings, shown)


def form_of(sigma: Any) -> Form:
    """The defaults that depend on whether the width sets itself."""
    return Form(0.15 if sigma is None else None)
