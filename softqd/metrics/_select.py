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

from softqd.metrics._soft_qd import (
    base_points,
    default_sigma,
    log_light,
    log_or_minus_inf,
    mixture_points,
)
from softqd.ops.checks import check_count, check_population, check_sigma
from softqd.ops.distances import MAX_ENTRIES


def select(
    quality: Any,
    behavior: Any,
    size: int,
    sigma: float | None = None,
    *,
    seed: int = 0,
    num_samples: int = 2**13,
    return_share: bool = False,
    level: float = 0.0,
) -> Any:
    """Indices of a subset that keeps most of the Soft QD Score, best first.

    Args:
        quality: Qualities ``(n,)``.
        behavior: Behaviors ``(n, d)``.
        size: Members to choose, from 1 to n.
        sigma: Width of a solution's light; `default_sigma` of the unit cube if None.
        seed: Of the points the score is estimated on.
        num_samples: How many points.
        return_share: Return the share of the score kept, too.
        level: From where quality is measured; no quality may be below.

    Returns:
        Indices ``(size,)``; with ``return_share``, also a number in (0, 1].

    Raises:
        ValueError: If the population or a setting cannot be used.

    Examples:
        >>> import numpy as np
        >>> behavior = np.array([[0.0], [0.01], [1.0]])
        >>> select(np.array([1.0, 2.0, 1.5]), behavior, 2, sigma=0.1).tolist()
        [1, 2]
    """
    quality, behavior = check_population(quality, behavior, level)
    check_count("size", size, 1, len(quality))
    sigma = default_sigma(behavior.shape[1]) if sigma is None else sigma
    check_sigma(sigma)
    field = _Field(
        quality, behavior, sigma, *base_points(behavior.shape[1], num_samples, seed)
    )
    chosen, kept = _lazy_greedy(field, size)
    if not return_share:
        return chosen
    return chosen, float(kept / field.total) if field.total else 1.0


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
