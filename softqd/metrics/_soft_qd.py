"""The Soft QD Score: how well a population lights the behavior space (Eqs. 2 and 3).

With q the mixture of the solutions' bumps, weighted by quality, the score is an
expectation under q of a ratio between 1/N and 1 (``docs/metrics.md`` derives it), so
that sampling from q works in any dimension. Points are quasi-random: a Sobol sequence,
randomly shifted anew for each of `NUM_REPLICATES` replicates, whose first coordinate
picks the solution and whose others place a point around it. The spread of the
replicates gives the standard error.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Bool, Float

from softqd.ops.checks import (
    as_array,
    check_count,
    check_population,
    check_sigma,
    is_concrete,
)
from softqd.ops.distances import map_rows, squared_distances
from softqd.ops.kernels import bump
from softqd.ops.seeds import check_seed

NUM_REPLICATES = 32
# The default width gives a bump of quality 1 the volume of one of this many cells.
REFERENCE_CELLS = 1024
_MAX_SAMPLES = 2**24


class Estimate(NamedTuple):
    """An estimate and its standard error, from `NUM_REPLICATES` replicates."""

    value: Any
    stderr: Any

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval, by Student's t with `NUM_REPLICATES` - 1 degrees."""
        half = scipy.stats.t.ppf(0.5 + level / 2, NUM_REPLICATES - 1) * self.stderr
        return self.value - half, self.value + half


def default_sigma(dim: int, bounds: Any = None) -> float:
    """Width for which one bump has the volume of 1/1024 of the space.

    It depends on the space alone: the unit cube, or the box ``bounds``. The score of
    well-spread solutions is then their summed quality over 1024, whatever the
    dimension.

    Examples:
        >>> round(default_sigma(2), 5)
        0.01247
    """
    volume = 1.0
    if bounds is not None:
        low, high = (np.broadcast_to(side, (dim,)).astype(float) for side in bounds)
        volume = float(np.prod(high - low))
        if not (np.isfinite(volume) and (high > low).all()):
            raise ValueError("an unbounded space has no default sigma; give one")
    return (volume / REFERENCE_CELLS) ** (1 / dim) / math.sqrt(2 * math.pi)


def bump_volume(sigma: float, dim: int) -> float:
    """Integral of one bump over the whole space, (2 pi sigma^2)^(d/2)."""
    return (2 * math.pi * sigma**2) ** (dim / 2)


def soft_qd_score(
    quality: Any,
    behavior: Any,
    sigma: float | None = None,
    *,
    bounds: Any = None,
    seed: int = 0,
    num_samples: int = 2**14,
    rel_error: float | None = None,
    level: float = 0.0,
) -> Estimate:
    r"""Estimate the Soft QD Score, $\int \max_n f_n e^{-|x - b_n|^2/(2\sigma^2)} dx$.

    Differentiable with respect to quality and behavior: the derivative flows through
    each point's winning solution alone.

    Args:
        quality: Qualities ``(n,)``; those at the level contribute nothing.
        behavior: Behaviors ``(n, d)``.
        sigma: Width of a solution's light; `default_sigma` of ``bounds``, or of the
            unit cube, if None.
        bounds: ``(low, high)``: integrate over this box instead of the whole space.
        seed: Of the random shifts.
        num_samples: Points, rounded up to a power of two.
        rel_error: Add points until the standard error is at most this share of the
            value; not under `jax.jit` or `jax.grad`.
        level: From where quality is measured; no quality may be below.

    Returns:
        Value and standard error, which is at least one point's share: smaller overlaps
        may not have been met.

    Raises:
        ValueError: If the population or a setting cannot be used.

    Examples:
        >>> import jax.numpy as jnp
        >>> one = soft_qd_score(jnp.array([2.0]), jnp.zeros((1, 2)), sigma=1.0)
        >>> round(one.value, 4), one.stderr  # 2 * (2 pi)
        (12.5664, 0.0)
    """
    quality, behavior = check_population(quality, behavior, level)
    dim = behavior.shape[1]
    sigma = default_sigma(dim, bounds) if sigma is None else sigma
    check_sigma(sigma)
    check_count("num_samples", num_samples, 1)
    if rel_error is not None and not rel_error > 0:
        raise ValueError(f"rel_error must be positive; got {rel_error!r}")
    ratios = _replicates(quality, behavior, sigma, bounds, seed, num_samples)
    if rel_error is not None:
        while num_samples < _MAX_SAMPLES and _rel_error(ratios) > rel_error:
            growth = min(16.0, max(2.0, 1.2 * (_rel_error(ratios) / rel_error) ** 2))
            num_samples = min(_MAX_SAMPLES, int(num_samples * growth))
            ratios = _replicates(quality, behavior, sigma, bounds, seed, num_samples)
    # Overlaps too small for a point to meet are worth less than one point.
    unseen = float(len(quality) > 1) / num_samples
    if is_concrete(ratios):  # in double precision: in high dimensions bumps are tiny
        ratios = np.asarray(ratios, np.float64)
        scale = bump_volume(sigma, dim) * float(np.asarray(quality, np.float64).sum())
        error = max(unseen, ratios.std(ddof=1) / math.sqrt(NUM_REPLICATES))
        return Estimate(float(scale * ratios.mean()), float(scale * error))
    # The weights of the mixture are held constant inside the ratios.
    scale = bump_volume(sigma, dim) * jax.lax.stop_gradient(quality.sum())
    error = jnp.maximum(unseen, ratios.std(ddof=1) / math.sqrt(NUM_REPLICATES))
    return Estimate(scale * ratios.mean(), scale * error)


def _rel_error(ratios: Array) -> float:
    values = np.asarray(ratios, np.float64)
    spread = values.std(ddof=1) / math.sqrt(NUM_REPLICATES)
    return spread / max(values.mean(), np.finfo(float).tiny)


def _replicates(quality, behavior, sigma, bounds, seed, num_samples):
    """Mean ratio of each replicate, shape (NUM_REPLICATES,)."""
    dim = behavior.shape[1]
    picks, normals = base_points(dim, num_samples, seed)
    box = None
    if bounds is not None:
        box = tuple(
            jnp.broadcast_to(jnp.asarray(b, behavior.dtype), (dim,)) for b in bounds
        )
    picks, normals = (jnp.asarray(x, behavior.dtype) for x in (picks, normals))
    return _ratio_means(quality, behavior, sigma, box, picks, normals)


def base_points(
    dim: int, num_samples: int, seed: int
) -> tuple[Float[np.ndarray, " s"], Float[np.ndarray, "s d"]]:
    """Quasi-random points: where in the mixture, and standard normal offsets."""
    size = 2 ** max(0, math.ceil(math.log2(num_samples / NUM_REPLICATES)))
    rng = np.random.default_rng(check_seed(seed))
    sobol = scipy.stats.qmc.Sobol(dim + 1, scramble=False).random(size)
    shifts = rng.random((NUM_REPLICATES, 1, dim + 1))
    points = ((sobol[None] + shifts) % 1.0).reshape(-1, dim + 1)
    return points[:, 0], scipy.special.ndtri(np.clip(points[:, 1:], 1e-12, 1 - 1e-12))


@jax.jit
def _ratio_means(quality, behavior, sigma, box, picks, normals):
    points = mixture_points(quality, behavior, sigma, picks, normals)
    log_quality = log_or_minus_inf(quality)

    @jax.checkpoint  # recompute in the backward pass: no points x solutions residuals
    def ratio(x):
        light = log_light(x, log_quality, behavior, sigma)
        total = jax.lax.stop_gradient(jax.nn.logsumexp(light, axis=1))
        winner = jnp.exp(light.max(1) - jnp.where(jnp.isfinite(total), total, 0.0))
        return winner if box is None else jnp.where(is_inside(x, *box), winner, 0.0)

    return map_rows(ratio, points, len(quality)).reshape(NUM_REPLICATES, -1).mean(1)


def mixture_points(
    quality: Float[Array, " n"],
    behavior: Float[Array, "n d"],
    sigma: float | Array,
    picks: Float[Array, " s"],
    normals: Float[Array, "s d"],
) -> Float[Array, "s d"]:
    """Points of the mixture of bumps, one stratum of ``picks`` after the other."""
    quality, behavior = jax.lax.stop_gradient((quality, behavior))
    cumulative = jnp.cumsum(quality)
    chosen = jnp.searchsorted(cumulative, picks * cumulative[-1], side="right")
    last = len(quality) - 1 - jnp.argmax((quality > 0)[::-1])
    return behavior[jnp.minimum(chosen, last)] + sigma * normals


def log_or_minus_inf(quality: Float[Array, " n"]) -> Float[Array, " n"]:
    """Logarithm that is minus infinity at 0, with derivative 0 there."""
    is_lit = quality > 0
    return jnp.where(is_lit, jnp.log(jnp.where(is_lit, quality, 1.0)), -jnp.inf)


def log_light(
    points: Float[Array, "c d"],
    log_quality: Float[Array, " n"],
    behavior: Float[Array, "n d"],
    sigma: float | Array,
) -> Float[Array, "c n"]:
    """Logarithm of every solution's light at every point."""
    dist_sq = squared_distances(points, behavior)
    return log_quality[None, :] - dist_sq / (2 * sigma**2)


def is_inside(
    points: Float[Array, "c d"], low: Float[Array, " d"], high: Float[Array, " d"]
) -> Bool[Array, " c"]:
    """Which points lie in a box."""
    return ((points >= low[None]) & (points <= high[None])).all(1)


def behavior_value(
    points: Any, quality: Any, behavior: Any, sigma: float, *, level: float = 0.0
) -> Float[Array, " m"]:
    r"""$v(x) = \max_n f_n \exp(-\|x - b_n\|^2 / (2 \sigma^2))$ at every point, Eq. (2).

    Args:
        points: Where to look, ``(m, d)``.
        quality: Qualities ``(n,)``.
        behavior: Behaviors ``(n, d)``.
        sigma: Width of a solution's light, positive.
        level: From where quality is measured; no quality may be below.

    Raises:
        ValueError: If the population or sigma cannot be used.

    Examples:
        >>> import jax.numpy as jnp
        >>> one = jnp.ones((1, 2))
        >>> behavior_value(one, jnp.array([3.0]), one, sigma=0.1).tolist()
        [3.0]
    """
    quality, behavior = check_population(quality, behavior, level)
    check_sigma(sigma)
    return _brightest(jnp.asarray(as_array(points)), quality, behavior, sigma)


@jax.jit
def _brightest(points, quality, behavior, sigma):
    def of_rows(rows):
        light = quality[None, :] * bump(squared_distances(rows, behavior), sigma)
        return light.max(1)

    return map_rows(of_rows, points, len(quality))
