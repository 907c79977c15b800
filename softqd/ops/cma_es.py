"""CMA-ES, full and separable, as pure functions: start, sample, update, stop.

Equation numbers are those of Hansen, "The CMA Evolution Strategy: A Tutorial"
(arXiv:1604.00772). The separable form keeps the diagonal of the covariance alone and
learns it (p + 2) / 3 times as fast (Ros and Hansen, "A Simple Modification in CMA-ES
Achieving Linear Time and Space Complexity", PPSN 2008). What pyribs 0.12 does
otherwise is kept behind `pyribs_quirks`.

The full covariance is kept as a root of it, so that single precision can tell condition
numbers up to 1e12 where the matrix itself would end at 1e6.

Not evosax (0.3.2 was read): there the number of parents, and with it weights and rates,
follows from the population size, while here it comes with every update and may be 0;
it ranks one scalar itself; its separable form has the learning rates of the full one;
and it brings flax along. Batches and restarts inside `jit` it could have served.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from softqd.ops.checks import check_count, check_sigma
from softqd.types import Key

# Where pyribs and pycma stop: ratio of the largest to the smallest scale (its square,
# the condition number, is 1e14), largest standard deviation, range of ranking values.
_MAX_RATIO, _MIN_DEVIATION, _MIN_RANGE = 1e7, 1e-11, 1e-12

# In full precision: GPUs would otherwise round the factors to ten bits.
_matmul = functools.partial(jnp.matmul, precision="highest")


class CmaState(NamedTuple):
    """A normal distribution, what it has learned from, and its decomposition.

    Samples are ``mean + sigma * N(0, covariance)``. The state is the whole run: saved
    and loaded, it continues bit for bit.

    Attributes:
        mean: Mean, (p,).
        sigma: Step size.
        root: A matrix A, (p, p), with A A^T the covariance without the step size;
            standard deviations, (p,), in the separable form.
        path: Evolution path p_c, (p,).
        sigma_path: Conjugate evolution path p_sigma, (p,).
        num_evaluations: Samples seen since the start.
        basis: Eigenvectors of the covariance as columns, (p, p), as last computed; None
            in the separable form.
        scales: Square roots of its eigenvalues, (p,), positive.
        decomposed_at: ``num_evaluations`` when that was.
        scale_range: Smallest and largest scale for `has_stopped` to look at.
    """

    mean: Float[Array, " p"]
    sigma: Float[Array, ""]
    root: Float[Array, "p p"] | Float[Array, " p"]
    path: Float[Array, " p"]
    sigma_path: Float[Array, " p"]
    num_evaluations: Int[Array, ""]
    basis: Float[Array, "p p"] | None
    scales: Float[Array, " p"]
    decomposed_at: Int[Array, ""]
    scale_range: Float[Array, " 2"]

    @property
    def covariance(self) -> Float[Array, "*b p p"] | Float[Array, "*b p"]:
        """Covariance without the step size; its diagonal in the separable form."""
        if self.basis is None:
            return self.root**2
        return _matmul(self.root, self.root.mT)


def init_cma(
    mean: Float[Array, " p"],
    sigma: float | Float[Array, ""],
    *,
    separable: bool = False,
) -> CmaState:
    """Start from a round distribution.

    Args:
        mean: Its mean, (p,); the state has its precision.
        sigma: Its standard deviation, positive.
        separable: Learn a diagonal covariance: p numbers instead of p * p.

    Raises:
        ValueError: If ``sigma`` is not positive and finite.

    Examples:
        A restart inside `jit` chooses between two states of one structure:

        >>> import jax, jax.numpy as jnp
        >>> state = init_cma(jnp.zeros(2), 0.5)
        >>> fresh = init_cma(jnp.ones(2), 0.5)
        >>> restart = jax.jit(
        ...     lambda stopped: jax.tree.map(
        ...         lambda new, old: jnp.where(stopped, new, old), fresh, state
        ...     )
        ... )
        >>> restart(True).mean
        Array([1., 1.], dtype=float32)
    """
    check_sigma(sigma)
    dim, dtype = mean.shape[0], mean.dtype
    identity = jnp.eye(dim, dtype=dtype)
    ones, zeros = jnp.ones(dim, dtype), jnp.zeros(dim, dtype)
    count = jnp.zeros((), jnp.int32)
    return CmaState(
        mean=mean,
        sigma=jnp.asarray(sigma, dtype),
        root=ones if separable else identity,
        path=zeros,
        sigma_path=zeros,
        num_evaluations=count,
        basis=None if separable else identity,
        scales=ones,
        decomposed_at=count,
        scale_range=jnp.ones(2, dtype),
    )


def sample_cma(state: CmaState, key: Key, num_samples: int) -> Float[Array, "b p"]:
    """Draw samples, Eq. (38) to (40).

    The root of the covariance is the symmetric one, B D B^T: it does not depend on the
    signs and the order of the eigenvectors, which devices choose differently.

    Args:
        state: The distribution.
        key: Randomness.
        num_samples: How many, at least 1.

    Returns:
        Samples, (num_samples, p).

    Raises:
        ValueError: If ``num_samples`` is not positive.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> sample_cma(init_cma(jnp.zeros(3), 0.1), jax.random.key(0), 5).shape
        (5, 3)
    """
    check_count("num_samples", num_samples, 1)
    shape = (num_samples, state.mean.size)
    z = jax.random.normal(key, shape, state.mean.dtype)  # Eq. (38)
    y = _times_power(state, z, 1)  # Eq. (39)
    return state.mean[None] + state.sigma * y  # Eq. (40)


def update_cma(
    state: CmaState,
    samples: Float[Array, "b p"],
    order: Int[Array, " b"],
    num_parents: int | Int[Array, ""],
    *,
    pyribs_quirks: bool = False,
) -> CmaState:
    """Learn from ranked samples.

    Weights are those of `recombination_weights`, none negative. The step size follows
    the length of p_sigma against its expectation, Eq. (44), and grows at most by a
    factor of e, as in pycma. Learning rates are those of the tutorial's Table 1, for
    this number of parents, with c_mu = 0 for a single one; the separable form has
    (p + 2) / 3 times its c_1 and c_mu.

    Without parents, evaluations are counted and nothing else changes; nor does it where
    the result would not be finite in the state's precision.

    With ``pyribs_quirks``, the result is that of pyribs 0.12:

    - c_1 multiplies the rank-one term twice;
    - p_c grows by the step of the mean, not by the step divided by sigma;
    - the step size and h_sigma follow the squared length of p_sigma against p;
    - the separable learning rates are pycma's, c_1 being multiplied by that of the full
      form;
    - the full covariance is decomposed after pyribs' gap of evaluations only, with or
      without parents, and `has_stopped` looks at the decomposition before the last
      update. Under `vmap` this saves no time.

    Args:
        state: The distribution the samples came from.
        samples: Samples, (b, p).
        order: Their indices, best first, (b,).
        num_parents: How many of the best to learn from, 0 to b; may be traced.
        pyribs_quirks: Follow pyribs where it differs.

    Returns:
        The next state.

    Examples:
        Twenty updates towards the smallest squared norm:

        >>> import jax, jax.numpy as jnp
        >>> state = init_cma(jnp.ones(3), 0.5)
        >>> for key in jax.random.split(jax.random.key(0), 20):
        ...     samples = sample_cma(state, key, 8)
        ...     order = jnp.argsort((samples**2).sum(1))
        ...     state = update_cma(state, samples, order, 4)
        >>> bool(jnp.linalg.norm(state.mean) < 0.1), int(state.num_evaluations)
        (True, 160)
    """
    num_samples, dim = samples.shape
    has_parents = jnp.asarray(num_parents) > 0
    count = state.num_evaluations + num_samples
    moved = _move(state, samples[order], num_parents, pyribs_quirks)
    new = _choose(has_parents, moved, state)

    basis, scales = _decompose(new.root)
    decomposed = new._replace(basis=basis, scales=scales, decomposed_at=count)
    is_lazy = pyribs_quirks and state.basis is not None
    is_due = has_parents
    if is_lazy:
        is_due = count > state.decomposed_at + _lazy_gap(dim, num_samples)
    new = _choose(is_due, decomposed, new)

    scales = state.scales if is_lazy else new.scales
    new = new._replace(scale_range=jnp.stack([scales.min(), scales.max()]))
    # Its samples must be finite too, the rare far ones among them.
    leaves = [*jax.tree.leaves(new), 16 * new.sigma * new.scales.max()]
    is_usable = functools.reduce(
        jnp.logical_and, [jnp.isfinite(leaf).all() for leaf in leaves], new.sigma > 0
    )
    return _choose(is_usable, new, state)._replace(num_evaluations=count)


def has_stopped(
    state: CmaState, ranking_values: Float[Array, " b"] | Float[Array, "b k"]
) -> Bool[Array, ""]:
    """Whether a distribution has nothing left to learn, by pyribs' three rules.

    The condition number of the covariance exceeds 1e14, its largest standard deviation
    is below 1e-11, or first and last ranking value differ by less than 1e-12. In single
    precision the condition number of a full covariance is known up to 4e12, and that is
    the limit.

    Args:
        state: The distribution, after its update.
        ranking_values: What the last samples were ranked by, best first: (b,), or
            (b, k) where they were ranked by several values.

    Examples:
        >>> import jax.numpy as jnp
        >>> state = init_cma(jnp.zeros(2), 1.0)
        >>> bool(has_stopped(state, jnp.array([3.0, 2.0, 1.0])))
        False
        >>> bool(has_stopped(state, jnp.array([2.0, 2.0, 2.0])))
        True
    """
    smallest, largest = state.scale_range[0], state.scale_range[1]
    # Rounding leaves scales of a matrix that many times apart.
    known = _MAX_RATIO if state.basis is None else 0.25 / jnp.finfo(largest.dtype).eps
    is_degenerate = largest > min(_MAX_RATIO, float(known)) * smallest
    is_point = state.sigma * largest < _MIN_DEVIATION
    if ranking_values.shape[0] < 2:
        return is_degenerate | is_point
    span = jnp.linalg.norm(jnp.atleast_1d(ranking_values[0] - ranking_values[-1]))
    return is_degenerate | is_point | (span < _MIN_RANGE)


def recombination_weights(
    num_parents: int | Int[Array, ""], size: int
) -> Float[Array, " size"]:
    """Weights log(mu + 1/2) - log(i) of the best mu samples, which sum to 1.

    The positive weights of Eq. (49) and (53) where mu is half the number of samples.

    Args:
        num_parents: mu, 0 to ``size``; may be traced.
        size: Number of samples.

    Returns:
        Weights, best first, (size,); 0 beyond ``num_parents``.

    Examples:
        >>> [round(float(w), 3) for w in recombination_weights(2, 3)]
        [0.804, 0.196, 0.0]
    """
    rank = jnp.arange(1, size + 1)
    weights = jnp.log(jnp.asarray(num_parents) + 0.5) - jnp.log(rank)
    weights = jnp.where(rank <= num_parents, weights, 0.0)
    return weights / jnp.where(jnp.asarray(num_parents) > 0, weights.sum(), 1.0)


class _Rates(NamedTuple):
    """Effective number of parents, learning rates and damping of Table 1."""

    mu_eff: Float[Array, ""]
    c_sigma: Float[Array, ""]
    d_sigma: Float[Array, ""]
    c_c: Float[Array, ""]
    c_1: Float[Array, ""]
    c_mu: Float[Array, ""]


def _rates(
    weights: Float[Array, " b"], dim: int, separable: bool, pyribs_quirks: bool
) -> _Rates:
    # Eq. (8), which is at least 1; rounding may not say so.
    mu_eff = jnp.maximum(1.0, 1.0 / jnp.sum(weights**2))
    # mu_eff - 2 + 1 / mu_eff, in a form that rounding cannot make negative.
    excess = (mu_eff - 1) ** 2 / mu_eff
    c_sigma = (mu_eff + 2) / (dim + mu_eff + 5)  # Eq. (55)
    d_sigma = jnp.maximum(0.0, jnp.sqrt((mu_eff - 1) / (dim + 1)) - 1)
    d_sigma = 1 + 2 * d_sigma + c_sigma  # Eq. (55)
    c_c = (4 + mu_eff / dim) / (dim + 4 + 2 * mu_eff / dim)  # Eq. (56)
    c_1 = 2 / ((dim + 1.3) ** 2 + mu_eff)  # Eq. (57)
    # Eq. (58), without the 1/4 that pycma adds to the excess.
    c_mu = 2 * excess / ((dim + 2) ** 2 + mu_eff)
    if separable and pyribs_quirks:
        root = math.sqrt(dim)
        c_c = (1 + (1 + mu_eff) / dim) / (root + (1 + 2 * mu_eff) / dim)
        c_1 = c_1 / (dim + 2 * root + mu_eff / dim)
        c_mu = excess / (dim + 4 * root + mu_eff / 2)
    elif separable:
        c_1, c_mu = (dim + 2) / 3 * c_1, (dim + 2) / 3 * c_mu
    return _Rates(mu_eff, c_sigma, d_sigma, c_c, c_1, jnp.minimum(1 - c_1, c_mu))


def _move(
    state: CmaState,
    ranked: Float[Array, "b p"],
    num_parents: int | Int[Array, ""],
    pyribs_quirks: bool,
) -> CmaState:
    """Mean, step size, paths and covariance, for at least one parent."""
    num_samples, dim = ranked.shape
    num_parents = jnp.maximum(1, num_parents)
    weights = recombination_weights(num_parents, num_samples).astype(ranked.dtype)
    rates = _rates(weights, dim, state.basis is None, pyribs_quirks)
    y = (ranked - state.mean[None]) / state.sigma
    # 0, not only weighted by 0: others may be infinitely far.
    y = jnp.where(jnp.arange(num_samples)[:, None] < num_parents, y, 0.0)
    y_w = _matmul(weights, y)  # Eq. (41)

    c_sigma = rates.c_sigma
    gain = jnp.sqrt(c_sigma * (2 - c_sigma) * rates.mu_eff)
    sigma_path = gain * _times_power(state, y_w, -1)
    sigma_path += (1 - c_sigma) * state.sigma_path  # Eq. (43)
    generation = (state.num_evaluations + num_samples) / num_samples
    settled = 1 - (1 - c_sigma) ** (2 * generation)
    excess, is_short = _path_length(sigma_path, settled, pyribs_quirks)
    growth = jnp.exp(jnp.minimum(1.0, c_sigma / rates.d_sigma * excess))

    state = _adapt(state, weights, y, y_w, is_short, rates, pyribs_quirks)
    return state._replace(
        mean=state.mean + state.sigma * y_w,  # Eq. (42)
        sigma=state.sigma * growth,  # Eq. (44)
        sigma_path=sigma_path,
    )


def _adapt(
    state: CmaState,
    weights: Float[Array, " b"],
    y: Float[Array, "b p"],
    y_w: Float[Array, " p"],
    is_short: Bool[Array, ""],
    rates: _Rates,
    pyribs_quirks: bool,
) -> CmaState:
    """Evolution path and covariance."""
    mu_eff, _, _, c_c, c_1, c_mu = rates
    separable = state.basis is None
    h_sigma = is_short.astype(y.dtype)
    delta = (1 - h_sigma) * c_c * (2 - c_c)
    step = h_sigma * jnp.sqrt(c_c * (2 - c_c) * mu_eff) * y_w
    step = state.sigma * step if pyribs_quirks else step
    path = (1 - c_c) * state.path + step  # Eq. (45)

    # Eq. (47), as a sum of squares: of what is kept, of the path, of the steps.
    kept = jnp.sqrt(jnp.maximum(0.0, 1 - c_1 * (1 - delta) - c_mu)) * state.root
    rank_one = (c_1 if pyribs_quirks else jnp.sqrt(c_1)) * path
    rank_mu = jnp.sqrt(c_mu * weights)[:, None] * y
    if separable:
        root = jnp.sqrt(kept**2 + rank_one**2 + (rank_mu**2).sum(0))
    else:
        rows = jnp.concatenate([kept.T, rank_one[None], rank_mu])
        root = jnp.linalg.qr(rows, mode="r").T
    return state._replace(path=path, root=root)


def _path_length(
    sigma_path: Float[Array, " p"], settled: Float[Array, ""], pyribs_quirks: bool
) -> tuple[Float[Array, ""], Bool[Array, ""]]:
    """How much longer p_sigma is than expected, and whether it is short (h_sigma).

    ``settled`` is the share of its final variance that the path has reached.
    """
    dim = sigma_path.size
    length_sq = jnp.sum(sigma_path**2)
    if pyribs_quirks:
        is_short = length_sq / dim / settled < 2 + 4 / (dim + 1)
        return (length_sq / dim - 1) / 2, is_short
    # The mean length of a standard normal vector.
    expected = math.sqrt(2) * math.exp(
        math.lgamma((dim + 1) / 2) - math.lgamma(dim / 2)
    )
    length = jnp.sqrt(length_sq)
    is_short = length / jnp.sqrt(settled) < (1.4 + 2 / (dim + 1)) * expected
    return length / expected - 1, is_short  # Eq. (44)


def _decompose(
    root: Float[Array, "p p"] | Float[Array, " p"],
) -> tuple[Float[Array, "p p"] | None, Float[Array, " p"]]:
    """Eigenvectors of the covariance (None if diagonal), roots of its eigenvalues.

    Those of a matrix are known to about epsilon times the largest, and smaller ones are
    raised to that. Those of a diagonal are exact and only kept from vanishing.
    """
    limits = jnp.finfo(root.dtype)
    if root.ndim == 1:
        return None, jnp.maximum(root, limits.tiny)
    basis, scales, _ = jnp.linalg.svd(root)
    floor = jnp.maximum(limits.eps * scales[0], limits.tiny)
    return basis[:, ::-1], jnp.maximum(scales[::-1], floor)


def _times_power(
    state: CmaState, vectors: Float[Array, "*b p"], power: int
) -> Float[Array, "*b p"]:
    """Vectors times the root of the covariance, or its inverse (power -1)."""
    scales = jnp.broadcast_to(state.scales**power, vectors.shape)
    if state.basis is None:
        return vectors * scales
    return _matmul(_matmul(vectors, state.basis) * scales, state.basis.T)


def _lazy_gap(dim: int, num_samples: int) -> float | Float[Array, ""]:
    """Evaluations that pyribs waits between decompositions."""
    if num_samples == 1:
        return 0.0  # Not a number in pyribs, which then does not wait.
    weights = recombination_weights(num_samples // 2, num_samples)
    rates = _rates(weights, dim, separable=False, pyribs_quirks=True)
    return 0.5 * num_samples / dim / (rates.c_1 + rates.c_mu)


def _choose(condition: Bool[Array, ""], new: CmaState, old: CmaState) -> CmaState:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)
