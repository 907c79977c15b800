import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softqd.ops import selection
from softqd.ops.novelty import dominated_novelty
from softqd.ops.variation import gradient_step, iso_line

novelty = jax.jit(dominated_novelty, static_argnums=2)


def definition(quality, behavior, k):
    """The authors' definition, solution by solution."""
    scores = []
    for i, f in enumerate(quality):
        rivals = [j for j in range(len(quality)) if j != i and quality[j] >= f]
        near = sorted(np.linalg.norm(behavior[i] - behavior[j]) for j in rivals)[:k]
        scores.append(np.mean(near) if near else np.inf)
    return np.array(scores)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([(1, 1), (2, 3), (13, 1), (30, 4)]),  # each is a program
    st.sampled_from([1, 5, 40]),
    st.integers(0, 10**6),
    st.sampled_from([2, 1000]),
)
def test_equals_the_definition_with_ties(shape, k, seed, levels):
    n, d = shape
    rng = np.random.default_rng(seed)
    quality = rng.integers(0, levels, n).astype(np.float32)  # few levels: many ties
    behavior = rng.integers(0, levels, (n, d)).astype(np.float32)
    found = novelty(jnp.asarray(quality), jnp.asarray(behavior), k)
    np.testing.assert_allclose(found, definition(quality, behavior, k), rtol=1e-5)


def test_in_chunks(monkeypatch):
    monkeypatch.setattr("softqd.ops.distances.MAX_ENTRIES", 70)
    rng = np.random.default_rng(0)
    quality, behavior = rng.random(25), rng.random((25, 3))
    found = dominated_novelty(jnp.asarray(quality), jnp.asarray(behavior), 4)
    np.testing.assert_allclose(found, definition(quality, behavior, 4), rtol=1e-5)


@pytest.mark.parametrize("k", [1, 3, 6])
def test_mean_of_smallest_equals_a_sort(k):
    values = jax.random.uniform(jax.random.key(k), (20, 6))
    expected = np.sort(np.asarray(values), axis=1)[:, :k].mean(1)
    found = selection.mean_of_smallest(values, k)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_mean_of_smallest_with_holes_and_ties():
    inf = np.inf
    rows = jnp.array([[inf, inf, inf], [2.0, inf, inf], [1.0, 1.0, 1.0]])
    assert selection.mean_of_smallest(rows, 2).tolist() == [inf, 2.0, 1.0]


def test_iso_line_has_the_variance_it_says():
    """Around x1: iso^2, and line^2 (x2 - x1)^2, fully correlated along the line."""
    n = 200_000
    x1, x2 = jnp.zeros((n, 2)), jnp.broadcast_to(jnp.array([3.0, -4.0]), (n, 2))
    children = iso_line(x1, x2, jax.random.key(0), 0.5, 0.1)
    expected = 0.25 * np.eye(2) + 0.01 * np.outer([3, -4], [3, -4])
    np.testing.assert_allclose(np.cov(children.T), expected, rtol=0.02, atol=2e-3)
    np.testing.assert_allclose(children.mean(0), 0.0, atol=5e-3)


def test_leaves_of_a_pytree_share_the_line_but_not_the_noise():
    x1 = {"a": jnp.zeros((5, 2)), "b": jnp.zeros((5, 3, 1))}
    x2 = jax.tree.map(jnp.ones_like, x1)
    children = iso_line(x1, x2, jax.random.key(1), 0.0, 1.0)
    np.testing.assert_array_equal(children["a"][:, 0], children["b"][:, 2, 0])
    noisy = iso_line(x1, x2, jax.random.key(1), 1.0, 0.0)
    assert not np.array_equal(noisy["a"][:, 0], noisy["b"][:, 0, 0])


def test_gradient_step_follows_quality_alone(bowl):
    x = jax.random.normal(jax.random.key(0), (4, 6))
    slope = jax.vmap(jax.grad(lambda x: bowl.evaluate(x)[0]))(x)
    found = gradient_step(bowl, x, None, 0.1)
    np.testing.assert_allclose(found, x + 0.1 * slope, rtol=1e-6)
