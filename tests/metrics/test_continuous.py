import numpy as np
import pytest

from softqd import metrics


def test_two_solutions_by_hand():
    quality, behavior = np.array([4.0, 8.0]), np.array([[0.0, 0.0], [1.0, 1.0]])
    targets = np.array([[[0.0, 0.0]], [[1.0, 0.0]]])
    found = metrics.continuous_qd_score(
        quality, behavior, (0.0, 10.0), penalties=[0.0, 0.5, 2.0], targets=targets
    )
    # Distances as shares of the diagonal: (0, 1), then (r, r) with r = 1 / sqrt(2).
    r = 0.5**0.5
    first = 0.8 + max(0.4, 0.8 - 0.5) + max(0.4, 0.8 - 2.0)
    second = 0.8 + (0.8 - 0.5 * r) + (0.8 - 2 * r)
    np.testing.assert_allclose(found.scores, [first, second], rtol=1e-6)
    np.testing.assert_allclose(found.value, (first + second) / 2, rtol=1e-6)
    np.testing.assert_allclose(found.stderr, abs(first - second) / 2, rtol=1e-6)


@pytest.mark.parametrize(("order", "length"), [(1, 0.7), (2, 0.5), (np.inf, 0.4)])
def test_order_of_the_norm_and_its_diagonal(order, length):
    found = metrics.continuous_qd_score(
        np.array([1.0]),
        np.zeros((1, 2)),
        (0.0, 1.0),
        penalties=[1.0],
        targets=np.array([[[0.3, 0.4]]]),
        order=order,
    )
    diagonal = {1: 2.0, 2: 2**0.5, np.inf: 1.0}[order]
    np.testing.assert_allclose(found.value, 1 - length / diagonal, rtol=1e-6)
    assert np.isnan(found.stderr)


def test_without_penalty_every_target_gets_the_best():
    rng = np.random.default_rng(0)
    quality, behavior = rng.uniform(-3, 2, 50), rng.random((50, 3))
    found = metrics.continuous_qd_score(
        quality, behavior, (-3.0, 2.0), penalties=1, num_targets=7, num_iterations=3
    )
    np.testing.assert_allclose(found.scores, 7 * quality.max() / 5.0, rtol=1e-6)


def test_random_targets_average_the_distance_to_the_center():
    """One solution at the center of the square, all penalties 1: mean distance known.

    The mean distance from the center of the unit square is
    (sqrt(2) + log(1 + sqrt(2))) / 6.
    """
    found = metrics.continuous_qd_score(
        np.array([1.0]),
        np.full((1, 2), 0.5),
        (0.0, 1.0),
        penalties=[1.0],
        max_distance=1.0,
        num_targets=1000,
        num_iterations=50,
    )
    expected = 1000 * (1 - (2**0.5 + np.log(1 + 2**0.5)) / 6)
    assert abs(found.value - expected) < 4 * found.stderr < 0.01 * expected
    again = metrics.continuous_qd_score(
        np.array([1.0]), np.full((1, 2), 0.5), (0.0, 1.0), seed=1
    )
    assert (
        again.value
        != metrics.continuous_qd_score(
            np.array([1.0]), np.full((1, 2), 0.5), (0.0, 1.0), seed=2
        ).value
    )


def test_chunks_do_not_change_the_score(monkeypatch):
    rng = np.random.default_rng(1)
    data = rng.random(30), rng.random((30, 2)), (0.0, 1.0)
    whole = metrics.continuous_qd_score(*data, num_targets=13).scores
    monkeypatch.setattr("softqd.ops.distances.MAX_ENTRIES", 120)
    # Another shape, so that the function is compiled anew.
    chunked = metrics.continuous_qd_score(*data, num_targets=13, num_iterations=9)
    np.testing.assert_allclose(chunked.scores, whole[:9], rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quality_bounds": (1.0, 1.0)}, "quality_bounds must be finite, low before"),
        ({"quality": np.ones(2)}, r"hold 3 finite values.*got shape \(2,\)"),
        ({"quality": np.array([1, np.nan, 1])}, "3 finite values"),
        ({"penalties": 0}, "penalties must be a whole number at least 1; got 0"),
        ({"penalties": [[1.0]]}, r"finite values \(r,\)"),
        ({"order": 0.5}, "order must be a number of at least 1; got 0.5"),
        ({"order": "fro"}, "order must be a number"),
        ({"max_distance": 0.0}, "max_distance must be positive; got 0.0"),
        ({"targets": np.ones((5, 2))}, r"shape \(iterations, targets, 2\); got \(5, 2"),
        ({"num_targets": 0}, "num_targets must be"),
    ],
)
def test_bad_settings(settings, message):
    good = {
        "quality": np.ones(3),
        "behavior": np.zeros((3, 2)),
        "quality_bounds": (0.0, 1.0),
    }
    with pytest.raises(ValueError, match=message):
        metrics.continuous_qd_score(**{**good, **settings})
