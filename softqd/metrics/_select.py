"""Choosing the members that keep most of the Soft QD Score.

The score is monotone and submodular, so greedy selection keeps at least 1 - 1/e of the
best possible. Both hold exactly for the score estimated on a fixed set of points, which
is what is maximized here, lazily: a member's gain can only shrink.
"""

from __future__ import annotations

import heapq
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from softqd.metrics._evaluate import to_unit
from softqd.metrics._soft_qd import (
    base_points,
    default_sigma,
    log_light,
    log_or_minus_inf,
    mixture_points,
)
from softqd.ops.checks import check_count, check_population, check_sigma
from softqd.ops.distances import MAX_ENTRIES
from softqd.ops.level import level_of
from softqd.ops.units import units_of
from softqd.types import Population


def select(
    quality: Any,
    behavior: Any = None,
    size: Any = None,
    sigma: float | None = None,
    *,
    bounds: Any = None,
    seed: int = 0,
    num_samples: int = 2**13,
    return_share: bool = False,
    level: float | None = None,
) -> Any:
    """A subset that keeps most of the Soft QD Score, best first.

    ``select(quality, behavior, size)`` gives indices, and takes behaviors as they are;
    ``select(result, size)`` and ``select(population, size)`` give a `Population`.

    Args:
        quality: Qualities ``(n,)``; or a result or population, followed by the size.
        behavior: Behaviors ``(n, d)``.
        size: Members to choose, from 1 to n.
        sigma: Width of a solution's light; None for `selection_sigma`, which follows
            the size.
        bounds: ``(low, high)`` to map the behaviors of a population from. None: the
            ``behavior_units`` of a result, a population's own spread.
        seed: Of the points the score is estimated on.
        num_samples: How many points.
        return_share: Return the share of the score kept, too.
        level: From where quality is measured. None: the ``quality_level`` of a result,
            0, or for a population that is negative somewhere a low quantile.

    Returns:
        Indices ``(size,)`` or a `Population`; with ``return_share``, also a number in
        (0, 1].

    Raises:
        ValueError: If the population or a setting cannot be used.

    Examples:
        >>> import numpy as np
        >>> behavior = np.array([[0.0], [0.01], [1.0]])
        >>> select(np.array([1.0, 2.0, 1.5]), behavior, 2).tolist()
        [1, 2]
    """
    how: dict[str, Any] = {"seed": seed, "num_samples": num_samples}
    found = getattr(quality, "population", quality)
    if not isinstance(found, Population):
        chosen, share = _members(quality, behavior, size, sigma, level or 0.0, **how)
        return (chosen, share) if return_share else chosen
    size = behavior if size is None else size  # select(result, 20)
    f, b = (np.asarray(x)[found.occupied] for x in (found.quality, found.behavior))
    level = getattr(quality, "quality_level", None) if level is None else level
    level = level_of(None, f) or 0.0 if level is None else level
    light = np.maximum(f - np.asarray(level, f.dtype), 0.0)
    unit = _unit(quality, b, bounds)
    chosen, share = _members(light, unit, size, sigma, 0.0, **how)
    return (found[chosen], share) if return_share else found[chosen]


def _unit(owner: Any, behavior: np.ndarray, bounds: Any) -> Any:
    """Behaviors in the bounds given, in the units of a result, or of themselves."""
    bounds = getattr(owner, "behavior_units", None) if bounds is None else bounds
    if bounds is None:
        bounds = units_of(None, behavior)
    return behavior if bounds is None else to_unit(bounds, behavior, is_limit=False)


def _members(quality, behavior, size, sigma, level, seed, num_samples):
    """Indices of the members chosen, and the share of the score that they keep."""
    quality, behavior = check_population(quality, behavior, level)
    check_count("size", size, 1, len(quality))
    if sigma is None:
        sigma = selection_sigma(quality, behavior, size)
    check_sigma(sigma)
    points = base_points(behavior.shape[1], num_samples, seed)
    field = _Field(quality, behavior, sigma, *points)
    chosen, kept = _lazy_greedy(field, size)
    return chosen, float(kept / field.total) if field.total else 1.0


def selection_sigma(quality: Any, behavior: Any, size: int) -> float:
    """Width at which the light of so many members fills what a population reaches.

    Members taken one after the other, each as far as possible from those before, end
    up with some least distance, and nobody is farther from all of them than that. Half
    of it is the width: two members at that distance meet at one width from each. It
    asks for neither bounds nor the dimension of what is reached.

    Args:
        quality: Qualities ``(n,)``, from their level; those that are dark do not count.
        behavior: Behaviors ``(n, d)``.
        size: Members to choose.

    Examples:
        >>> import numpy as np
        >>> corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
        >>> selection_sigma(np.ones(4), corners, 4)
        0.5
    """
    quality, behavior = np.asarray(quality), np.asarray(behavior, np.float64)
    lit = behavior[quality > 0]
    if len(lit) > 1:
        center = lit.mean(0)
        nearest = ((lit - center) ** 2).sum(1)
        nearest = ((lit - lit[nearest.argmin()]) ** 2).sum(1)
        reach = nearest.max()
        for _ in range(min(size, len(lit)) - 1):
            reach, farthest = nearest.max() or reach, nearest.argmax()
            nearest = np.minimum(nearest, ((lit - lit[farthest]) ** 2).sum(1))
        if reach > 0:
            return float(np.sqrt(reach) / 2)
    return default_sigma(behavior.shape[1])  # one place: any width will do


class _Field:
    """The light of every solution at fixed points, relative to all light there."""

    def __init__(self, quality, behavior, sigma, picks, normals):
        picks, normals = (jnp.asarray(x, behavior.dtype) for x in (picks, normals))
        points = mixture_points(quality, behavior, sigma, picks, normals)
        log_quality = log_or_minus_inf(quality)
        gains, brightest, all_light = _sums(points, log_quality, behavior, sigma)
        self.gains = np.asarray(gains, np.float64)
        self.total = float(np.asarray(brightest, np.float64).sum())
        self._points, self._all_light = np.asarray(points), np.asarray(all_light)
        self._log_quality, self._behavior = (
            np.asarray(log_quality),
            np.asarray(behavior),
        )
        self._sigma = sigma

    def column(self, member: int) -> Float[np.ndarray, " s"]:
        """One member's share of the light at every point."""
        dist_sq = ((self._points - self._behavior[member]) ** 2).sum(1)
        light = self._log_quality[member] - dist_sq / (2 * self._sigma**2)
        return np.exp(light - self._all_light)


@jax.jit
def _sums(points, log_quality, behavior, sigma):
    """Every member's summed share, and per point the brightest share and all light."""
    rows = max(1, min(len(points), MAX_ENTRIES // len(log_quality)))
    rows = 2 ** (rows.bit_length() - 1)  # a power of two, as the number of points is

    def chunk(gains, x):
        light = log_light(x, log_quality, behavior, sigma)
        total = jax.nn.logsumexp(light, axis=1)
        total = jnp.where(jnp.isfinite(total), total, 0.0)
        share = jnp.exp(light - total[:, None])
        return gains + share.sum(0), (share.max(1), total)

    chunks = points.reshape(-1, rows, points.shape[1])
    gains, (brightest, total) = jax.lax.scan(chunk, jnp.zeros_like(log_quality), chunks)
    return gains, brightest.reshape(-1), total.reshape(-1)


def _lazy_greedy(field: _Field, size: int) -> tuple[Int[np.ndarray, " k"], float]:
    """Take the largest gain again and again, refreshing only what comes to the top."""
    # Equal gains: the lower index first, whatever the order of the heap.
    heap = [(-gain, member, 0) for member, gain in enumerate(field.gains)]
    heapq.heapify(heap)
    best = np.zeros(len(field._points))
    chosen: list[int] = []
    while len(chosen) < size:
        _, member, when = heapq.heappop(heap)
        column = field.column(member)
        if when == len(chosen):
            chosen.append(member)
            best = np.maximum(best, column)
            continue
        gain = float(np.maximum(column - best, 0.0).sum())
        heapq.heappush(heap, (-gain, member, len(chosen)))
    return np.array(chosen), float(best.sum())
