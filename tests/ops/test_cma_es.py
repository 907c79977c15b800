import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from scipy.special import gamma
from scipy.stats import ortho_group

from softqd.ops.cma_es import (
    has_stopped,
    init_cma,
    recombination_weights,
    sample_cma,
    update_cma,
)

KINDS = pytest.mark.parametrize("separable", [False, True], ids=["full", "separable"])
QUIRKS = pytest.mark.parametrize("quirks", [False, True], ids=["textbook", "pyribs"])
update = jax.jit(update_cma, static_argnames="pyribs_quirks")


class Textbook:
    """The tutorial's Figure 6 and Table 1, sample by sample, in double precision.

    Positive weights only; separable: the diagonal, (n + 2) / 3 times the rates.
    """

    def __init__(self, mean, sigma, separable):
        self.m, self.sigma, self.separable = np.array(mean), sigma, separable
        n = self.n = len(mean)
        self.p_c, self.p_sigma, self.C, self.g = np.zeros(n), np.zeros(n), np.eye(n), 0

    def tell(self, parents):
        n, mu = self.n, len(parents)
        w = [np.log(mu + 0.5) - np.log(i) for i in range(1, mu + 1)]
        w = np.array(w) / sum(w)
        mu_eff = sum(w) ** 2 / sum(w**2)
        c_s = (mu_eff + 2) / (n + mu_eff + 5)
        d_s = 1 + 2 * max(0, np.sqrt((mu_eff - 1) / (n + 1)) - 1) + c_s
        c_c = (4 + mu_eff / n) / (n + 4 + 2 * mu_eff / n)
        factor = (n + 2) / 3 if self.separable else 1
        c_1 = factor * 2 / ((n + 1.3) ** 2 + mu_eff)
        c_mu = factor * 2 * (mu_eff - 2 + 1 / mu_eff) / ((n + 2) ** 2 + mu_eff)
        c_mu = min(1 - c_1, c_mu)

        y = [(x - self.m) / self.sigma for x in parents]
        y_w = sum(w[i] * y[i] for i in range(mu))
        inverse_root = np.linalg.inv(np.real(sqrtm(self.C)))
        step = np.sqrt(c_s * (2 - c_s) * mu_eff) * inverse_root @ y_w
        self.p_sigma = (1 - c_s) * self.p_sigma + step
        length = np.linalg.norm(self.p_sigma)
        chi = np.sqrt(2) * gamma((n + 1) / 2) / gamma(n / 2)
        bound = (1.4 + 2 / (n + 1)) * chi
        self.g += 1
        h = float(length / np.sqrt(1 - (1 - c_s) ** (2 * self.g)) < bound)
        self.p_c = (1 - c_c) * self.p_c + h * np.sqrt(c_c * (2 - c_c) * mu_eff) * y_w
        delta = (1 - h) * c_c * (2 - c_c)
        rank_mu = sum(w[i] * np.outer(y[i], y[i]) for i in range(mu))
        self.C = (1 + c_1 * delta - c_1 - c_mu) * self.C
        self.C += c_1 * np.outer(self.p_c, self.p_c) + c_mu * rank_mu
        if self.separable:
            self.C = np.diag(np.diag(self.C))
        self.m = self.m + self.sigma * y_w
        self.sigma *= np.exp(c_s / d_s * (length / chi - 1))
        return h


def descend(state, key, num_steps, num_samples, num_parents, function):
    """Minimize a function of one solution."""

    def step(state, key):
        samples = sample_cma(state, key, num_samples)
        order = jnp.argsort(jax.vmap(function)(samples))
        return update_cma(state, samples, order, num_parents), None

    keys = jax.random.split(key, num_steps)
    return jax.jit(lambda s: jax.lax.scan(step, s, keys)[0])(state)


@pytest.mark.parametrize(
    ("num_parents", "expected"),
    [
        (0, [0, 0, 0, 0]),
        (1, [1, 0, 0, 0]),
        (2, [np.log(2.5) / np.log(3.125), np.log(1.25) / np.log(3.125), 0, 0]),
    ],
)
def test_weights_of_few_parents(num_parents, expected):
    found = jax.jit(recombination_weights, static_argnums=1)(num_parents, 4)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("num_parents", range(1, 9))
def test_weights_decrease_and_sum_to_one(num_parents):
    weights = np.asarray(recombination_weights(num_parents, 8))
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-6)
    assert (np.diff(weights[:num_parents]) < 0).all()
    assert (weights > 0).sum() == num_parents


@KINDS
@pytest.mark.parametrize(("dim", "num_samples"), [(1, 4), (2, 1), (5, 8), (17, 36)])
def test_updates_are_the_textbook(x64, separable, dim, num_samples):
    rng = np.random.default_rng(dim)
    textbook = Textbook(rng.normal(size=dim), 0.7, separable)
    state = init_cma(jnp.asarray(textbook.m), 0.7, separable=separable)
    all_h = set()
    for step in range(25):
        samples = sample_cma(state, jax.random.key(step), num_samples)
        order = jnp.argsort(10 * samples[:, 0] + (samples**2).sum(1))
        num_parents = int(rng.integers(1, num_samples + 1))
        state = update(state, samples, order, num_parents)
        all_h.add(textbook.tell(np.asarray(samples)[order[:num_parents]]))
        covariance = np.diag(textbook.C) if separable else textbook.C
        close = functools.partial(np.testing.assert_allclose, rtol=1e-8, atol=1e-10)
        close(state.mean, textbook.m)
        close(state.sigma, textbook.sigma)
        close(state.covariance, covariance)
        close(state.path, textbook.p_c)
        close(state.sigma_path, textbook.p_sigma)
    assert all_h == ({1.0} if num_samples == 1 else {0.0, 1.0})
    assert state.num_evaluations == 25 * num_samples


@KINDS
def test_samples_have_the_mean_and_covariance_of_the_state(separable):
    state = init_cma(jnp.array([1.0, -2.0]), 0.5, separable=separable)
    samples = sample_cma(state, jax.random.key(0), 8)
    state = update(state, samples, jnp.arange(8), 4)
    samples = sample_cma(state, jax.random.key(1), 200_000)
    covariance = jnp.diag(state.covariance) if separable else state.covariance
    expected = np.asarray(state.sigma**2 * covariance)
    np.testing.assert_allclose(samples.mean(0), state.mean, atol=0.01)
    np.testing.assert_allclose(np.cov(samples.T), expected, atol=0.01)
    assert separable or abs(expected[0, 1]) > 0.03


@QUIRKS
@KINDS
def test_without_parents_evaluations_are_counted(separable, quirks):
    state = init_cma(jnp.ones(3), 0.5, separable=separable)
    samples = sample_cma(state, jax.random.key(0), 6)
    state = update(state, samples, jnp.arange(6), 3, pyribs_quirks=quirks)
    samples = sample_cma(state, jax.random.key(1), 6)
    after = update(state, samples, jnp.arange(6), 0, pyribs_quirks=quirks)
    assert after.num_evaluations == 12
    for name in ("mean", "sigma", "covariance", "path", "sigma_path"):
        np.testing.assert_array_equal(getattr(after, name), getattr(state, name))
    if not quirks:
        assert_same(after._replace(num_evaluations=state.num_evaluations), state)


def assert_same(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def test_quirks_are_both_there(x64):
    """From the start, one parent at distance y: algebra, for p = 2.

    c_1 is 2 / (3.3**2 + 1), c_mu is 0, mu_eff is 1; the path is short.
    """
    sigma, y = 0.1, np.array([0.05, -0.1])
    state = init_cma(jnp.zeros(2), sigma)
    found = [
        update(state, jnp.asarray(y)[None], jnp.array([0]), 1, pyribs_quirks=quirks)
        for quirks in (False, True)
    ]
    c_c, c_1 = (4 + 1 / 2) / (2 + 4 + 2 / 2), 2 / (3.3**2 + 1)
    gain = np.sqrt(c_c * (2 - c_c))
    np.testing.assert_allclose(found[0].path, gain * y / sigma)
    np.testing.assert_allclose(found[1].path, gain * y)
    for state, rate in zip(found, (c_1, c_1**2), strict=True):
        expected = (1 - c_1) * np.eye(2) + rate * np.outer(state.path, state.path)
        np.testing.assert_allclose(state.covariance, expected)


def test_both_forms_are_one_in_one_dimension(x64):
    full, diagonal = (init_cma(jnp.ones(1), 0.3, separable=s) for s in (False, True))
    for step, num_parents in enumerate([3, 1, 0, 6, 2]):
        samples = sample_cma(full, jax.random.key(step), 6)
        order = jnp.argsort(samples[:, 0] ** 2)
        full = update(full, samples, order, num_parents)
        diagonal = update(diagonal, samples, order, num_parents)
        np.testing.assert_allclose(diagonal.covariance, full.covariance[0])
        np.testing.assert_allclose(diagonal.sigma, full.sigma)
        np.testing.assert_allclose(diagonal.mean, full.mean)


@KINDS
def test_moving_with_the_coordinates(x64, separable):
    """Scaled and shifted samples move the state alike; rotated ones the full form."""
    dim = 4
    turn = np.eye(dim) if separable else ortho_group.rvs(dim, random_state=0)
    a = init_cma(jnp.zeros(dim), 0.5, separable=separable)
    b = init_cma(jnp.full(dim, 7.0), 1.5, separable=separable)
    for step, num_parents in enumerate([4, 1, 8, 2, 3]):
        samples = sample_cma(a, jax.random.key(step), 8)
        order = jnp.argsort(samples[:, 0])
        a = update(a, samples, order, num_parents)
        b = update(b, 3 * samples @ turn.T + 7.0, order, num_parents)
    np.testing.assert_allclose(b.mean, 3 * turn @ np.asarray(a.mean) + 7.0)
    np.testing.assert_allclose(b.sigma, 3 * a.sigma)
    if not separable:
        np.testing.assert_allclose(b.covariance, turn @ a.covariance @ turn.T)
        # Samples come with the symmetric root, whatever the eigenvectors' signs.
        root = a.basis * a.scales[None] @ a.basis.T
        np.testing.assert_allclose(root, np.real(sqrtm(a.covariance)), atol=1e-12)


@KINDS
def test_sphere(x64, separable):
    """In 10 dimensions, 1e-6 of the distance is left after 300 times 10 samples."""
    start = init_cma(jnp.ones(10), 0.5, separable=separable)
    keys = jax.random.split(jax.random.key(0), 8)
    end = jax.vmap(
        lambda key: descend(start, key, 300, 10, 5, lambda x: jnp.sum(x**2))
    )(keys)
    assert jnp.linalg.norm(end.mean, axis=1).max() < 1e-6
    assert end.sigma.max() < 1e-6


def test_covariance_becomes_the_inverse_hessian(x64):
    turn = ortho_group.rvs(5, random_state=0)
    hessian = turn * np.logspace(0, 4, 5) @ turn.T
    start = init_cma(jnp.ones(5), 0.5)
    end = descend(
        start, jax.random.key(0), 400, 16, 8, lambda x: x @ jnp.asarray(hessian) @ x
    )
    # A multiple of the identity, as far as 8 parents can tell; 1e4 at the start.
    eigenvalues = np.linalg.eigvals(hessian @ np.asarray(end.covariance)).real
    assert eigenvalues.max() / eigenvalues.min() < 5
    assert jnp.linalg.norm(end.mean) < 1e-6


def test_separable_form_learns_the_scales_of_an_ellipsoid(x64):
    hessian = np.logspace(0, 4, 20)
    start = init_cma(jnp.ones(20), 0.5, separable=True)
    end = descend(
        start,
        jax.random.key(0),
        800,
        16,
        8,
        lambda x: jnp.sum(jnp.asarray(hessian) * x**2),
    )
    product = hessian * np.asarray(end.covariance)
    assert product.max() / product.min() < 5
    assert jnp.linalg.norm(end.mean) < 1e-6


@QUIRKS
@KINDS
def test_vmap_equals_a_loop(separable, quirks):
    num_emitters, num_samples, dim = 5, 8, 3
    means = jax.random.normal(jax.random.key(0), (num_emitters, dim))
    states = [init_cma(mean, 0.4, separable=separable) for mean in means]
    batch = jax.vmap(lambda m: init_cma(m, 0.4, separable=separable))(means)
    draw = jax.jit(jax.vmap(lambda s, k: sample_cma(s, k, num_samples)))
    step = jax.jit(jax.vmap(functools.partial(update_cma, pyribs_quirks=quirks)))
    for i in range(4):
        keys = jax.random.split(jax.random.key(i), num_emitters)
        samples = draw(batch, keys)
        order = jnp.argsort((samples**2).sum(-1), axis=-1)
        parents = jnp.arange(num_emitters) + i
        batch = step(batch, samples, order, parents)
        states = [
            update(*x, pyribs_quirks=quirks)
            for x in zip(states, samples, order, parents, strict=True)
        ]
    expected = jax.tree.map(lambda *x: jnp.stack(x), *states)
    for name in ("mean", "sigma", "covariance", "path", "sigma_path", "scale_range"):
        found = getattr(batch, name)
        np.testing.assert_allclose(found, getattr(expected, name), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(batch.num_evaluations, 4 * num_samples)


def test_one_program_for_all_numbers_of_parents():
    calls = []

    @jax.jit
    def step(state, samples, num_parents):
        calls.append(1)
        return update_cma(state, samples, jnp.arange(6), num_parents)

    state = init_cma(jnp.zeros(2), 1.0)
    for num_parents in range(7):
        samples = sample_cma(state, jax.random.key(num_parents), 6)
        state = step(state, samples, num_parents)
    assert len(calls) == 1


@QUIRKS
@KINDS
def test_a_saved_state_continues_bit_for_bit(separable, quirks):
    def run(state, steps):
        for i in steps:
            samples = sample_cma(state, jax.random.key(i), 4)
            order = jnp.argsort(samples[:, 0])
            state = update(state, samples, order, 2, pyribs_quirks=quirks)
        return state

    start = init_cma(jnp.zeros(12), 1.0, separable=separable)
    halfway = jax.tree.map(lambda x: jnp.asarray(np.array(x)), run(start, range(5)))
    assert_same(run(halfway, range(5, 10)), run(start, range(10)))


def test_restart_inside_jit():
    @jax.jit
    def step(state, ranking_values):
        fresh = init_cma(jnp.full(2, 9.0), 2.0)
        state = update_cma(state, jnp.ones((3, 2)), jnp.arange(3), 1)
        stopped = has_stopped(state, ranking_values)
        return jax.tree.map(lambda a, b: jnp.where(stopped, a, b), fresh, state)

    state = init_cma(jnp.zeros(2), 1.0)
    np.testing.assert_allclose(step(state, jnp.array([2.0, 1.0, 0.0])).mean, 1.0)
    assert_same(step(state, jnp.zeros(3)), init_cma(jnp.full(2, 9.0), 2.0))


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 2**31 - 1),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 3]),
    st.sampled_from([1e-30, 1e-6, 1.0, 1e6, 1e30]),
)
def test_no_finite_input_makes_anything_else(seed, separable, quirks, dim, size):
    """200 random updates in single precision, with outliers and repeated samples."""
    rng = np.random.default_rng(seed)
    state = init_cma(jnp.zeros(dim), 1.0, separable=separable)
    for _ in range(200):
        samples = np.float32(size) * rng.standard_cauchy((5, dim)).astype(np.float32)
        samples = np.where(rng.random() < 0.2, samples[:1], samples)
        num_parents = int(rng.integers(0, 6))
        state = update(
            state, samples, rng.permutation(5), num_parents, pyribs_quirks=quirks
        )
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state))
    assert state.sigma > 0
    assert (state.scales > 0).all()
    assert np.isfinite(sample_cma(state, jax.random.key(0), 5)).all()


@KINDS
def test_a_collapsing_run_stays_finite_and_stops(separable):
    """Samples that all equal the mean, long after has_stopped said so."""
    state = init_cma(jnp.ones(3), 1.0, separable=separable)
    for step in range(1500):
        state = update(state, jnp.ones((4, 3)), jnp.arange(4), 2)
        if step == 100:
            assert has_stopped(state, jnp.array([1.0, 0.0]))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state))
    assert state.sigma > 0
    assert has_stopped(state, jnp.array([1.0, 0.0]))


@KINDS
def test_a_coordinate_without_variance_does_not_hold_up_the_others(separable):
    """Its variance falls until single precision has no smaller number."""

    def step(state, key):
        state = state._replace(sigma=jnp.ones(()))
        samples = state.mean[None] + jax.random.normal(key, (4, 1)) * jnp.eye(2)[:1]
        return update_cma(state, samples, jnp.arange(4), 2), state.mean

    keys = jax.random.split(jax.random.key(0), 1500)
    state = init_cma(jnp.zeros(2), 1.0, separable=separable)
    end, means = jax.jit(lambda s: jax.lax.scan(step, s, keys))(state)
    assert (end.scales > 0).all()
    assert (means[1:, 0] != means[:-1, 0]).all()
    assert has_stopped(end, jnp.array([1.0, 0.0]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
@KINDS
def test_what_is_not_finite_is_only_counted(separable, bad):
    state = init_cma(jnp.zeros(2), 0.1, separable=separable)
    samples = jnp.zeros((4, 2)).at[0, 0].set(bad)
    after = update(state, samples, jnp.arange(4), 2)
    assert_same(after, state._replace(num_evaluations=after.num_evaluations))
    assert after.num_evaluations == 4
    # Only parents matter.
    after = update(state, samples, jnp.arange(4)[::-1], 2)
    assert not np.array_equal(after.covariance, state.covariance)


def test_an_outlier_multiplies_the_step_size_by_e_at_most():
    state = init_cma(jnp.zeros(2), 0.5)
    after = update(state, jnp.full((1, 2), 1e4), jnp.array([0]), 1)
    np.testing.assert_allclose(after.sigma, 0.5 * np.e, rtol=1e-6)


def test_a_singular_covariance_has_positive_scales():
    """Rank one in single precision: other eigenvalues are rounding."""
    dim = 40
    v = jax.random.normal(jax.random.key(0), (dim,))
    root = jnp.zeros((dim, dim)).at[:, 0].set(v)
    state = init_cma(jnp.zeros(dim), 1.0)._replace(root=root)
    np.testing.assert_allclose(state.covariance, np.outer(v, v), rtol=1e-6)
    scales = update(state, jnp.zeros((2, dim)), jnp.arange(2), 1).scales
    epsilon = np.finfo(np.float32).eps
    assert (scales[:-1] >= 0.99 * epsilon * scales[-1]).all()
    assert (scales[:-1] <= 20 * epsilon * scales[-1]).all()


def test_condition_numbers_beyond_single_precision():
    """An ellipsoid turned in space, axes 1 to 1e6: one update keeps them all."""
    dim = 6
    turn = ortho_group.rvs(dim, random_state=0)
    axes = np.logspace(0, 6, dim)
    root = jnp.asarray(turn * axes @ ortho_group.rvs(dim, random_state=1), jnp.float32)
    state = init_cma(jnp.zeros(dim), 1.0)._replace(root=root)
    after = update(state, jnp.zeros((2, dim)), jnp.arange(2), 1)
    kept = np.sqrt(1 - 2 / ((dim + 1.3) ** 2 + 1))
    np.testing.assert_allclose(after.scales, kept * axes, rtol=0.3)
    assert not has_stopped(after, jnp.array([1.0, 0.0]))
    assert np.linalg.eigvalsh(np.asarray(state.covariance)).min() < -1


@KINDS
def test_single_precision_is_kept_among_doubles(x64, separable):
    state = init_cma(jnp.zeros(2, jnp.float32), 0.5, separable=separable)
    samples = sample_cma(state, jax.random.key(0), 4)
    after = update(state, samples, jnp.arange(4), 2)
    for new, old in zip(jax.tree.leaves(after), jax.tree.leaves(state), strict=True):
        assert new.dtype == old.dtype


@pytest.mark.parametrize(
    ("scale_range", "sigma", "values", "expected"),
    [
        ([1.0, 1.0], 1.0, [2.0, 1.0], False),
        ([1.0, 0.9e7], 1.0, [2.0, 1.0], False),
        ([1.0, 1.1e7], 1.0, [2.0, 1.0], True),
        ([0.1, 0.1], 1.1e-10, [2.0, 1.0], False),
        ([0.1, 0.1], 0.9e-10, [2.0, 1.0], True),
        ([1.0, 1.0], 1.0, [1.0, 5.0, 1.0], True),
        ([1.0, 1.0], 1.0, [7.0], False),
        ([1.0, 1.0], 1.0, [[1.0, 7.0], [0.0, 7.0]], False),
        ([1.0, 1.0], 1.0, [[1.0, 7.0], [1.0, 7.0]], True),
        ([1.0, 1.0], 1.0, [[jnp.inf, 7.0], [jnp.inf, 6.0]], False),
    ],
)
def test_stopping(scale_range, sigma, values, expected):
    state = init_cma(jnp.zeros(2), sigma, separable=True)
    state = state._replace(scale_range=jnp.array(scale_range))
    assert bool(has_stopped(state, jnp.array(values))) == expected


@pytest.mark.parametrize(("ratio", "expected"), [(2e6, False), (2.2e6, True)])
def test_a_matrix_is_degenerate_at_a_quarter_of_its_precision(ratio, expected):
    state = init_cma(jnp.zeros(2), 1.0)
    state = state._replace(scale_range=jnp.array([1.0, ratio]))
    assert bool(has_stopped(state, jnp.array([2.0, 1.0]))) == expected


def test_wrong_arguments():
    with pytest.raises(
        ValueError, match=r"sigma must be positive and finite; got -1.0"
    ):
        init_cma(jnp.zeros(2), -1.0)
    with pytest.raises(
        ValueError, match="num_samples must be a whole number at least 1"
    ):
        sample_cma(init_cma(jnp.zeros(2), 1.0), jax.random.key(0), 0)
