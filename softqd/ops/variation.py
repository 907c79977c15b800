"""Children from parents: iso+line variation and gradient steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from softqd.ops import evaluation
from softqd.types import Key, Problem


def iso_line(
    parents: PyTree,
    others: PyTree,
    key: Key,
    iso_sigma: float | Array | PyTree,
    line_sigma: float | Array,
) -> PyTree:
    r"""Iso+line variation: noise around a parent, and along the line to another one.

    $x_1 + \sigma_{iso} \epsilon + \sigma_{line} \eta (x_2 - x_1)$, with $\epsilon$
    standard normal in every coordinate and $\eta$ one standard normal number per child
    (Vassiliades and Mouret 2018).

    Args:
        parents: $x_1$, a pytree whose leaves have a leading axis ``b``.
        others: $x_2$, of the same shapes.
        key: Randomness.
        iso_sigma: Scale of the noise in every direction, a number or a pytree like one
            solution.
        line_sigma: Scale of the noise along the line.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> x = jnp.ones((2, 3))
        >>> bool((iso_line(x, 2 * x, jax.random.key(0), 0.0, 0.0) == x).all())
        True
    """
    line_key, iso_key = jax.random.split(key)
    leaves, treedef = jax.tree.flatten(parents)
    keys = jax.tree.unflatten(treedef, list(jax.random.split(iso_key, len(leaves))))
    along = jax.random.normal(line_key, (leaves[0].shape[0],))
    if jax.tree.structure(iso_sigma) != treedef:
        iso_sigma = jax.tree.map(lambda _: iso_sigma, parents)

    def vary(x, other, key, sigma):
        noise = jax.random.normal(key, x.shape, x.dtype)
        rank = (-1,) + (1,) * (x.ndim - 1)
        share = (line_sigma * along).astype(x.dtype).reshape(rank)
        sigma = jnp.asarray(sigma, x.dtype)
        sigma = sigma if sigma.ndim == 0 else sigma[None]
        return x + sigma * noise + share * (other - x)

    return jax.tree.map(vary, parents, others, keys, iso_sigma)


def gradient_step(
    problem: Problem, solutions: PyTree, key: Key | None, step_size: float | Array
) -> PyTree:
    """One plain step up the gradient of quality: an evaluation with gradient each."""
    found, z, pullback = evaluation.evaluate_with_vjp(
        problem, solutions, key, lambda b: b
    )
    slope = pullback(jnp.ones_like(found.quality), jnp.zeros_like(z))
    return jax.tree.map(
        lambda x, g: x + jnp.asarray(step_size, x.dtype) * g, solutions, slope
    )
