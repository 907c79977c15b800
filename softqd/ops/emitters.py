"""Parts of emitters: ranking, selection, learning, restarts, branching gradients.

CMA-ME (Fontaine et al. 2020), CMA-MEGA (Fontaine and Nikolaidis 2021) and CMA-MAE
(Fontaine and Nikolaidis 2023) are assembled from these. Names are those of pyribs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.flatten_util
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree

from softqd.ops import evaluation
from softqd.ops.archive import CellArchive, Insertion, sample_elites
from softqd.ops.checks import MOST
from softqd.ops.cma_es import (
    CmaState,
    has_stopped,
    recombination_weights,
    sample_cma,
    update_cma,
)
from softqd.ops.precision import narrowed, near_one, widened
from softqd.types import Evaluation, Key, Problem

RANKERS = ("improvement", "two_stage")
SELECTIONS = ("mu", "filter")
RESTARTS = ("basic", "no_improvement")


class Rules(NamedTuple):
    """How an emitter learns, and when it starts anew."""

    ranker: str
    selection: str
    restart: str | int
    pyribs_quirks: bool = False


class Lesson(NamedTuple):
    """What an emitter learned from its samples."""

    cma: CmaState
    order: Int[Array, " b"]  # of the samples, best first
    num_parents: Int[Array, ""]
    is_over: Bool[Array, ""]  # it has converged, or its rule asks for a restart


def rank(
    insertion: Insertion, ranker: str
) -> tuple[Int[Array, " b"], Float[Array, "b v"]]:
    """Order candidates from best to worst.

    Args:
        insertion: What the archive said of the candidates.
        ranker: 'improvement': by value. 'two_stage': by status (new cell, improved
            cell, not added), then by value. Of equals, the later comes first.

    Returns:
        Indices, best first; and the values ranked by, in that order.

    Examples:
        >>> import jax.numpy as jnp
        >>> insertion = Insertion(jnp.array([1, 0, 2]), jnp.array([5.0, 9.0, 1.0]))
        >>> rank(insertion, "improvement")[0].tolist()
        [1, 0, 2]
        >>> rank(insertion, "two_stage")[0].tolist()
        [2, 0, 1]
    """
    status = insertion.status.astype(insertion.value.dtype)
    keys = {"improvement": [insertion.value], "two_stage": [status, insertion.value]}
    columns = keys[ranker]
    order = jnp.flip(jnp.lexsort(columns[::-1]))
    return order, jnp.stack(columns, 1)[order]


def num_parents(insertion: Insertion, selection: str) -> Int[Array, ""]:
    """How many of the ranked candidates become parents.

    'mu': half of them. 'filter': as many as the archive took.
    """
    size = insertion.status.shape[0]
    if selection == "mu":
        return jnp.int32(size // 2)
    return (insertion.status > 0).sum(dtype=jnp.int32)


def wants_restart(
    insertion: Insertion, iteration: Int[Array, ""], rule: str | int
) -> Bool[Array, ""]:
    """Whether an emitter's rule asks for a restart after its n-th iteration.

    'basic': never. 'no_improvement': when the archive took nothing. A number: every so
    many iterations.
    """
    if isinstance(rule, str):
        took_none = (insertion.status == 0).all()
        return took_none if rule == "no_improvement" else jnp.zeros((), bool)
    return iteration % rule == 0


def sample_all(cma: CmaState, key: Key, num_samples: int) -> Float[Array, "e b r"]:
    """Draw so many samples from every emitter's distribution; leaves have rows."""
    keys = jax.random.split(key, cma.mean.shape[0])
    return jax.vmap(sample_cma, (0, 0, None))(cma, keys, num_samples)


def learn(
    rules: Rules,
    cma: CmaState,
    samples: Float[Array, "b r"],
    insertion: Insertion,
    iteration: Int[Array, ""],
) -> Lesson:
    """Adapt one emitter's CMA-ES to the archive's ranking of its samples."""
    order, values = rank(insertion, rules.ranker)
    mu = num_parents(insertion, rules.selection)
    cma = update_cma(cma, samples, order, mu, pyribs_quirks=rules.pyribs_quirks)
    is_over = has_stopped(cma, values)
    is_over |= wants_restart(insertion, iteration, rules.restart)
    return Lesson(cma, order, mu, is_over)


def renew(
    start: Callable[[Float[Array, " p"]], PyTree],
    old: PyTree,
    is_over: Bool[Array, " e"],
    archive: CellArchive,
    key: Key,
) -> tuple[PyTree, Int[Array, ""]]:
    """Start emitters that are over anew from random elites; also how many do."""
    elites = flatten(sample_elites(archive, key, is_over.shape[0]))
    is_over &= archive.occupied.any()  # or there is no elite to start from
    return select(is_over, jax.vmap(start)(elites), old), is_over.sum(dtype=jnp.int32)


def check_rules(ranker: Any, selection: Any, restart: Any) -> None:
    """Refuse rules that do not exist.

    Raises:
        ValueError: Naming those that do.
    """
    for name, value, known in (
        ("ranker", ranker, RANKERS),
        ("selection", selection, SELECTIONS),
    ):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}; got {value!r}")
    is_count = isinstance(restart, int) and not isinstance(restart, bool)
    if restart not in RESTARTS and not (is_count and 1 <= restart <= MOST):
        raise ValueError(
            f"restart must be one of {', '.join(RESTARTS)}, or a number of iterations; "
            f"got {restart!r}"
        )


def flattener(template: PyTree) -> Callable[[Float[Array, "*b p"]], PyTree]:
    """From flat vectors, with any leading axes, to solutions shaped as a template."""
    zeros = widened(jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), template))
    _, unravel = jax.flatten_util.ravel_pytree(zeros)

    def unflatten(flat):
        one = unravel
        for _ in range(flat.ndim - 1):
            one = jax.vmap(one)
        return narrowed(one(flat), template)

    return unflatten


def flatten(solutions: PyTree) -> Float[Array, "n p"]:
    """Solutions with a leading axis as rows of numbers, none in half precision."""
    wide = widened(solutions)
    return jax.vmap(lambda s: jax.flatten_util.ravel_pytree(s)[0])(wide)


def evaluate_with_jacobian(
    problem: Problem, solutions: PyTree, key: Key | None
) -> tuple[Evaluation, Float[Array, "n r p"]]:
    """Evaluate a batch, with the gradients of quality and of every behavior.

    Returns:
        The evaluation; and flat gradients, quality's first, 1 + d of them. Each is one
        vector-Jacobian product.
    """
    result, _, pullback = evaluation.evaluate_with_vjp(
        problem, solutions, key, lambda b: b
    )
    n, d = result.behavior.shape
    basis = jnp.eye(1 + d, dtype=result.quality.dtype)

    def gradients(row):
        to_quality = jnp.full((n,), row[0])
        to_behavior = jnp.broadcast_to(row[None, 1:], (n, d))
        return flatten(pullback(to_quality, to_behavior.astype(result.behavior.dtype)))

    return result, jnp.swapaxes(jax.vmap(gradients)(basis), 0, 1)


def normalize_rows(
    gradients: Float[Array, "*b p"], eps: float = 1e-8
) -> Float[Array, "*b p"]:
    """Divide every gradient by its length, ``eps`` added; a zero one stays zero."""
    scale = near_one(gradients, axis=-1)  # or squares leave the range
    norm = jnp.sqrt(((gradients * scale) ** 2).sum(-1, keepdims=True)) / scale
    return gradients / (norm + eps)


def branch(
    points: Float[Array, "e p"],
    coefficients: Float[Array, "e b r"],
    gradients: Float[Array, "e r p"],
    signed_quality: bool = False,
) -> Float[Array, "e b p"]:
    """Children of points: one for every set of coefficients of their gradients.

    Gradients, quality's first, are normalized; quality's coefficient is taken as
    positive unless ``signed_quality``.

    Examples:
        >>> import jax.numpy as jnp
        >>> rows = jnp.array([[[2.0, 0.0], [0.0, 5.0]]])
        >>> branch(jnp.ones((1, 2)), jnp.array([[[-1.0, 3.0]]]), rows).tolist()
        [[[2.0, 4.0]]]
    """
    steps = coefficients
    if not signed_quality:
        steps = steps.at[..., 0].set(jnp.abs(steps[..., 0]))
    rows = normalize_rows(gradients)
    flat = jnp.einsum("ebr,erp->ebp", steps, rows, precision="highest")
    return points[:, None] + flat


def move(
    optimizer: optax.GradientTransformation,
    point: Float[Array, " p"],
    moments: PyTree,
    children: Float[Array, "b p"],
    lesson: Lesson,
) -> tuple[Float[Array, " p"], PyTree]:
    """Take a step of the optimizer to the mean of the parents; also its new state.

    CMA-MEGA goes eta sum_i w_i (child_i - point), the children ranked. As the weights
    sum to 1, that is the way to their mean, which as in pyribs an optimizer goes.
    """
    mu = lesson.num_parents
    weights = recombination_weights(mu, children.shape[0])
    mean = jnp.matmul(weights, children[lesson.order], precision="highest")
    # Optax descends: it is handed the negative of the way to the parents' mean.
    updates, new_moments = optimizer.update(point - mean, moments, point)
    moved = (optax.apply_updates(point, updates), new_moments)
    # Without a parent there is nowhere to go.
    return jax.tree.map(lambda a, b: jnp.where(mu > 0, a, b), moved, (point, moments))


def select(is_new: Bool[Array, " n"], new: PyTree, old: PyTree) -> PyTree:
    """Rows of one tree where ``is_new``, of the other elsewhere."""

    def pick(a, b):
        return jnp.where(is_new.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(pick, new, old)
