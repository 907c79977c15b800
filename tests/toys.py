"""Small problems for tests."""

import jax
import jax.numpy as jnp

import softqd


def make_bowl(dim=6, behavior_bounds=(0.0, 1.0), **kwargs):
    """Smooth quality around 0.3, first two coordinates through a sigmoid."""

    def evaluate(x):
        return 10.0 - jnp.sum((x - 0.3) ** 2), jax.nn.sigmoid(x[:2])

    def sample(key):
        return jax.random.normal(key, (dim,))

    return softqd.Problem(evaluate, sample, behavior_bounds, name="bowl", **kwargs)
