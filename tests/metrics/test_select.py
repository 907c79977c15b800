import itertools

import jax.numpy as jnp
import numpy as np
import pytest

import softqd
from softqd.metrics import _select
from softqd.metrics._soft_qd import base_points, mixture_points


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
