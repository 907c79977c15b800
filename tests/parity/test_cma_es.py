"""Against pyribs' CMA-ES; it comes with the extra 'parity'.

In double precision, so that equal means equal; runs use single precision.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from softqd.ops.cma_es import has_stopped, init_cma, sample_cma, update_cma

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    # pyribs' gap for a single sample.
    pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning"),
]

KINDS = pytest.mark.parametrize("separable", [False, True], ids=["full", "separable"])


def make_pyribs(separable, mean, sigma, batch_size):
    """An optimizer of pyribs at its start."""
    opt = pytest.importorskip("ribs.emitters.opt")
    kind = opt.SeparableCMAEvolutionStrategy if separable else opt.CMAEvolutionStrategy
    theirs = kind(sigma0=sigma, solution_dim=len(mean), batch_size=batch_size, seed=0)
    theirs.reset(mean)
    return theirs


def tell(theirs, samples, order, num_parents):
    theirs.ask()  # Decomposes the covariance; its samples are replaced by ours.
    theirs._solutions = np.asarray(samples)
    theirs.tell(np.asarray(order), np.zeros(len(samples)), num_parents)


def assert_equal(ours, theirs):
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(ours.sigma, theirs.sigma, rtol=1e-8)
    np.testing.assert_allclose(ours.path, theirs.pc, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(ours.sigma_path, theirs.ps, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(ours.covariance, theirs.cov.cov, rtol=1e-8, atol=1e-12)
    assert ours.num_evaluations == theirs.current_eval


def run_both(separable, dim, batch_size, parents, sigma=0.7):
    """Both optimizers, step by step, on the same samples."""
    rng = np.random.default_rng(dim)
    mean = rng.normal(size=dim)
    ours = init_cma(jnp.asarray(mean), sigma, separable=separable)
    theirs = make_pyribs(separable, mean, sigma, batch_size)
    update = jax.jit(functools.partial(update_cma, pyribs_quirks=True))
    keys = jax.random.split(jax.random.key(0), len(parents))
    for key, num_parents in zip(keys, parents, strict=True):
        samples = sample_cma(ours, key, batch_size)
        # A slope along one axis: a long path, with h_sigma 0 and 1.
        order = jnp.argsort(samples[:, 0] + 0.1 * (samples**2).sum(1))
        ours = update(ours, samples, order, num_parents)
        tell(theirs, samples, order, num_parents)
        yield ours, theirs


@KINDS
@pytest.mark.parametrize(("dim", "num_parents"), [(1, 3), (5, 1), (17, 18), (17, 36)])
def test_one_step(x64, separable, dim, num_parents):
    ((ours, theirs),) = run_both(separable, dim, 36, [num_parents])
    assert_equal(ours, theirs)


@KINDS
@pytest.mark.parametrize(
    ("dim", "batch_size"), [(1, 6), (3, 1), (5, 8), (17, 36), (30, 4)]
)
def test_steps_with_varying_numbers_of_parents(x64, separable, dim, batch_size):
    parents = np.random.default_rng(0).integers(0, batch_size + 1, 30).tolist()
    waited = False
    for ours, theirs in run_both(separable, dim, batch_size, parents):
        assert_equal(ours, theirs)
        waited |= bool(ours.decomposed_at < ours.num_evaluations)
    if not separable:
        theirs.ask()
        np.testing.assert_allclose(ours.scales**2, theirs.cov.eigenvalues, rtol=1e-8)
        assert ours.decomposed_at == theirs.cov.updated_eval
        assert waited == (theirs.lazy_gap_evals >= batch_size)


@KINDS
def test_the_length_of_the_path_takes_both_sides(x64, separable):
    """The run above means little unless h_sigma was both 0 and 1."""
    is_short = set()
    for ours, theirs in run_both(separable, 5, 8, [4] * 60):
        assert_equal(ours, theirs)
        n, cs = 5, (2.6 + 2) / (5 + 2.6 + 5)
        settled = 1 - (1 - cs) ** (2 * theirs.current_eval / 8)
        is_short.add(bool(np.sum(theirs.ps**2) / n / settled < 2 + 4 / (n + 1)))
    assert is_short == {False, True}


@KINDS
@pytest.mark.parametrize(
    "values",
    [
        [3.0, 2.0, 1.0],
        [2.0, 2.0, 2.0],
        [1e-13, 0.0, 0.0],
        [5.0],
        [[1.0, 4.0], [0.0, 4.0]],
        [[1.0, 4.0], [1.0, 4.0]],
    ],
)
def test_stop_by_ranking_values(x64, separable, values):
    ours = init_cma(jnp.zeros(2), 1.0, separable=separable)
    theirs = make_pyribs(separable, np.zeros(2), 1.0, 3)
    expected = theirs.check_stop(np.array(values))
    assert bool(has_stopped(ours, jnp.array(values))) == expected


@KINDS
@pytest.mark.parametrize(("shrink", "is_degenerate"), [(1.0, True), (0.8, False)])
def test_stop_at_the_same_step(x64, separable, shrink, is_degenerate):
    """Samples on a line: it flattens the covariance, or shrinks the step size first."""
    values = np.array([2.0, 1.0])
    ours = init_cma(jnp.zeros(2), 1.0, separable=separable)
    theirs = make_pyribs(separable, np.zeros(2), 1.0, 4)
    update = jax.jit(functools.partial(update_cma, pyribs_quirks=True))
    for step in range(2000):
        samples = np.array([[1.0, 0.0], [-1.0, 0.0], [2.0, 0.0], [0.0, 0.0]])
        samples = samples * shrink**step
        ours = update(ours, jnp.asarray(samples), jnp.arange(4), 2)
        tell(theirs, samples, np.arange(4), 2)
        has_theirs_stopped = theirs.check_stop(values)
        assert bool(has_stopped(ours, jnp.asarray(values))) == has_theirs_stopped
        if has_theirs_stopped:
            break
    assert 10 < step < 1999
    assert (theirs.cov.condition_number > 1e14) == is_degenerate
