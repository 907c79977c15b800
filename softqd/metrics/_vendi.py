"""Vendi score (Friedman and Dieng 2023) and its quality-weighted form.

The effective number of different members: the exponential of the entropy of the
eigenvalues of K / n, for a kernel K with ones on the diagonal. Up to `MAX_EXACT` points
all eigenvalues are computed. Beyond, the leading ones are, by subspace iteration, and
the entropy of the rest is a stochastic trace (Lanczos quadrature on random vectors)
from which its best linear part, whose trace is known exactly, has been taken out.
"""

from __future__ import annotations

import numpy as np
import scipy
from jaxtyping import Array, Float

from softqd.metrics._soft_qd import Estimate
from softqd.ops.checks import as_array

MAX_EXACT = 2000
# Leading eigenvalues computed, random vectors and Lanczos steps for the rest.
_RANK, _NUM_PROBES, _NUM_STEPS = 512, 48, 24
# Relative error of the score from single precision: 1e-6 to 1e-4 were measured.
_ROUNDING = 1e-4


def vendi_score(
    behavior: Float[Array | np.ndarray, "n d"], scale_sq: float | None = None
) -> float:
    """Effective number of distinct behaviors, between 1 and n.

    Exact up to `MAX_EXACT` behaviors, else the value of `vendi_estimate`.

    Args:
        behavior: Behaviors, in [0, 1] for the default scale.
        scale_sq: Kernel ``exp(-dist_sq / scale_sq)``; d / 6 by default, the mean
            squared distance of two uniform points of the unit cube.

    Raises:
        ValueError: If there is no behavior, or one is not finite.

    Examples:
        >>> import numpy as np
        >>> round(vendi_score(np.zeros((5, 2))), 6)
        1.0
    """
    return vendi_estimate(behavior, scale_sq).value


def vendi_estimate(
    behavior: Float[Array | np.ndarray, "n d"],
    scale_sq: float | None = None,
    seed: int = 0,
) -> Estimate:
    """Vendi score with its standard error, 0 where all eigenvalues were computed.

    Args:
        behavior: Behaviors, in [0, 1] for the default scale.
        scale_sq: As for `vendi_score`.
        seed: Of the random vectors.

    Raises:
        ValueError: If there is no behavior, or one is not finite.
    """
    behavior = check_behavior(behavior)
    n, dim = behavior.shape
    scale = dim / 6 if scale_sq is None else scale_sq
    if n <= MAX_EXACT:
        kernel = np.exp(
            -scipy.spatial.distance.cdist(behavior, behavior, "sqeuclidean") / scale
        )
        return Estimate(
            float(np.exp(_entropy(np.linalg.eigvalsh(kernel / n)).sum())), 0.0
        )
    entropy, error = _estimate_entropy(_kernel(behavior, scale), seed)
    value = float(np.exp(entropy))
    return Estimate(value, value * error)


def _entropy(eigenvalues: np.ndarray) -> np.ndarray:
    positive = np.where(eigenvalues > 0, eigenvalues, 1.0)
    return -positive * np.log(positive) * (eigenvalues > 0)


def _kernel(behavior: np.ndarray, scale: float) -> Float[np.ndarray, "n n"]:
    """K / n in single precision, built in place."""
    points = np.asarray(behavior - behavior.mean(0), np.float32)
    half = (points**2).sum(1) / np.float32(scale)
    kernel = points @ points.T
    kernel *= np.float32(2 / scale)
    kernel -= half[:, None]
    kernel -= half[None, :]
    np.minimum(kernel, 0.0, out=kernel)
    np.exp(kernel, out=kernel)
    kernel /= len(kernel)
    return kernel


def _estimate_entropy(
    matrix: Float[np.ndarray, "n n"], seed: int
) -> tuple[float, float]:
    """Entropy of the spectrum of a matrix of trace 1, and its standard error."""
    rng = np.random.default_rng(seed)
    n = len(matrix)
    basis = rng.standard_normal((n, _RANK), dtype=np.float32)
    for _ in range(3):
        basis, _ = np.linalg.qr(matrix @ basis)
    image = matrix @ basis
    block = basis.T @ image
    leading, vectors = np.linalg.eigh(block.astype(np.float64))
    # Below this, eigenvalues are rounding errors of single precision.
    leading = np.where(leading > 1e-7 * leading[-1], leading, 0.0)
    leak = ((image - basis @ block) @ vectors.astype(np.float32)) ** 2
    # What is left is (I - QQ') A (I - QQ'), of known trace: taking out the multiple of
    # it that fits the entropy best leaves little for the random vectors to estimate.
    nodes, weights = _lanczos(matrix, basis, rng)
    values = _entropy(nodes)
    trace = max(1.0 - leading.sum(), 0.0)
    slope = (weights * values * nodes).sum() / max((weights * nodes**2).sum(), 1e-300)
    rest = (weights * (values - slope * nodes)).sum(1)
    excess = _excess(leading, leak.sum(0, dtype=np.float64), nodes.max())
    entropy = _entropy(leading).sum() + slope * trace + rest.mean() - excess
    # Rounding in single precision, and what the correction may miss, count as error.
    errors = (rest.std(ddof=1) / np.sqrt(len(rest)), 0.5 * excess, _ROUNDING)
    return float(entropy), float(np.linalg.norm(errors))


def _excess(leading, leak, largest_left):
    """Entropy gained by cutting the matrix into two blocks, to second order.

    The blocks are coupled by the leak of each leading vector into the largest of what
    is left; for f(x) = -x log x the coupling of eigenvalues a and c changes the trace
    by its square times (f'(a) - f'(c)) / (a - c) = -log(a / c) / (a - c).
    """
    a, c = np.maximum(leading, 1e-12), max(largest_left, 1e-12)
    gap = np.where(np.abs(a - c) > 1e-3 * c, a - c, 1e-3 * c)
    return float((leak * np.abs(np.log(a / c) / gap)).sum())


def _lanczos(matrix, basis, rng):
    """Quadrature nodes and weights of the remainder, a row per random vector.

    Vectors are kept orthogonal to the leading subspace at every step. The weights of a
    row sum to the squared length of its vector.
    """

    def project(x):
        return x - basis @ (basis.T @ x)

    signs = rng.integers(0, 2, (len(matrix), _NUM_PROBES)).astype(np.float32) * 2 - 1
    v = project(signs)
    lengths = np.linalg.norm(v, axis=0)
    v, before = v / lengths, np.zeros_like(v)
    alphas, betas = [], []
    beta = np.zeros(_NUM_PROBES, np.float32)
    for _ in range(_NUM_STEPS):
        w = project(matrix @ v)
        alpha = (w * v).sum(0)
        w = w - alpha * v - beta * before
        beta = np.linalg.norm(w, axis=0)
        alphas.append(alpha)
        betas.append(beta)
        before, v = v, w / np.where(beta > 0, beta, 1.0)
    diagonal, off = np.array(alphas, float).T, np.array(betas[:-1], float).T
    nodes, weights = np.empty_like(diagonal), np.empty_like(diagonal)
    for i in range(_NUM_PROBES):
        nodes[i], vectors = scipy.linalg.eigh_tridiagonal(diagonal[i], off[i])
        weights[i] = vectors[0] ** 2 * float(lengths[i]) ** 2
    return np.maximum(nodes, 0.0), weights


def quality_vendi_score(
    quality: Float[Array | np.ndarray, " n"],
    behavior: Float[Array | np.ndarray, "n d"],
    scale_sq: float | None = None,
    level: float = 0.0,
) -> float:
    """Vendi score times mean quality above a level; 0 where the mean is below.

    Examples:
        >>> import numpy as np
        >>> round(quality_vendi_score(np.full(5, 2.0), np.zeros((5, 2))), 6)
        2.0
    """
    mean = float(np.mean(np.asarray(as_array(quality), np.float64)))
    return max(mean - level, 0.0) * vendi_score(behavior, scale_sq)


def check_behavior(behavior: Float[Array | np.ndarray, "n d"]) -> np.ndarray:
    """Return behaviors as a NumPy array, refusing what no metric can use."""
    behavior = np.asarray(as_array(behavior))
    if behavior.ndim != 2 or behavior.size == 0:
        raise ValueError(
            f"behavior must have shape (n, d) with n, d >= 1; got {behavior.shape}"
        )
    if not np.isfinite(behavior).all():
        row = int((~np.isfinite(behavior).all(1)).argmax())
        raise ValueError(f"behavior must be finite; row {row} is {behavior[row]}")
    return behavior
