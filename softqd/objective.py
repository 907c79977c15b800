"""The lower bound that SQUAD climbs (Soft Quality-Diversity Optimization, Eq. 5).

`squad_objective` is the bound itself, over all pairs. `batch_objective` is what one
batch of the published algorithm ascends, written out; `repulsion` gives its derivative
in closed form from one pass over the population, and the tests hold the two together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from softqd.ops.checks import check_population
from softqd.ops.devices import over_devices
from softqd.ops.distances import map_rows, mask_self, squared_distances
from softqd.ops.kernels import KERNEL_CUTOFF, pair_kernel
from softqd.ops.pairs import sum_over_pairs
from softqd.ops.repulsion_kernel import fits_kernel, repulsion_kernel
from softqd.ops.selection import smallest

# Qualities are held above this where they divide, as in the published runs.
QUALITY_FLOOR = 1e-6


def squad_objective(
    quality: Any, behavior: Any, gamma_sq: float | Array, *, level: float = 0.0
) -> Float[Array, ""]:
    r"""The SQUAD objective over all pairs, Eq. (5), without the leading constant.

    $\sum_n f_n - \sum_{i<j} \sqrt{f_i f_j} \exp(-\|b_i - b_j\|^2 / \gamma^2)$

    Times $(2 \pi \sigma^2)^{d/2}$ with $\gamma^2 = 8 \sigma^2$ it is a lower bound of
    the Soft QD Score. Differentiable, in memory linear in ``n``.

    Args:
        quality: Qualities ``(n,)``.
        behavior: Behaviors ``(n, d)`` in the unbounded space.
        gamma_sq: Squared bandwidth, positive.
        level: From where quality is measured; no quality may be below.

    Raises:
        ValueError: If shapes do not match or a quality is below the level.

    Examples:
        >>> import jax.numpy as jnp
        >>> squad_objective(jnp.array([1.0, 4.0]), jnp.zeros((2, 3)), 1.0)
        Array(3., dtype=float32)
    """
    quality, behavior = check_population(quality, behavior, level)

    return quality.sum() - _penalties(quality, behavior, gamma_sq)


@jax.jit
def _penalties(quality, behavior, gamma_sq):
    def penalty(some, everyone):
        (root_i, b_i), (root_j, b_j) = some, everyone
        kernel = pair_kernel(squared_distances(b_i, b_j), gamma_sq)
        return root_i[:, None] * root_j[None, :] * kernel

    return sum_over_pairs(penalty, (safe_sqrt(quality), behavior))


def safe_sqrt(quality: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Square root of ``max(quality, 0)`` whose derivative is 0 where it is 0."""
    positive = quality > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, quality, 1.0)), 0.0)


class Repulsion(NamedTuple):
    """Sums over the neighbors j of each batch member i, neighbors held constant."""

    overlap: Float[Array, " m"]  # sum_j sqrt(f_j) K_ij
    push: Float[Array, "m d"]  # sum_j sqrt(f_j) K_ij (z_i - z_j)


def repulsion(
    z: Float[Array, "m d"],
    index: Int[Array, " m"],
    all_z: Float[Array, "n d"],
    all_root: Float[Array, " n"],
    gamma_sq: Float[Array, " m"],
    num_neighbors: int | None,
) -> Repulsion:
    """Overlap with, and push away from, the nearest neighbors of a batch.

    Where several solutions are exactly as far as the last neighbor, they share its
    place: no order of the population is preferred. On NVIDIA GPUs one fused kernel does
    it all; of several devices, each does its own rows of the batch.

    Args:
        z: Transformed behaviors of the batch.
        index: The batch's rows in the population, excluded as their own neighbors.
        all_z: Transformed behaviors of the population.
        all_root: Square roots of the population's qualities.
        gamma_sq: Squared bandwidth of each batch member.
        num_neighbors: How many others repel; None for all.
    """

    def of_rows(rows, everyone):
        (z, index, gamma_sq), (all_z, all_root) = rows, everyone
        arguments = (z, index, all_z, all_root, gamma_sq)
        if not fits_kernel(all_z):
            return plain_repulsion(*arguments, num_neighbors)
        # By platform, not by device: the same program may be lowered for the CPU.
        overlap, push = jax.lax.platform_dependent(
            *arguments,
            cuda=lambda *a: tuple(repulsion_kernel(*a, num_neighbors=num_neighbors)),
            default=lambda *a: tuple(plain_repulsion(*a, num_neighbors=num_neighbors)),
        )
        return Repulsion(overlap, push)

    return over_devices(of_rows, (z, index, gamma_sq), (all_z, all_root))


def plain_repulsion(
    z: Float[Array, "m d"],
    index: Int[Array, " m"],
    all_z: Float[Array, "n d"],
    all_root: Float[Array, " n"],
    gamma_sq: Float[Array, " m"],
    num_neighbors: int | None,
) -> Repulsion:
    """`repulsion` in plain JAX, for any device, size and precision."""
    n = all_z.shape[0]
    # Differences are what counts: centering keeps their rounding error small below.
    center = all_z.mean(0, keepdims=True)

    def rows(batch):
        z, index, gamma_sq = batch
        # Compilers may compute a sum of squares again for each of its uses, with other
        # last bits, so that the last neighbor is not found again. Roots they keep.
        distance = jnp.sqrt(mask_self(squared_distances(z, all_z), index))
        kernel = pair_kernel(distance**2, gamma_sq[:, None], KERNEL_CUTOFF)
        if num_neighbors is not None and num_neighbors < n - 1:
            kernel *= smallest(distance, num_neighbors)
        weight = kernel * all_root[None, :]
        overlap = weight.sum(1)
        pull = jnp.matmul(weight, all_z - center, precision="highest")
        return Repulsion(overlap, overlap[:, None] * (z - center) - pull)

    return map_rows(rows, (z, index, gamma_sq), n)


def batch_objective(
    quality: Float[Array, " m"],
    z: Float[Array, "m d"],
    index: Int[Array, " m"],
    all_z: Float[Array, "n d"],
    all_root: Float[Array, " n"],
    gamma_sq: Float[Array, " m"],
    num_neighbors: int | None,
    repulsion_weight: float = 0.5,
    protect_quality: bool = False,
) -> Float[Array, ""]:
    r"""What one batch ascends (Algorithm 1), written out for autodiff.

    $\sum_i f_i - w \sum_i \sum_{j \in N_i} \sqrt{f_i f_j} K_{ij}$

    with the neighbors j held constant. ``protect_quality`` holds $f_i$ constant inside
    the repulsion too. Not used by the algorithm, which has the derivative in closed
    form (`cotangents`); the tests compare the two.
    """
    dist_sq = mask_self(squared_distances(z, all_z), index)
    kernel = pair_kernel(dist_sq, gamma_sq[:, None], KERNEL_CUTOFF)
    if num_neighbors is not None and num_neighbors < all_z.shape[0] - 1:
        nearest = jax.lax.stop_gradient(dist_sq)
        kernel *= smallest(nearest, num_neighbors)
    root = safe_sqrt(jax.lax.stop_gradient(quality) if protect_quality else quality)
    pairs = root[:, None] * all_root[None, :] * kernel
    return quality.sum() - repulsion_weight * pairs.sum()


def cotangents(
    quality: Float[Array, " m"],
    rep: Repulsion,
    gamma_sq: Float[Array, " m"],
    repulsion_weight: Float[Array, ""] | float,
    protect_quality: bool,
) -> tuple[Float[Array, " m"], Float[Array, "m d"]]:
    """Derivative of `batch_objective` with respect to quality and behavior.

    A solution whose quality is not positive is not repelled, and no derivative passes
    through its square root.
    """
    is_lit = quality > 0
    pull = jnp.ones_like(quality)
    if not protect_quality:
        slope = 0.5 / jnp.sqrt(jnp.maximum(quality, QUALITY_FLOOR))
        pull -= jnp.where(is_lit, repulsion_weight * slope * rep.overlap, 0.0)
    push = repulsion_weight * 2 * safe_sqrt(quality) / gamma_sq
    return pull, push[:, None] * rep.push
