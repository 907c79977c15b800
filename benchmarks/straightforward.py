"""The straightforward formulation of SQUAD and the problems, to compare with.

What one writes first from Algorithm 1: a full (1 + d)-row Jacobian per solution by
`jacrev`, `lax.top_k` for the neighbors, gather and scatter of random batches, and a
second evaluation after the step. Same mathematics, same Adam, same results.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from softqd.ops.ssim import ssim
from softqd.problems._image_composition import hue

LIMIT, SHIFT = 5.12, 2.048


class State(NamedTuple):
    """Solutions, cached evaluations, Adam moments with a step count per solution."""

    key: jax.Array
    x: jax.Array
    f: jax.Array
    b: jax.Array
    mean: jax.Array
    square: jax.Array
    count: jax.Array


def linear_projection(behavior_dim: int, solution_dim: int = 1024):
    """Quality and behavior of one solution, with `jnp.cos`."""

    def rastrigin(x):
        y = x - SHIFT
        return jnp.sum(10.0 + y**2 - 10.0 * jnp.cos(2 * jnp.pi * y))

    worst = rastrigin(jnp.full((solution_dim,), -LIMIT))

    def evaluate(x):
        inside = jnp.abs(x) <= LIMIT
        folded = jnp.where(inside, x, LIMIT / jnp.where(inside, 1.0, x))
        behavior = folded.reshape(behavior_dim, -1).mean(1)
        quality = 100.0 * (worst - rastrigin(x)) / worst
        return quality, (behavior + LIMIT) / (2 * LIMIT)

    return evaluate


def image_composition(target, num_circles: int = 1024, softness: float = 10.0):
    """Quality and behavior of one solution (7 * num_circles,), by a scan over circles.

    Written after the paper's text: automatic differentiation through the scan, `top_k`
    over all distances, HSV hue taken for radians as published.
    """
    size = target.shape[0]
    y, x = (z.astype(jnp.float32) for z in jnp.mgrid[:size, :size])

    def draw(canvas, circle):
        cx, cy, radius, *color, alpha = circle
        val = ((x - size * cx) ** 2 + (y - size * cy) ** 2) - (
            radius * size / 2 + 1
        ) ** 2
        a = (alpha * jax.nn.sigmoid(-val / softness))[..., None]
        return canvas * (1 - a) + a * jnp.stack(color), None

    def behaviors(unit):
        radius, color = unit[:, 2], unit[:, 3:6]
        spread = jnp.sqrt(jnp.var(radius * size / 2) + 1e-6) / (size / 4)
        colors = jnp.linalg.norm(color - color.mean(0), axis=1).mean() / (3**0.5 / 2)
        h = hue(color)
        harmony = jnp.hypot(jnp.cos(h).mean(), jnp.sin(h).mean())
        delta = size * (unit[:, None, :2] - unit[None, :, :2])
        distance = jnp.sqrt((delta**2).sum(-1) + 1e-6)
        distance = jnp.where(jnp.eye(num_circles, dtype=bool), jnp.inf, distance)
        near = -jax.lax.top_k(-distance, 5)[0].mean()
        clustering = 1 - near / (0.25 * (2 * size**2) ** 0.5)
        return jnp.clip(
            jnp.stack([radius.mean(), spread, colors, harmony, clustering]), 0, 1
        )

    def evaluate(solution):
        unit = jax.nn.sigmoid(solution.reshape(num_circles, 7))
        picture, _ = jax.lax.scan(draw, jnp.ones((size, size, 3)), unit)
        return 50 * (ssim(picture, target, filter_size=5) + 1), behaviors(unit)

    return evaluate


def straightforward_squad(
    evaluate,
    gamma_sq: float,
    population_size: int = 1024,
    batch_size: int = 64,
    num_neighbors: int = 16,
    learning_rate: float = 0.05,
):
    """``(init, step)`` as the authors' program computes it, neighbors counting self."""
    n, m = population_size, batch_size

    def logit(b):
        b = jnp.clip(b, 1e-6, 1 - 1e-6)
        return jnp.log(b / (1 - b))

    def transformed(x):
        f, b = evaluate(x)
        return f, logit(b)

    def init(key, x):
        f, b = jax.vmap(transformed)(x)
        zeros = jnp.zeros_like(x)
        return State(key, x, f, b, zeros, zeros, jnp.zeros((n,), jnp.int32))

    def batch_gradient(rows, f, b, jac_f, jac_b, all_f, all_b):
        dist_sq = ((b[:, None] - all_b[None]) ** 2).sum(-1)
        _, near = jax.lax.top_k(-dist_sq, num_neighbors)
        other = near != rows[:, None]
        delta = b[:, None] - all_b[near]
        kernel = jnp.exp(-(delta**2).sum(-1) / gamma_sq)
        kernel = jnp.where(other & (kernel >= 1e-6), kernel, 0.0)
        f_i, f_j = jnp.maximum(f, 0.0)[:, None], jnp.maximum(all_f[near], 0.0)
        slope = 0.5 * jnp.sqrt(f_j / jnp.maximum(f_i, 1e-6)) * kernel
        push = (jnp.sqrt(f_i * f_j) * kernel)[..., None] * 2 * delta / gamma_sq
        df = 1 - 0.5 * jnp.where(f > 0, slope.sum(1), 0.0)
        db = 0.5 * push.sum(1)
        return df[:, None] * jac_f + jnp.einsum("md,mdp->mp", db, jac_b)

    def update(state, rows):
        x = state.x[rows]
        f, b = jax.vmap(transformed)(x)
        jac_f, jac_b = jax.vmap(jax.jacrev(transformed))(x)
        all_f, all_b = state.f.at[rows].set(f), state.b.at[rows].set(b)
        g = -batch_gradient(rows, f, b, jac_f, jac_b, all_f, all_b)
        count = state.count[rows] + 1
        mean = 0.9 * state.mean[rows] + 0.1 * g
        square = 0.999 * state.square[rows] + 0.001 * g**2
        corrected = mean / (1 - 0.9**count)[:, None]
        scale = jnp.sqrt(square / (1 - 0.999**count)[:, None]) + 1e-8
        x = x - learning_rate * corrected / scale
        f, b = jax.vmap(transformed)(x)
        return State(
            state.key,
            state.x.at[rows].set(x),
            all_f.at[rows].set(f),
            all_b.at[rows].set(b),
            state.mean.at[rows].set(mean),
            state.square.at[rows].set(square),
            state.count.at[rows].set(count),
        ), None

    def step(state):
        key, order_key = jax.random.split(state.key)
        order = jax.random.permutation(order_key, n).reshape(-1, m)
        state, _ = jax.lax.scan(update, state._replace(key=key), order)
        return state

    return init, step
