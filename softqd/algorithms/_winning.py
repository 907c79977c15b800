"""The gradient of the Soft QD Score itself, estimated at random points."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from softqd.ops.distances import map_rows, mask_self, squared_distances
from softqd.types import Key


class Winning(NamedTuple):
    """What each solution of a batch adds to the score, and where it would add more."""

    share: Float[Array, " m"]  # of its light that is the brightest where it falls
    push: Float[Array, "m d"]  # derivative of the score, over quality


def winning(
    key: Key,
    z: Float[Array, "m d"],
    index: Int[Array, " m"],
    all_z: Float[Array, "n d"],
    all_root: Float[Array, " n"],
    sigma: Float[Array, " m"],
    num_points: int,
) -> Winning:
    r"""Derivatives of the Soft QD Score with respect to a batch, by Monte Carlo.

    The score is $\int \max_j f_j e^{-\|b - z_j\|^2 / 2 \sigma^2} \, db$. At points
    $b = z_i + \sigma \epsilon$ around a solution, with $\epsilon$ normal, divided by
    $(2 \pi \sigma^2)^{d/2}$, its derivatives are

    $P(i \text{ wins})$ by $f_i$, and
    $f_i E[1_{i \text{ wins}} \, \epsilon] / \sigma =
    -f_i E[1_{i \text{ loses}} \, \epsilon] / \sigma$ by $z_i$.

    Args:
        key: Of the points.
        z: Behaviors of the batch.
        index: The batch's rows in the population.
        all_z: Behaviors of the population.
        all_root: Square roots of the population's qualities.
        sigma: Width of the light, of each batch member.
        num_points: Points around each batch member.
    """
    m, d = z.shape
    n = all_z.shape[0]
    epsilon = jax.random.normal(key, (m, num_points, d), z.dtype)
    points = z[:, None] + sigma[:, None, None] * epsilon
    # Logarithms of brightness; -inf where a solution is dark.
    light = 2.0 * jnp.log(all_root)

    def rows(batch):
        points, index, sigma, own = batch
        dist_sq = mask_self(squared_distances(points, all_z), index)
        brightest = (light[None] - dist_sq / (2.0 * sigma[:, None] ** 2)).max(1)
        return own >= brightest

    own = light[index][:, None] - 0.5 * jnp.sum(epsilon**2, axis=2)
    spread = lambda x: jnp.repeat(x, num_points)  # noqa: E731
    batch = (points.reshape(-1, d), spread(index), spread(sigma), own.reshape(-1))
    wins = map_rows(rows, batch, n).reshape(m, num_points)
    loses = (~wins).astype(z.dtype)
    push = -jnp.mean(loses[..., None] * epsilon, axis=1) / sigma[:, None]
    return Winning(1.0 - loses.mean(1), push)
