"""Against the packages people know; they come with the extra 'parity'."""

import numpy as np
import pytest

from softqd import metrics

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def population(d, n=400):
    rng = np.random.default_rng(d)
    return rng.uniform(-1, 3, n), rng.random((n, d))


@pytest.mark.parametrize("d", [1, 4, 16])
def test_vendi_score(d):
    vendi = pytest.importorskip("vendi_score.vendi")
    _, behavior = population(d)
    dist_sq = ((behavior[:, None] - behavior[None]) ** 2).sum(-1)
    expected = vendi.score_K(np.exp(-dist_sq / (d / 6)))
    np.testing.assert_allclose(metrics.vendi_score(behavior), expected, rtol=1e-6)


@pytest.mark.parametrize(("d", "cells"), [(2, 512), (16, 512)])
def test_coverage_and_qd_score(d, cells):
    archives = pytest.importorskip("ribs.archives")
    quality, behavior = population(d)
    centroids = metrics.published_centroids(d, cells)
    archive = archives.CVTArchive(
        solution_dim=1, centroids=centroids, ranges=[(0.0, 1.0)] * d
    )
    archive.add(np.zeros((len(quality), 1)), quality, behavior)
    np.testing.assert_allclose(
        metrics.coverage(behavior, centroids), archive.stats.coverage
    )
    np.testing.assert_allclose(
        metrics.qd_score(quality, behavior, centroids),
        archive.stats.qd_score,
        rtol=1e-6,
    )


@pytest.mark.parametrize(("d", "order"), [(2, 2), (5, 1), (5, 3), (16, np.inf)])
def test_continuous_qd_score(d, order):
    archives = pytest.importorskip("ribs.archives")
    quality, behavior = population(d)
    archive = archives.ProximityArchive(
        solution_dim=1, measure_dim=d, k_neighbors=1, novelty_threshold=0.0
    )
    archive.add(np.zeros((len(quality), 1)), quality, behavior)
    assert len(archive) == len(quality)
    targets = np.random.default_rng(1).random((4, 100, d))
    found = metrics.continuous_qd_score(
        quality, behavior, (-1.0, 3.0), targets=targets, order=order, max_distance=1.7
    )
    expected = archives.cqd_score(
        archive,
        iterations=4,
        target_points=targets,
        penalties=5,
        obj_min=-1.0,
        obj_max=3.0,
        dist_max=1.7,
        dist_ord=order,
    )
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
    np.testing.assert_allclose(found.value, expected.mean, rtol=1e-5)
