import time

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import KDTree

import softqd
from softqd import cache, metrics


def test_vendi_of_identical_and_of_far_points():
    np.testing.assert_allclose(metrics.vendi_score(np.zeros((7, 3))), 1.0, rtol=1e-6)
    far = 100.0 * np.eye(6, dtype=np.float32)
    np.testing.assert_allclose(metrics.vendi_score(far), 6.0, rtol=1e-6)


def test_vendi_of_two_points_in_closed_form():
    # Eigenvalues (1 +- k) / 2 with k = exp(-dist^2 / (d / 6)).
    k = np.exp(-0.25 / (2 / 6))
    p = np.array([(1 + k) / 2, (1 - k) / 2])
    expected = np.exp(-(p * np.log(p)).sum())
    behavior = np.array([[0.0, 0.0], [0.5, 0.0]])
    np.testing.assert_allclose(metrics.vendi_score(behavior), expected, rtol=1e-6)


@pytest.mark.parametrize("d", [2, 8, 16])
def test_vendi_of_many_points_against_all_eigenvalues(monkeypatch, d):
    behavior = np.random.default_rng(d).random((2100, d))
    estimate = metrics.vendi_estimate(behavior)
    monkeypatch.setattr("softqd.metrics._vendi.MAX_EXACT", 10_000)
    exact = metrics.vendi_estimate(behavior)
    assert exact.stderr == 0.0
    assert abs(estimate.value - exact.value) < 4 * estimate.stderr
    assert estimate.stderr < 1e-3 * exact.value


def test_vendi_of_many_identical_points():
    found = metrics.vendi_estimate(np.full((2100, 3), 0.5))
    assert abs(found.value - 1.0) < 4 * found.stderr < 1e-3


def test_qvs_is_zero_for_a_negative_mean():
    behavior = np.array([[0.0], [1.0]])
    assert metrics.quality_vendi_score(np.array([-3.0, 1.0]), behavior) == 0.0
    positive = metrics.quality_vendi_score(np.array([1.0, 3.0]), behavior)
    np.testing.assert_allclose(positive, 2 * metrics.vendi_score(behavior))


@pytest.mark.parametrize(
    ("behavior", "message"),
    [
        (np.zeros((0, 2)), r"shape \(n, d\) with n, d >= 1; got \(0, 2\)"),
        (np.zeros(3), r"got \(3,\)"),
        (np.array([[0.0], [np.nan]]), "must be finite; row 1"),
    ],
)
def test_bad_behavior(behavior, message):
    with pytest.raises(ValueError, match=message):
        metrics.vendi_score(behavior)


def test_cells_against_a_tree():
    rng = np.random.default_rng(0)
    centroids = metrics.published_centroids(4, 512)
    behavior = rng.random((300, 4))
    expected = KDTree(centroids).query(behavior)[1]
    np.testing.assert_array_equal(metrics.cell_of(behavior, centroids), expected)


def test_published_centroids_by_size():
    assert metrics.published_centroids(16, 512).shape == (512, 16)
    assert metrics.published_centroids(5, 1024).shape == (1024, 5)
    assert metrics.published_centroids(3, 512) is None


def test_qd_score_and_coverage_by_hand():
    centroids = np.array([[0.1], [0.5], [0.9], [2.0]])
    behavior = np.array([[0.0], [0.2], [0.55], [0.8]])
    quality = np.array([1.0, 5.0, -2.0, 3.0])
    assert metrics.coverage(behavior, centroids) == 0.75
    assert metrics.qd_score(quality, behavior, centroids) == 5.0 - 2.0 + 3.0


def test_cells_of_another_dimension():
    with pytest.raises(ValueError, match="behavior has 2 dimensions, centroids have 1"):
        metrics.cell_of(np.zeros((3, 2)), np.zeros((4, 1)))


def test_behavior_value_by_hand():
    points = jnp.array([[0.0], [1.0]])
    value = metrics.behavior_value(points, [2.0, 3.0], jnp.array([[0.0], [1.0]]), 0.5)
    # exp(-1 / (2 * 0.25)) = exp(-2): the neighbor's light is 3 e^-2 < 2.
    np.testing.assert_allclose(value, [2.0, 3.0])
    between = metrics.behavior_value(jnp.array([[0.5]]), [2.0, 3.0], points, 0.5)
    np.testing.assert_allclose(between, 3.0 * np.exp(-0.5), rtol=1e-6)


def test_behavior_value_refuses_negative_light():
    with pytest.raises(ValueError, match=r"the smallest is -1\. Pass level="):
        metrics.behavior_value(
            jnp.zeros((1, 1)), jnp.array([-1.0]), jnp.zeros((1, 1)), 1.0
        )
    with pytest.raises(ValueError, match="sigma must be positive and finite; got 0"):
        metrics.behavior_value(
            jnp.zeros((1, 1)), jnp.array([1.0]), jnp.zeros((1, 1)), 0
        )


def population(quality, behavior, occupied=None):
    occupied = np.ones(len(quality), bool) if occupied is None else occupied
    return softqd.Population(np.zeros((len(quality), 1)), quality, behavior, occupied)


def test_evaluate_population_maps_bounds_and_ignores_empty_rows():
    behavior = np.array([[-10.0, 0.0], [10.0, 0.0], [np.nan, np.nan]])
    some = population(np.array([1.0, 3.0, np.nan]), behavior, np.array([1, 1, 0], bool))
    found = metrics.evaluate_population(some, (-10.0, 10.0))
    unit = np.array([[0.0, 0.5], [1.0, 0.5]])
    assert found["mean_quality"] == 2.0
    assert found["max_quality"] == 3.0
    np.testing.assert_allclose(found["vendi_score"], metrics.vendi_score(unit))
    np.testing.assert_allclose(found["qvs"], 2.0 * metrics.vendi_score(unit))
    assert found["coverage"] == 2 / 512


def test_evaluate_population_says_why_a_metric_is_missing():
    some = population(np.ones(2), np.zeros((2, 2)))
    found = metrics.evaluate_population(some, (-np.inf, np.inf))
    assert found["coverage"] is None
    assert found["soft_qd_score"] is None
    assert "bounded behavior space" in found["notes"]["coverage"]
    empty = metrics.evaluate_population(
        population(np.ones(1), np.zeros((1, 1)), np.zeros(1, bool)), (0.0, 1.0)
    )
    assert empty["mean_quality"] is None
    assert empty["notes"]["mean_quality"] == "the population is empty"


def test_evaluate_population_counts_negative_members_as_dark():
    behavior = np.array([[0.1, 0.1], [0.9, 0.9]])
    found = metrics.evaluate_population(
        population(np.array([2.0, -5.0]), behavior), (0.0, 1.0)
    )
    # One bump of the default width has the volume of one of 1024 cells.
    np.testing.assert_allclose(found["soft_qd_score"], 2.0 / 1024, rtol=1e-6)
    note = "1 members below the quality level count as 0"
    assert found["notes"]["soft_qd_score"] == note
    assert found["settings"]["sigma"] == metrics.default_sigma(2)


def mean_square_to_nearest(centroids, d):
    fresh = np.random.default_rng(9).random((20_000, d))
    return (KDTree(centroids).query(fresh)[0] ** 2).mean()


@pytest.mark.slow
@pytest.mark.parametrize(("cells", "d"), [(512, 2), (512, 4)])
def test_centroids_are_as_good_as_the_published_ones(cells, d):
    """pyribs made the published ones from as many samples; within 1%."""
    ours = mean_square_to_nearest(metrics.cvt_centroids(cells, d, seed=1), d)
    theirs = mean_square_to_nearest(metrics.published_centroids(d, cells), d)
    assert abs(ours / theirs - 1) < 0.01


def test_centroids_are_cached_by_everything_they_depend_on(tmp_path, monkeypatch):
    monkeypatch.setenv("SOFTQD_CACHE", str(tmp_path / "new"))
    first = metrics.cvt_centroids(5, 2, 0, num_samples=100)
    (file,) = (tmp_path / "new").iterdir()
    np.save(file, 2 * first)  # a mark, to see that the file is read
    np.testing.assert_array_equal(
        metrics.cvt_centroids(5, 2, 0, num_samples=100), 2 * first
    )
    other = metrics.cvt_centroids(5, 2, 1, num_samples=100)
    assert not np.array_equal(other, first)
    file.write_bytes(b"torn")
    np.testing.assert_array_equal(
        metrics.cvt_centroids(5, 2, 0, num_samples=100), first
    )


def test_centroids_without_a_writable_cache(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SOFTQD_CACHE", str(tmp_path / "file" / "below"))
    assert metrics.cvt_centroids(3, 1, num_samples=50).shape == (3, 1)


def test_a_tessellation_that_takes_long_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SOFTQD_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "_LONG", 0.05)

    def slow(samples, cells):
        time.sleep(0.3)
        return samples[:cells]

    monkeypatch.setattr(cache, "kmeans", slow)
    for _ in range(2):  # the second time it is read
        metrics.cvt_centroids(5, 2, num_samples=10)
    said = capsys.readouterr()
    assert said.err == f"tessellating 5 cells in 2 dimensions; kept in {tmp_path}\n"
    assert said.out == ""
    monkeypatch.setattr(cache, "_LONG", 60.0)
    metrics.cvt_centroids(6, 2, num_samples=10)
    assert capsys.readouterr().err == ""


def test_more_cells_than_samples():
    with pytest.raises(
        ValueError, match="cells must be a whole number between 1 and 10"
    ):
        metrics.cvt_centroids(11, 2, num_samples=10)


def test_one_cell_is_the_mean_of_the_samples():
    samples = np.random.default_rng(0).random((1000, 3), dtype=np.float32)
    found = metrics.cvt_centroids(1, 3, num_samples=1000)
    np.testing.assert_allclose(found[0], samples.mean(0), rtol=1e-5)


def test_evaluate_population_makes_centroids_where_none_are_published():
    found = metrics.evaluate_population(
        population(np.ones(4), np.random.default_rng(0).random((4, 3))),
        (0.0, 1.0),
        cells=16,
    )
    assert 1 / 16 <= found["coverage"] <= 4 / 16
    assert found["settings"]["centroids"] == "k-means, seed 0"
