import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import softqd
from softqd import objective
from softqd.ops.kernels import bump, gamma_sq_of, pair_kernel
from softqd.ops.repulsion_kernel import repulsion_kernel


def random_population(seed, n=40, d=3, scale=1.0):
    keys = jax.random.split(jax.random.key(seed), 2)
    quality = jax.random.uniform(keys[0], (n,), minval=0.1, maxval=5.0)
    return quality, scale * jax.random.normal(keys[1], (n, d))


def double_loop(quality, behavior, gamma_sq):
    """Eq. (5) as printed, in float64 NumPy."""
    f, b = np.asarray(quality, float), np.asarray(behavior, float)
    total = f.sum()
    for i in range(len(f)):
        for j in range(i + 1, len(f)):
            kernel = np.exp(-((b[i] - b[j]) ** 2).sum() / gamma_sq)
            total -= np.sqrt(f[i] * f[j]) * kernel
    return total


@pytest.mark.parametrize("n", [1, 2, 40, 300])  # 300: more than one chunk of rows
def test_squad_objective_is_equation_5(n):
    quality, behavior = random_population(n, n=n)
    found = softqd.squad_objective(quality, behavior, 0.7)
    np.testing.assert_allclose(found, double_loop(quality, behavior, 0.7), rtol=2e-5)


def test_squad_objective_of_duplicates_and_of_strangers():
    same = softqd.squad_objective(jnp.full(3, 4.0), jnp.zeros((3, 2)), 1.0)
    np.testing.assert_allclose(same, 3 * 4.0 - 3 * 4.0, atol=1e-6)
    far = softqd.squad_objective(jnp.array([1.0, 2.0]), jnp.array([[0.0], [99.0]]), 1.0)
    assert far == 3.0


def test_squad_objective_gradient_is_the_full_pairwise_force(x64):
    quality, behavior = random_population(0, n=270, d=2)
    g_q, g_b = jax.grad(softqd.squad_objective, (0, 1))(quality, behavior, 0.5)
    everyone = jnp.arange(270)
    rep = objective.repulsion(
        behavior, everyone, behavior, jnp.sqrt(quality), jnp.full(270, 0.5), None
    )
    pull, push = objective.cotangents(quality, rep, jnp.full(270, 0.5), 1.0, False)
    # The published algorithm drops kernels below 1e-6, Eq. (5) does not.
    np.testing.assert_allclose(g_q, pull, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(g_b, push, rtol=1e-3, atol=1e-3)


def test_zero_quality_has_a_finite_gradient():
    grad = jax.grad(softqd.squad_objective)(
        jnp.array([0.0, 1.0]), jnp.zeros((2, 1)), 1.0
    )
    assert np.isfinite(grad).all()
    assert grad[0] == 1.0


@pytest.mark.parametrize(
    ("quality", "behavior", "message"),
    [
        (np.ones(3), np.ones((2, 2)), r"quality must have shape \(n,\)"),
        (np.ones((3, 1)), np.ones((3, 2)), r"got \(3, 1\) and \(3, 2\)"),
        (np.array([1.0, -0.5]), np.ones((2, 2)), "the smallest is -0.5. Pass level="),
    ],
)
def test_squad_objective_bad_input(quality, behavior, message):
    with pytest.raises(ValueError, match=message):
        softqd.squad_objective(quality, behavior, 1.0)


@pytest.mark.parametrize("protect", [False, True])
@pytest.mark.parametrize("weight", [0.5, 1.0])
@pytest.mark.parametrize("num_neighbors", [1, 7, None])
def test_cotangents_are_the_derivative_of_the_written_objective(
    x64, protect, weight, num_neighbors
):
    quality, z = random_population(1, n=30)
    quality = quality.at[3].set(0.0).at[5].set(-2.0)
    root = objective.safe_sqrt(quality)
    index = jnp.array([2, 3, 5, 11, 29])
    gamma = jnp.array([0.3, 0.5, 1.0, 2.0, 4.0])
    args = (index, z, root, gamma, num_neighbors, weight, protect)
    expected = jax.grad(objective.batch_objective, (0, 1))(
        quality[index], z[index], *args
    )
    rep = objective.repulsion(z[index], index, z, root, gamma, num_neighbors)
    found = objective.cotangents(quality[index], rep, gamma, weight, protect)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-10, atol=1e-12)


def test_batch_objective_against_finite_differences(x64):
    quality, z = random_population(2, n=20)
    root, index = jnp.sqrt(quality), jnp.array([4, 9])
    gamma = jnp.array([0.8, 0.8])

    def value(f, b):
        return objective.batch_objective(f, b, index, z, root, gamma, 6)

    f, b, step = quality[index], z[index], 1e-6
    g_f, g_b = jax.grad(value, (0, 1))(f, b)
    for i in range(2):
        e = step * jnp.eye(2)[i]
        numeric = (value(f + e, b) - value(f - e, b)) / (2 * step)
        np.testing.assert_allclose(g_f[i], numeric, rtol=1e-7)
        for k in range(3):
            e = jnp.zeros((2, 3)).at[i, k].set(step)
            numeric = (value(f, b + e) - value(f, b - e)) / (2 * step)
            np.testing.assert_allclose(g_b[i, k], numeric, rtol=1e-6, atol=1e-9)


def test_protected_quality_is_never_pushed_down():
    quality, z = jnp.full(50, 9.0), jnp.zeros((50, 2))  # everyone in one place
    gamma, index = jnp.full(50, 1.0), jnp.arange(50)
    rep = objective.repulsion(z, index, z, jnp.sqrt(quality), gamma, 15)
    pull, _ = objective.cotangents(quality, rep, gamma, 0.5, False)
    # 1 - w * sum_j sqrt(f_j / f_i) / 2 with 15 neighbors: 1 - 0.5 * 15 / 2
    np.testing.assert_allclose(pull, 1 - 0.5 * 15 / 2)
    pull, _ = objective.cotangents(quality, rep, gamma, 0.5, True)
    np.testing.assert_array_equal(pull, 1.0)


def test_identical_behaviors_do_not_push():
    quality, z = jnp.ones(6), jnp.full((6, 2), 3.0)
    rep = objective.repulsion(
        z, jnp.arange(6), z, quality, jnp.full(6, 1.0), num_neighbors=2
    )
    np.testing.assert_array_equal(rep.push, 0.0)
    np.testing.assert_allclose(rep.overlap, 2.0)  # ties share the two places


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_permuting_the_population_changes_nothing(seed):
    quality, z = random_population(seed, n=12, d=2)
    z = z.at[3].set(z[7])  # a tie
    root, gamma = jnp.sqrt(quality), jnp.full(12, 0.7)
    index = jnp.arange(12)
    rep = objective.repulsion(z, index, z, root, gamma, 4)
    order = jax.random.permutation(jax.random.key(seed), 12)
    mixed = objective.repulsion(z[order], index, z[order], root[order], gamma, 4)
    np.testing.assert_allclose(mixed.overlap, rep.overlap[order], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mixed.push, rep.push[order], rtol=1e-3, atol=1e-4)


def test_pair_kernel_is_the_product_of_two_bumps_at_the_midpoint():
    # exp(-D^2 / 8 sigma^2) is the bump at distance D / 2: where two equal lights meet.
    sigma, distance_sq = 0.4, jnp.array([0.0, 0.3, 2.0])
    kernel = pair_kernel(distance_sq, gamma_sq_of(sigma))
    np.testing.assert_allclose(kernel, bump(distance_sq / 4, sigma), rtol=1e-6)


@pytest.mark.parametrize("num_neighbors", [1, 15, None])
@pytest.mark.parametrize(("n", "d"), [(64, 16), (50, 3), (2, 1)])
def test_gpu_kernel_agrees_with_its_plain_twin(n, d, num_neighbors):
    quality, z = random_population(n + d, n=n, d=d)
    z = z.at[: n // 4].set(z[0])  # ties, at distance zero and beyond
    index = jnp.arange(0, n, 3)
    gamma = jnp.linspace(0.2, 3.0, len(index))
    args = (z[index], index, z, jnp.sqrt(quality), gamma, num_neighbors)
    overlap, push = repulsion_kernel(*args, interpret=True)
    plain = objective.plain_repulsion(*args)
    np.testing.assert_allclose(overlap, plain.overlap, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(push, plain.push, rtol=1e-4, atol=2e-5)


def test_gpu_kernel_over_seeds():
    quality, z = random_population(0, n=20, d=2)
    z = jnp.stack([z, 2 * z])
    index, gamma = jnp.arange(5), jnp.ones(5)

    def one(function, z):
        return tuple(function(z[:5], index, z, jnp.sqrt(quality), gamma, 4))

    kernel = jax.vmap(lambda z: one(lambda *a: repulsion_kernel(*a, interpret=True), z))
    plain = jax.vmap(lambda z: one(objective.plain_repulsion, z))
    for found, expected in zip(kernel(z), plain(z), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("n", "expected"), [(1024, True), (8193, False)])
def test_kernel_is_used_up_to_a_size(monkeypatch, n, expected):
    module = importlib.import_module("softqd.ops.repulsion_kernel")
    monkeypatch.setattr(module, "has_kernels", lambda _: True)
    assert module.fits_kernel(jnp.zeros((n, 1))) is expected


@pytest.mark.parametrize("dim", [2, 5])
def test_the_last_neighbor_counts_in_every_program(dim):
    """Compiled for several populations at once, distances were computed twice."""
    n, m, k = 12, 5, 4
    u = jax.random.normal(jax.random.key(0), (40, n, dim))
    ones = jnp.ones(n)

    def number(u):
        z = (u - u.mean(0, keepdims=True)) / u.std(0, keepdims=True)
        wide = jnp.full((m,), 1e9)
        return objective.repulsion(z[:m], jnp.arange(m), z, ones, wide, k).overlap

    np.testing.assert_allclose(jax.jit(jax.vmap(number))(u), k, rtol=1e-5)
