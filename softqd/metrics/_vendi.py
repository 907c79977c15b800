"""Vendi score (Friedman and Dieng 2023) and its quality-weighted form.

The effective number of different members: the exponential of the entropy of the
eigenvalues of K / n, for a kernel K with ones on the diagonal.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Array, Float
from scipy.spatial.distance import cdist


def vendi_score(
    behavior: Float[Array | np.ndarray, "n d"], scale_sq: float | None = None
) -> float:
    """Effective number of distinct behaviors, between 1 and n.

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
    behavior = check_behavior(behavior)
    n, dim = behavior.shape
    scale = dim / 6 if scale_sq is None else scale_sq
    kernel = np.exp(-cdist(behavior, behavior, "sqeuclidean") / scale)
    eigenvalues = np.linalg.eigvalsh(kernel / n)
    positive = eigenvalues[eigenvalues > 0]
    return float(np.exp(-(positive * np.log(positive)).sum()))


def quality_vendi_score(
    quality: Float[Array | np.ndarray, " n"],
    behavior: Float[Array | np.ndarray, "n d"],
    scale_sq: float | None = None,
) -> float:
    """Vendi score times mean quality; 0 where the mean is negative.

    Examples:
        >>> import numpy as np
        >>> round(quality_vendi_score(np.full(5, 2.0), np.zeros((5, 2))), 6)
        2.0
    """
    mean = float(np.mean(np.asarray(quality, np.float64)))
    return max(mean, 0.0) * vendi_score(behavior, scale_sq)


def check_behavior(behavior: Float[Array | np.ndarray, "n d"]) -> np.ndarray:
    """Return behaviors as a NumPy array, refusing what no metric can use."""
    behavior = np.asarray(behavior)
    if behavior.ndim != 2 or behavior.size == 0:
        raise ValueError(
            f"behavior must have shape (n, d) with n, d >= 1; got {behavior.shape}"
        )
    if not np.isfinite(behavior).all():
        row = int((~np.isfinite(behavior).all(1)).argmax())
        raise ValueError(f"behavior must be finite; row {row} is {behavior[row]}")
    return behavior
