"""The Soft QD Score against closed forms, quadrature and itself."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import integrate
from scipy.stats import norm

import softqd
from softqd import metrics
from softqd.metrics._soft_qd import bump_volume


def random_population(seed, n=6, d=2, spread=1.0):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.2, 3.0, n), spread * rng.random((n, d))


def light(x, quality, behavior, sigma):
    dist_sq = ((np.asarray(x) - behavior) ** 2).sum(1)
    return (quality * np.exp(-dist_sq / (2 * sigma**2))).max()


def quadrature(quality, behavior, sigma, box=None):
    """Adaptive integration of the definition, Eq. (3)."""
    reach = 8 * sigma
    low = behavior.min(0) - reach if box is None else np.full(behavior.shape[1], box[0])
    high = (
        behavior.max(0) + reach if box is None else np.full(behavior.shape[1], box[1])
    )
    value = lambda x: np.array([light(p, quality, behavior, sigma) for p in x])  # noqa: E731
    result = integrate.cubature(value, low, high, rtol=2e-4, max_subdivisions=4000)
    return float(result.estimate)


def assert_within(estimate, expected, slack=0.0):
    """Within 4.5 standard errors: one test in 100,000 would miss by chance."""
    assert abs(estimate.value - expected) <= 4.5 * estimate.stderr + slack


# --- closed forms -------------------------------------------------------------------


@pytest.mark.usefixtures("optimized_programs")
@pytest.mark.parametrize("d", [1, 2, 16, 64])
def test_one_solution(d):
    found = softqd.soft_qd_score([2.5], np.zeros((1, d)), 0.4)
    np.testing.assert_allclose(
        found.value, 2.5 * (2 * np.pi * 0.16) ** (d / 2), rtol=1e-6
    )
    assert found.stderr == 0.0


@pytest.mark.parametrize("d", [1, 5, 64])
def test_far_apart_solutions_add_up(d):
    behavior = 50.0 * np.arange(4)[:, None] * np.ones((1, d))
    found = softqd.soft_qd_score([1.0, 2.0, 3.0, 4.0], behavior, 0.5)
    np.testing.assert_allclose(found.value, 10.0 * bump_volume(0.5, d), rtol=1e-6)


def test_duplicates_score_as_the_best_of_them():
    found = softqd.soft_qd_score([1.0, 4.0, 2.0], np.full((3, 3), 0.7), 0.2)
    np.testing.assert_allclose(found.value, 4.0 * bump_volume(0.2, 3), rtol=1e-5)


@pytest.mark.parametrize("d", [1, 2, 8, 32, 64])
@pytest.mark.parametrize("distance", [0.3, 1.5])
def test_any_two_solutions(d, distance):
    f_i, f_j, sigma = 1.0, 2.7, 0.6
    behavior = np.zeros((2, d))
    behavior[1] = distance / np.sqrt(d)
    t = sigma / distance * np.log(f_i / f_j)
    half = distance / (2 * sigma)
    overlap = f_i * norm.cdf(-half - t) + f_j * norm.cdf(-half + t)
    expected = bump_volume(sigma, d) * (f_i + f_j - overlap)
    assert_within(softqd.soft_qd_score([f_i, f_j], behavior, sigma), expected)
    exact = softqd.lower_bound([f_i, f_j], behavior, sigma, pairs="exact")
    np.testing.assert_allclose(exact, expected, rtol=1e-5)


def test_zero_quality_contributes_nothing():
    quality, behavior = random_population(0)
    with_dark = softqd.soft_qd_score(
        np.append(quality, 0.0), np.vstack([behavior, [9.0, 9.0]]), 0.2
    )
    np.testing.assert_allclose(
        with_dark.value, softqd.soft_qd_score(quality, behavior, 0.2).value, rtol=1e-5
    )
    dark = softqd.soft_qd_score([0.0, 0.0], np.zeros((2, 2)), 0.2)
    assert dark == (0.0, 0.0)


# --- quadrature ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("d", "sigma"),
    [
        (1, 0.1),
        (1, 0.5),
        (2, 0.15),
        (2, 0.6),
        pytest.param(3, 0.4, marks=pytest.mark.slow),
    ],
)
def test_against_adaptive_quadrature(d, sigma):
    quality, behavior = random_population(d, n=5, d=d)
    expected = quadrature(quality, behavior, sigma)
    found = softqd.soft_qd_score(quality, behavior, sigma, num_samples=2**16)
    assert_within(found, expected, slack=5e-4 * expected)
    assert found.stderr < 0.005 * found.value


@pytest.mark.parametrize("d", [1, 2])
def test_box_against_adaptive_quadrature(d):
    quality, behavior = random_population(d + 10, n=4, d=d)
    expected = quadrature(quality, behavior, 0.3, box=(0.0, 1.0))
    found = softqd.soft_qd_score(
        quality, behavior, 0.3, bounds=(0.0, 1.0), num_samples=2**16
    )
    assert_within(found, expected, slack=5e-4 * expected)
    assert found.value < softqd.soft_qd_score(quality, behavior, 0.3).value


@pytest.mark.parametrize("d", [1, 2])
def test_gradient_against_finite_differences_of_the_quadrature(d):
    quality, behavior = random_population(d + 20, n=4, d=d)
    sigma, step = 0.3, 1e-3
    score = lambda f, b: softqd.soft_qd_score(f, b, sigma, num_samples=2**17).value  # noqa: E731
    g_f, g_b = jax.grad(score, (0, 1))(jnp.asarray(quality), jnp.asarray(behavior))
    exact = fine_integral if d == 1 else functools.partial(fine_integral, points=1200)
    for i in range(4):
        e = step * np.eye(4)[i]
        numeric = exact(quality + e, behavior, sigma) - exact(
            quality - e, behavior, sigma
        )
        np.testing.assert_allclose(g_f[i], numeric / (2 * step), rtol=0.02, atol=2e-3)
        e = np.zeros((4, d))
        e[i, -1] = step
        numeric = exact(quality, behavior + e, sigma) - exact(
            quality, behavior - e, sigma
        )
        np.testing.assert_allclose(
            g_b[i, -1], numeric / (2 * step), rtol=0.02, atol=2e-2
        )


def fine_integral(quality, behavior, sigma, points=200_000):
    """A dense grid: smooth in the parameters, so that differences make sense."""
    d = behavior.shape[1]
    side = np.linspace(-2.5, 3.5, points)
    grid = np.stack(np.meshgrid(*[side] * d, indexing="ij"), -1).reshape(-1, d)
    best = np.zeros(len(grid))
    for f, b in zip(quality, behavior, strict=True):
        dist_sq = ((grid - b) ** 2).sum(1)
        best = np.maximum(best, f * np.exp(-dist_sq / (2 * sigma**2)))
    return best.sum() * (side[1] - side[0]) ** d


def test_gradient_of_a_dark_solution_is_finite():
    gradient = jax.grad(
        lambda f: softqd.soft_qd_score(f, jnp.zeros((2, 1)), 0.5, num_samples=64).value
    )(jnp.array([0.0, 1.0]))
    assert np.isfinite(gradient).all()
    assert gradient[0] == 0.0


# --- error estimate -----------------------------------------------------------------


@pytest.mark.parametrize(("d", "sigma"), [(2, 0.3), (8, 0.5)])
def test_stated_interval_covers(d, sigma):
    """1000 repeats; 93% to 97%, where 95% of the truth is stated."""
    quality, behavior = random_population(d, n=10, d=d)
    truth = softqd.soft_qd_score(
        quality, behavior, sigma, seed=999_999, num_samples=2**21
    )
    covered = 0
    for seed in range(1000):
        found = softqd.soft_qd_score(
            quality, behavior, sigma, seed=seed, num_samples=2**11
        )
        low, high = found.interval(0.95)
        covered += low <= truth.value <= high
    assert 930 <= covered <= 970


def test_relative_error_is_reached():
    quality, behavior = random_population(3, n=50, d=6)
    found = softqd.soft_qd_score(quality, behavior, 0.6, num_samples=64, rel_error=1e-3)
    assert found.stderr <= 1e-3 * found.value


def test_same_seed_same_value_other_seed_other_value():
    quality, behavior = random_population(4)
    a, b, c = (softqd.soft_qd_score(quality, behavior, 0.4, seed=s) for s in (1, 1, 2))
    assert a == b
    assert a != c


def test_quasi_random_points_beat_plain_sampling():
    quality, behavior = random_population(5, n=20, d=2)
    estimate = softqd.soft_qd_score(quality, behavior, 0.2, num_samples=2**13)
    rng = np.random.default_rng(0)
    chosen = rng.choice(20, 2**13, p=quality / quality.sum())
    x = behavior[chosen] + 0.2 * rng.normal(size=(2**13, 2))
    bumps = quality * np.exp(-((x[:, None] - behavior) ** 2).sum(-1) / (2 * 0.04))
    ratio = bumps.max(1) / bumps.sum(1)
    plain = ratio.std() / np.sqrt(2**13) * quality.sum() * bump_volume(0.2, 2)
    assert estimate.stderr < 0.5 * plain


# --- width --------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 16])
def test_default_sigma_gives_a_bump_one_of_1024_cells(d):
    np.testing.assert_allclose(bump_volume(metrics.default_sigma(d), d), 1 / 1024)
    box = metrics.default_sigma(d, (-1.0, 3.0))
    np.testing.assert_allclose(box, 4 * metrics.default_sigma(d))
    quality, behavior = random_population(d, d=d)
    assert softqd.soft_qd_score(quality, behavior) == softqd.soft_qd_score(
        quality, behavior, metrics.default_sigma(d)
    )


def test_unbounded_space_has_no_default_sigma():
    with pytest.raises(ValueError, match="an unbounded space has no default sigma"):
        metrics.default_sigma(2, (0.0, np.inf))


@pytest.mark.parametrize(
    ("quality", "behavior", "options", "message"),
    [
        (
            [1.0, -1.0],
            np.zeros((2, 1)),
            {},
            "the smallest is -1. Pass level=, a lower bound",
        ),
        ([1.0], np.zeros((2, 1)), {}, r"with the same n; got \(1,\) and \(2, 1\)"),
        ([], np.zeros((0, 2)), {}, "the population is empty"),
        ([np.nan], np.zeros((1, 2)), {}, "quality must be finite"),
        ([1.0], np.full((1, 2), np.inf), {}, "behavior must be finite"),
        ([1.0], np.zeros((1, 2)), {"sigma": 0.0}, "sigma must be positive and finite"),
        ([1.0], np.zeros((1, 2)), {"num_samples": 0}, "num_samples must be a whole"),
        ([1.0], np.zeros((1, 2)), {"rel_error": -1}, "rel_error must be positive"),
    ],
)
def test_bad_input(quality, behavior, options, message):
    with pytest.raises(ValueError, match=message):
        softqd.soft_qd_score(quality, behavior, **{"sigma": 0.3, **options})


def test_a_level_is_subtracted():
    quality, behavior = random_population(3, n=6, d=2)
    point = behavior[:1]
    for score in (
        lambda q, **level: softqd.soft_qd_score(q, behavior, 0.3, **level).value,
        lambda q, **level: softqd.lower_bound(q, behavior, 0.3, **level),
        lambda q, **level: softqd.squad_objective(q, behavior, 0.3, **level),
        lambda q, **level: softqd.behavior_value(point, q, behavior, 0.3, **level),
        lambda q, **level: metrics.quality_vendi_score(q, behavior, **level),
        lambda q, **level: metrics.qd_score(q, behavior, behavior, **level),
    ):
        np.testing.assert_allclose(
            score(quality - 50.0, level=-50.0), score(quality), rtol=1e-4
        )
    with pytest.raises(ValueError, match="above its level"):
        softqd.lower_bound(quality, behavior, 0.3, level=quality.min() + 1.0)


# --- bounds and properties ----------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@example(seed=1024, d=5, sigma=0.06640625)  # no sample meets the one overlap
@given(st.integers(0, 10**9), st.integers(1, 5), st.floats(0.05, 2.0))
def test_bounds_hold_on_random_populations(seed, d, sigma):
    quality, behavior = random_population(seed, n=8, d=d)
    score = softqd.soft_qd_score(quality, behavior, sigma, num_samples=2**11)
    published = float(softqd.lower_bound(quality, behavior, sigma))
    exact = float(softqd.lower_bound(quality, behavior, sigma, pairs="exact"))
    triples = float(metrics.truncation_error(quality, behavior, sigma))
    pairs = float(metrics.overlap_error(quality, behavior, sigma))
    scale = 1e-4 * quality.sum() * bump_volume(sigma, d)
    noise = 6 * score.stderr + scale
    assert published <= exact + scale
    assert exact <= score.value + noise
    assert score.value - exact <= triples + noise
    assert exact - published <= pairs + scale
    objective = float(softqd.squad_objective(quality, behavior, 8 * sigma**2))
    np.testing.assert_allclose(
        published, bump_volume(sigma, d) * objective, rtol=1e-4, atol=scale
    )


def test_gap_shrinks_as_solutions_spread():
    quality, behavior = random_population(7, n=12, d=2)
    gaps = []
    for spread in (1.0, 3.0, 10.0, 100.0):
        score = softqd.soft_qd_score(quality, spread * behavior, 0.3).value
        bound = float(
            softqd.lower_bound(quality, spread * behavior, 0.3, pairs="exact")
        )
        gaps.append((score - bound) / score)
    assert gaps[0] > gaps[1] > gaps[2]
    assert abs(gaps[3]) < 1e-5


def test_narrow_light_gives_the_sum_of_qualities():
    """Theorem 6."""
    quality, behavior = random_population(8, n=10, d=3)
    shares = [
        softqd.soft_qd_score(quality, behavior, sigma).value / bump_volume(sigma, 3)
        for sigma in (0.3, 0.1, 0.02, 0.003)
    ]
    assert shares == sorted(shares)
    np.testing.assert_allclose(shares[-1], quality.sum(), rtol=1e-4)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**9))
def test_monotone_and_submodular_on_common_points(seed):
    quality, behavior = random_population(seed, n=8, d=2)
    points = np.random.default_rng(seed).random((300, 2))
    value = lambda rows: float(  # noqa: E731
        np.asarray(
            metrics.behavior_value(points, quality[rows], behavior[rows], 0.2), float
        ).sum()
    )
    small, large, new = [0, 1], [0, 1, 2, 3, 4], 7
    assert value(large) >= value(small)
    gain_small = value([*small, new]) - value(small)
    gain_large = value([*large, new]) - value(large)
    assert gain_small >= gain_large - 1e-4
    better = quality.copy()
    better[1] += 1.0
    raised = metrics.behavior_value(points, better, behavior, 0.2).sum()
    assert raised >= metrics.behavior_value(points, quality, behavior, 0.2).sum() - 1e-4


def test_third_order_term_is_the_sum_over_triples():
    quality, behavior = random_population(9, n=6, d=2)
    total, sigma = 0.0, 0.5
    for i in range(6):
        for j in range(i):
            for k in range(j):
                squares = sum(
                    ((behavior[a] - behavior[b]) ** 2).sum()
                    for a, b in ((i, j), (j, k), (i, k))
                )
                root = (quality[i] * quality[j] * quality[k]) ** (1 / 3)
                total += root * np.exp(-squares / (18 * sigma**2))
    found = metrics.truncation_error(quality, behavior, sigma)
    np.testing.assert_allclose(found, bump_volume(sigma, 2) * total, rtol=1e-5)


def test_unknown_kind_of_pairs():
    with pytest.raises(
        ValueError, match="pairs must be 'geometric' or 'exact'; got 'x'"
    ):
        softqd.lower_bound([1.0], np.zeros((1, 1)), 1.0, pairs="x")
