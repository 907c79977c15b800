"""Bounds of the Soft QD Score, with the constants of the paper's appendix corrected.

The paper's factors of the third-order term are slips; the sum of three squared
distances is 3 |x - centroid|^2 plus a third of the sum of pairwise squares, which gives
(2 pi sigma^2)^(d/2) and an exponent of -(sum of pairwise squares) / (18 sigma^2). Its
pairwise error term lacks a factor 1/2 (``docs/deviations.md``).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from softqd.metrics._soft_qd import bump_volume
from softqd.ops.checks import check_population, check_sigma
from softqd.ops.distances import squared_distances
from softqd.ops.kernels import gamma_sq_of, pair_kernel
from softqd.ops.pairs import sum_over_pairs


def lower_bound(
    quality: Any,
    behavior: Any,
    sigma: float,
    *,
    pairs: str = "geometric",
    level: float = 0.0,
) -> Float[Array, ""]:
    """Lower bound of the Soft QD Score from pairs of solutions.

    Args:
        quality: Qualities ``(n,)``.
        behavior: Behaviors ``(n, d)``.
        sigma: Width of a solution's light.
        pairs: 'geometric' subtracts the geometric means of Theorem 2; 'exact' the true
            overlaps, which is tighter, and the score itself for one or two solutions.
        level: From where quality is measured; no quality may be below.

    Raises:
        ValueError: If the population or a setting cannot be used.

    Examples:
        >>> import jax.numpy as jnp
        >>> pair = jnp.array([1.0, 3.0]), jnp.zeros((2, 1))  # one behavior twice
        >>> bound = lower_bound(*pair, sigma=1.0, pairs="exact")
        >>> bool(abs(bound - 3.0 * (2 * jnp.pi) ** 0.5) < 1e-4)  # the better alone
        True
    """
    terms = {"geometric": geometric_overlap, "exact": exact_overlap}
    if pairs not in terms:
        raise ValueError(f"pairs must be 'geometric' or 'exact'; got {pairs!r}")
    quality, behavior = check_population(quality, behavior, level)
    check_sigma(sigma)

    lit = quality.sum() - _sum_over_solutions(quality, behavior, sigma, terms[pairs])
    return bump_volume(sigma, behavior.shape[1]) * lit


@partial(jax.jit, static_argnums=3)
def _sum_over_solutions(quality, behavior, sigma, overlap):
    def term(some, everyone):
        (f_i, b_i), (f_j, b_j) = some, everyone
        dist_sq = squared_distances(b_i, b_j)
        return overlap(f_i[:, None], f_j[None, :], dist_sq, sigma)

    return sum_over_pairs(term, (quality, behavior))


def geometric_overlap(
    f_i: Float[Array, "c 1"],
    f_j: Float[Array, "1 n"],
    dist_sq: Float[Array, "c n"],
    sigma: float | Array,
) -> Float[Array, "c n"]:
    """Integral of sqrt(g_i g_j), in units of a bump: at least the true overlap."""
    return jnp.sqrt(f_i * f_j) * pair_kernel(dist_sq, gamma_sq_of(sigma))


def exact_overlap(
    f_i: Float[Array, "c 1"],
    f_j: Float[Array, "1 n"],
    dist_sq: Float[Array, "c n"],
    sigma: float | Array,
) -> Float[Array, "c n"]:
    """Integral of min(g_i, g_j), in units of a bump, in any dimension.

    ``f_i Phi(-D/2s - t) + f_j Phi(-D/2s + t)``, with s = sigma, t = s ln(f_i/f_j) / D.
    """
    apart = dist_sq > 0
    distance = jnp.sqrt(jnp.where(apart, dist_sq, 1.0)) / sigma
    both_lit = (f_i > 0) & (f_j > 0)
    log_ratio = jnp.log(jnp.where(f_i > 0, f_i, 1.0)) - jnp.log(
        jnp.where(f_j > 0, f_j, 1.0)
    )
    shift = log_ratio / distance
    overlap = f_i * ndtr(-distance / 2 - shift) + f_j * ndtr(-distance / 2 + shift)
    overlap = jnp.where(apart, overlap, jnp.minimum(f_i, f_j))
    return jnp.where(both_lit, overlap, 0.0)


def truncation_error(quality: Any, behavior: Any, sigma: float) -> Float[Array, ""]:
    """Upper bound of what ignoring triples costs: score minus the exact-pairs bound.

    The sum over triples of ``(f_i f_j f_k)^(1/3) exp(-squares / (18 sigma^2))``, with
    the squares of the three distances, times a bump's volume. It is the trace of a
    cubed matrix: memory grows with n^2.

    Raises:
        ValueError: If the population or sigma cannot be used.
    """
    quality, behavior = check_population(quality, behavior)
    check_sigma(sigma)
    return bump_volume(sigma, behavior.shape[1]) * _triples(quality, behavior, sigma)


@jax.jit
def _triples(quality, behavior, sigma):
    root = quality ** (1 / 6)
    dist_sq = squared_distances(behavior, behavior)
    link = root[:, None] * root[None, :] * jnp.exp(-dist_sq / (18 * sigma**2))
    link = jnp.where(jnp.eye(len(quality), dtype=bool), 0.0, link)
    return (jnp.matmul(link, link, precision="highest") * link).sum() / 6


def overlap_error(quality: Any, behavior: Any, sigma: float) -> Float[Array, ""]:
    """Upper bound of what the geometric means cost: exact minus geometric bound.

    Half the sum over pairs of ``|f_i - f_j| + min(f_i, f_j) |b_i - b_j| / sigma`` times
    a bump's volume.

    Raises:
        ValueError: If the population or sigma cannot be used.
    """
    quality, behavior = check_population(quality, behavior)
    check_sigma(sigma)

    total = _sum_over_solutions(quality, behavior, sigma, _overlap_error)
    return bump_volume(sigma, behavior.shape[1]) * total


def _overlap_error(f_i, f_j, dist_sq, sigma):
    distance = jnp.sqrt(dist_sq) / sigma
    return 0.5 * (jnp.abs(f_i - f_j) + jnp.minimum(f_i, f_j) * distance)
