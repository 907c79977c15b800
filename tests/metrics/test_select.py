import dataclasses
import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import KDTree

import softqd
from softqd.metrics import _select, default_sigma, selection_sigma
from softqd.metrics._soft_qd import base_points, mixture_points
from softqd.ops.units import units_of


def population(seed, n=9, d=2):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.1, 2.0, n), rng.random((n, d))


def kept_light(quality, behavior, sigma, rows, seed=0, num_samples=512):
    """The score of a subset on the points that `select` uses."""
    q, b = jnp.asarray(quality), jnp.asarray(behavior)
    picks, normals = (
        jnp.asarray(x, b.dtype) for x in base_points(b.shape[1], num_samples, seed)
    )
    x = np.asarray(mixture_points(q, b, sigma, picks, normals), float)
    bumps = quality * np.exp(-((x[:, None] - behavior) ** 2).sum(-1) / (2 * sigma**2))
    return (bumps[:, rows].max(1) / bumps.sum(1)).sum()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("size", [1, 2, 4])
def test_keeps_the_guaranteed_share_of_the_optimum(seed, size):
    quality, behavior = population(seed)
    chosen = softqd.select(quality, behavior, size, 0.2, num_samples=512)
    greedy = kept_light(quality, behavior, 0.2, chosen)
    best = max(
        kept_light(quality, behavior, 0.2, list(rows))
        for rows in itertools.combinations(range(9), size)
    )
    assert greedy >= (1 - 1 / np.e) * best
    if size == 1:
        np.testing.assert_allclose(greedy, best)


def test_lazy_equals_plain_greedy():
    quality, behavior = population(3, n=40, d=3)
    chosen = softqd.select(quality, behavior, 10, 0.3, num_samples=512)
    rows = []
    for _ in range(10):
        others = [i for i in range(40) if i not in rows]
        rows.append(
            max(others, key=lambda i: kept_light(quality, behavior, 0.3, [*rows, i]))
        )
    assert chosen.tolist() == rows


def test_share_grows_to_one_and_order_is_best_first():
    quality, behavior = population(1, n=20)
    shares = [
        softqd.select(quality, behavior, k, 0.2, return_share=True)[1]
        for k in (1, 5, 20)
    ]
    assert shares == sorted(shares)
    np.testing.assert_allclose(shares[-1], 1.0, rtol=1e-5)
    all_of_them = softqd.select(quality, behavior, 20, 0.2)
    assert sorted(all_of_them.tolist()) == list(range(20))
    assert softqd.select(quality, behavior, 5, 0.2).tolist() == all_of_them[:5].tolist()


def test_equal_members_come_in_order():
    chosen = softqd.select(np.ones(4), np.zeros((4, 2)), 4, 0.3)
    assert chosen.tolist() == [0, 1, 2, 3]


def test_dark_members_come_last():
    chosen = softqd.select(np.array([0.0, 1.0, 0.0]), np.zeros((3, 1)), 3, 0.3)
    assert chosen.tolist() == [1, 0, 2]
    nothing, share = softqd.select(
        np.zeros(2), np.zeros((2, 1)), 1, 0.3, return_share=True
    )
    assert nothing.tolist() == [0]
    assert share == 1.0


def test_share_is_that_of_the_score():
    quality, behavior = population(2, n=60, d=2)
    chosen, share = softqd.select(quality, behavior, 15, 0.1, return_share=True)
    whole = softqd.soft_qd_score(quality, behavior, 0.1)
    part = softqd.soft_qd_score(quality[chosen], behavior[chosen], 0.1)
    np.testing.assert_allclose(share, part.value / whole.value, rtol=0.02)


@pytest.mark.parametrize("size", [0, 4, 1.5])
def test_bad_size(size):
    with pytest.raises(ValueError, match="size must be a whole number between 1 and 3"):
        softqd.select(np.ones(3), np.zeros((3, 1)), size, 0.1)


def test_chunks_do_not_matter(monkeypatch):
    quality, behavior = population(4, n=30)
    whole = softqd.select(quality, behavior, 6, 0.2)
    monkeypatch.setattr(_select, "MAX_ENTRIES", 2000)
    _select._sums.clear_cache()
    assert softqd.select(quality, behavior, 6, 0.2).tolist() == whole.tolist()
    _select._sums.clear_cache()


# --- the default width --------------------------------------------------------------


def mean_nearest(behavior):
    return KDTree(behavior).query(behavior, 2)[0][:, 1].mean()


@pytest.mark.parametrize(("n", "d"), [(512, 2), (512, 4), (1024, 8)])
@pytest.mark.parametrize("size", [5, 20, 100])
def test_equal_members_are_chosen_far_apart(n, d, size):
    rng = np.random.default_rng(d)
    behavior = rng.random((n, d))
    draws = [rng.choice(n, size, replace=False) for _ in range(20)]
    random = np.mean([mean_nearest(behavior[rows]) for rows in draws])
    chosen = softqd.select(np.ones(n), behavior, size)
    assert mean_nearest(behavior[chosen]) > 1.25 * random


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_units_of_behavior_do_not_matter_to_the_default(scale):
    quality, behavior = population(4, n=40)
    assert (
        softqd.select(quality, scale * behavior, 6).tolist()
        == softqd.select(quality, behavior, 6).tolist()
    )


def test_the_width_is_half_of_what_sets_members_apart():
    line, ones = np.arange(5.0)[:, None], np.ones(5)
    # From the middle, 2, to the ends, then between: 1 and 3, as far as 1 from others.
    widths = [selection_sigma(ones, line, k) for k in range(1, 6)]
    assert widths == [1.0, 1.0, 1.0, 0.5, 0.5]
    assert selection_sigma(np.array([1.0, 1, 0, 0, 0]), line, 2) == 0.5  # dark ones
    same = np.zeros((3, 2))
    assert selection_sigma(np.ones(3), same, 2) == default_sigma(2)
    twice = np.array([[0.0], [0.0], [4.0]])
    assert selection_sigma(np.ones(3), twice, 3) == 2.0
    assert softqd.select(np.ones(3), same, 3).tolist() == [0, 1, 2]


# --- results and populations --------------------------------------------------------


def found_at(quality, behavior, occupied=None):
    n = len(quality)
    occupied = np.ones(n, bool) if occupied is None else occupied
    return softqd.Population({"x": np.arange(n)}, quality, behavior, occupied)


def test_a_population_gives_a_population():
    quality, behavior = population(2, n=30)
    occupied = np.arange(30) % 3 > 0
    chosen = softqd.select(found_at(quality, behavior, occupied), 4)
    assert isinstance(chosen, softqd.Population)
    rows = chosen.solutions["x"]
    assert occupied[rows].all()
    np.testing.assert_array_equal(chosen.behavior, behavior[rows])
    low, high = units_of(None, behavior[occupied])
    unit = (behavior[occupied] - low) / np.subtract(high, low)
    expected = np.flatnonzero(occupied)[softqd.select(quality[occupied], unit, 4)]
    assert rows.tolist() == expected.tolist()


def test_a_result_brings_its_level_and_its_units():
    # In units of the second behavior, ten times as long, 0 and 1 are far apart.
    behavior = np.array([[0.0, 0.0], [0.1, 9.0], [1.0, 0.0]])
    found = found_at(np.array([-1.0, -2.0, -3.0]), behavior)
    result = softqd.Result(found, {}, quality_level=-4.0)
    near, far = [[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, 100.0]]
    for bounds, rows in ((near, [0, 1]), (far, [0, 2])):
        chosen = softqd.select(result, 2, sigma=0.2, bounds=bounds)
        assert chosen.solutions["x"].tolist() == rows
        own = dataclasses.replace(result, behavior_units=bounds)
        chosen, share = softqd.select(own, size=2, sigma=0.2, return_share=True)
        assert chosen.solutions["x"].tolist() == rows
        assert 0 < share < 1
    dark = softqd.select(result, 1, level=-0.5)  # nobody shines
    assert len(dark) == 1


def test_sizes_and_populations_that_cannot_be_used():
    found = found_at(*population(2, n=5))
    for wrong in (6, 0, None, 2.5):
        with pytest.raises(ValueError, match="size must be a whole number between 1"):
            softqd.select(found, wrong)
    with pytest.raises(ValueError, match="the population is empty"):
        softqd.select(found[:0], 1)
    with pytest.raises(ValueError, match="quality must be finite"):
        softqd.select(found_at(np.full(5, np.nan), found.behavior), 1)
