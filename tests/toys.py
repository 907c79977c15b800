"""Small problems for tests, and a small algorithm."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import softqd


def make_bowl(dim=6, behavior_bounds=(0.0, 1.0), **kwargs):
    """Smooth quality around 0.3, first two coordinates through a sigmoid."""
    kwargs = {"quality_level": 0.0, **kwargs}
    dtype = kwargs.pop("dtype", None)

    def evaluate(x):
        return 10.0 - jnp.sum((x - 0.3) ** 2), jax.nn.sigmoid(x[:2])

    def sample(key):
        return jax.random.normal(key, (dim,), dtype)

    return softqd.Problem(evaluate, sample, behavior_bounds, name="bowl", **kwargs)


class ClimbState(NamedTuple):
    iteration: Any
    init_evaluations: Any
    solutions: Any
    quality: Any
    behavior: Any


class ClimbInfo(NamedTuple):
    evaluations: Any
    gradient_evaluations: Any
    vector_jacobian_products: Any
    is_finite: Any


def climb(problem, size: int = 16, sigma: float = 0.1):
    """Hill climbing by changes without order: an algorithm that compiles quickly.

    Random numbers would take longer to compile than all the rest.
    """
    if size < 1:
        raise ValueError(f"size must be at least 1; got {size}")

    def init(key):
        solutions = jax.vmap(problem.sample)(jax.random.split(key, size))
        quality, behavior = jax.vmap(problem.evaluate)(solutions)
        counts = jnp.int32(0), jnp.int32(size)
        return ClimbState(*counts, solutions, quality, behavior)

    def step(state):
        place = jnp.arange(state.solutions.size).reshape(state.solutions.shape)
        change = 2.0 * jnp.sin(12.9898 * place + 78.233 * state.iteration)
        changed = state.solutions + sigma * change
        quality, behavior = jax.vmap(problem.evaluate)(changed)
        keep = quality >= state.quality
        new = ClimbState(
            state.iteration + 1,
            state.init_evaluations,
            jnp.where(keep[:, None], changed, state.solutions),
            jnp.where(keep, quality, state.quality),
            jnp.where(keep[:, None], behavior, state.behavior),
        )
        counts = (jnp.int32(size), jnp.int32(0), jnp.int32(0))
        return new, ClimbInfo(*counts, jnp.isfinite(quality))

    def population(state):
        occupied = jnp.ones(size, bool)
        return softqd.Population(*state[2:], occupied)

    return softqd.Algorithm(init, step, population, problem, "climb", {"size": size})
