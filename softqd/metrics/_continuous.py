"""Continuous QD score: what users with a target behavior in mind would get.

Kent, Branke, Gaier and Mouret 2022, "A discretization-free metric for assessing quality
diversity algorithms", computed as pyribs does: qualities are divided by the width of
their bounds, without taking off the lower one, and scores are sums over targets and
penalties, not means.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from softqd.metrics._vendi import check_behavior
from softqd.ops.checks import as_array, check_count
from softqd.ops.distances import map_rows, squared_distances


class ContinuousQDScore(NamedTuple):
    """Mean over iterations, its standard error, and the score of each iteration.

    The error of a single iteration is not known: NaN.
    """

    value: float
    stderr: float
    scores: Float[np.ndarray, " i"]


def continuous_qd_score(
    quality: Float[Array | np.ndarray, " n"],
    behavior: Float[Array | np.ndarray, "n d"],
    quality_bounds: tuple[float, float],
    *,
    penalties: int | Any = 5,
    num_targets: int = 200,
    num_iterations: int = 10,
    seed: int = 0,
    targets: Any = None,
    order: float = 2,
    max_distance: float | None = None,
) -> ContinuousQDScore:
    r"""Continuous QD score of Kent et al. 2022, as pyribs' ``cqd_score`` computes it.

    $$\sum_\theta \sum_t \max_n \left[ \frac{f_n}{f_{max} - f_{min}}
    - \theta \frac{|t - b_n|}{D} \right]$$

    Every random target $t$ gets the solution that is best for it, where a distance is
    paid for at the rate $\theta$.

    Args:
        quality: Qualities.
        behavior: Behaviors, in [0, 1] for random targets.
        quality_bounds: Lowest and highest quality that the problem allows. Scores with
            other bounds cannot be compared.
        penalties: Number of rates $\theta$, evenly from 0 to 1, or the rates.
        num_targets: Targets of an iteration, uniform in the unit cube.
        num_iterations: How often new targets are drawn.
        seed: Of the targets.
        targets: Targets of your own, ``(i, t, d)``, instead of random ones.
        order: Of the norm: 1, 2, ``numpy.inf`` or anything between.
        max_distance: $D$; the diagonal of the unit cube in that norm if None.

    Raises:
        ValueError: If the population or a setting cannot be used.

    Examples:
        >>> import numpy as np
        >>> one = (np.array([0.5]), np.array([[0.0, 1.0]]))  # a quality, a behavior
        >>> corner = np.array([[[1.0, 1.0]]])  # one unit away
        >>> score = continuous_qd_score(
        ...     *one, (0, 1), penalties=2, targets=corner, max_distance=2.0
        ... )
        >>> score.value  # 0.5 for penalty 0, and 0.5 - 1/2 for penalty 1
        0.5
    """
    behavior = check_behavior(behavior)
    dim = behavior.shape[1]
    scaled = _scaled(quality, len(behavior), quality_bounds)
    rates = _rates(penalties) / _largest(max_distance, order, dim)
    if targets is None:
        check_count("num_targets", num_targets, 1)
        check_count("num_iterations", num_iterations, 1)
        shape = (num_iterations, num_targets, dim)
        targets = np.random.default_rng(seed).random(shape)
    targets = _check_targets(targets, dim)
    arrays = (targets.reshape(-1, dim), scaled, behavior, rates)
    best = _best(*(jnp.asarray(x, jnp.result_type(float)) for x in arrays), order)
    scores = np.asarray(best, np.float64).reshape(len(targets), -1).sum(1)
    error = scores.std(ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else np.nan
    return ContinuousQDScore(float(scores.mean()), float(error), scores)


@partial(jax.jit, static_argnames="order")
def _best(targets, quality, behavior, rates, order):
    """What every target gets at every rate, (t, r)."""

    def of_rows(rows):
        distance = _distances(rows, behavior, order)
        return jax.lax.map(
            lambda rate: (quality[None, :] - rate * distance).max(1), rates
        ).T

    return map_rows(of_rows, targets, len(quality))


def _distances(a, b, order):
    """Distances (m, n) in the norm of an order."""
    if order == 2:
        return jnp.sqrt(squared_distances(a, b))

    def add(total, columns):
        gap = jnp.abs(columns[0][:, None] - columns[1][None, :])
        total = jnp.maximum(total, gap) if order == np.inf else total + gap**order
        return total, None

    start = jnp.zeros((len(a), len(b)), a.dtype)
    total, _ = jax.lax.scan(add, start, (a.T, b.T))
    return total if order == np.inf else total ** (1 / order)


def _scaled(quality: Any, num_solutions: int, quality_bounds: Any) -> np.ndarray:
    """Qualities in units of the width of their bounds."""
    quality = np.asarray(as_array(quality), np.float64)
    if quality.shape != (num_solutions,) or not np.isfinite(quality).all():
        raise ValueError(
            f"quality must hold {num_solutions} finite values, one for each row of "
            f"behavior; got shape {quality.shape}"
        )
    low, high = quality_bounds
    if not -np.inf < low < high < np.inf:
        raise ValueError(
            f"quality_bounds must be finite, low before high; got {quality_bounds!r}"
        )
    return quality / (high - low)


def _rates(penalties: Any) -> Float[np.ndarray, " r"]:
    if np.ndim(penalties) == 0:
        check_count("penalties", penalties, 1)
        return np.linspace(0.0, 1.0, penalties)
    rates = np.asarray(penalties, float)
    if rates.ndim != 1 or rates.size == 0 or not np.isfinite(rates).all():
        raise ValueError(
            f"penalties must be a number of penalties, or finite values (r,); got "
            f"{penalties!r}"
        )
    return rates


def _largest(max_distance: Any, order: Any, dim: int) -> float:
    """The distance that costs a whole penalty."""
    if not (isinstance(order, (int, float)) and order >= 1):
        raise ValueError(f"order must be a number of at least 1; got {order!r}")
    largest = dim ** (1 / order) if max_distance is None else float(max_distance)
    if not 0 < largest < np.inf:
        raise ValueError(f"max_distance must be positive; got {max_distance!r}")
    return largest


def _check_targets(targets: Any, dim: int) -> Float[np.ndarray, "i t d"]:
    targets = np.asarray(as_array(targets), float)
    if targets.ndim != 3 or targets.shape[2] != dim or targets.size == 0:
        raise ValueError(
            f"targets must have shape (iterations, targets, {dim}); got {targets.shape}"
        )
    return targets
