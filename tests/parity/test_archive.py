"""Cell archives against those of pyribs; it comes with the extra 'parity'."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from softqd.ops import archive as ops
from softqd.ops.cvt import nearest_centroid

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
SHAPE = (4, 5)
CENTROIDS = np.random.default_rng(7).random((30, 3), dtype=np.float32)
THRESHOLDS = [
    {},
    {"learning_rate": 0.0, "threshold_floor": -1.0},
    {"learning_rate": 0.1, "threshold_floor": 0.0},
    {"learning_rate": 0.5, "threshold_floor": 0.25},
    {"learning_rate": 1.0, "threshold_floor": -1.0},
]
insert = jax.jit(ops.insert, static_argnames=("threshold_floor", "learning_rate"))


def both_archives(kind, options):
    """Empty archives of pyribs and of softqd, with the same cells."""
    archives = pytest.importorskip("ribs.archives")
    options = {"learning_rate": None, "threshold_floor": -np.inf} | options
    options["threshold_min"] = options.pop("threshold_floor")
    options |= {
        "solution_dim": 2,
        "ranges": [(0.0, 1.0)] * (2 if kind == "grid" else 3),
    }
    if kind == "grid":
        centroids = ops.grid_centroids(SHAPE)
        theirs = archives.GridArchive(dims=SHAPE, **options)
    else:
        centroids, theirs = (
            CENTROIDS,
            archives.CVTArchive(centroids=CENTROIDS, **options),
        )
    return theirs, ops.empty_archive(centroids, jnp.zeros(2))


def batch(seed, d, b):
    """Candidates with equal qualities, repeated rows and behaviors outside."""
    rng = np.random.default_rng(seed)
    quality = rng.integers(-8, 8, b) / 4
    behavior = rng.uniform(-0.1, 1.1, (b, d))
    again = rng.integers(0, b, b // 4)
    quality[: b // 4], behavior[: b // 4] = quality[again], behavior[again]
    solutions = rng.normal(size=(b, 2))
    return [x.astype(np.float32) for x in (solutions, quality, behavior)]


def add_to_both(theirs, ours, candidates, options):
    """Add a batch, compare everything, and return softqd's archive and the statuses."""
    expected = theirs.add(*candidates)
    ours, found = insert(ours, *map(jnp.asarray, candidates), **options)
    np.testing.assert_array_equal(found.status, expected["status"])
    np.testing.assert_allclose(found.value, expected["value"], 1e-5, 1e-6)
    assert_same_elites(ours, theirs)
    return ours, expected["status"].tolist()


def assert_same_elites(ours, theirs):
    elites = theirs.data()
    order = np.argsort(elites["index"])
    cells = np.flatnonzero(ours.occupied)
    np.testing.assert_array_equal(cells, elites["index"][order])
    for name, rows in (
        ("solution", ours.solutions),
        ("objective", ours.quality),
        ("measures", ours.behavior),
    ):
        np.testing.assert_array_equal(np.asarray(rows)[cells], elites[name][order])
    threshold = np.asarray(ours.threshold)[cells]
    np.testing.assert_allclose(threshold, elites["threshold"][order], 1e-5, 1e-6)


@pytest.mark.parametrize("options", THRESHOLDS)
@pytest.mark.parametrize("kind", ["grid", "cvt"])
@pytest.mark.parametrize("size", [1, 7, 90])
def test_batch_after_batch(kind, options, size):
    theirs, ours = both_archives(kind, options)
    seen = set()
    for seed in range(6):
        candidates = batch(seed, ours.centroids.shape[1], size)
        ours, status = add_to_both(theirs, ours, candidates, options)
        seen |= set(status)
    assert size < 90 or seen == {0, 1, 2}


@pytest.mark.parametrize("options", THRESHOLDS)
def test_one_crowded_cell(options):
    """Thirty candidates for one cell, in batches that repeat their qualities."""
    theirs, ours = both_archives("grid", options)
    for seed in range(4):
        solutions, quality, behavior = batch(seed, 2, 30)
        candidates = solutions, quality, 0.01 + 0.1 * np.abs(behavior)
        ours, _ = add_to_both(theirs, ours, candidates, options)
    assert ours.occupied.sum() == 1


@pytest.mark.parametrize("cells", [100, 10_000])
@pytest.mark.parametrize("d", [2, 4, 16])
def test_cells_of_behaviors(cells, d):
    """As the search tree finds them, but for distances that are as good as equal."""
    archives = pytest.importorskip("ribs.archives")
    rng = np.random.default_rng(d)
    centroids = rng.random((cells, d), dtype=np.float32)
    behavior = rng.uniform(-0.1, 1.1, (10_000, d)).astype(np.float32)
    theirs = archives.CVTArchive(
        solution_dim=1, centroids=centroids, ranges=[(0.0, 1.0)] * d
    ).index_of(behavior)
    ours, _ = nearest_centroid(jnp.asarray(behavior), jnp.asarray(centroids))
    ours, other = (
        np.linalg.norm(behavior.astype(float) - centroids[index], axis=1)
        for index in (np.asarray(ours), theirs)
    )
    np.testing.assert_allclose(ours, other, rtol=1e-6)


@pytest.mark.parametrize("shape", [[7], [30, 40], [5, 3, 4, 6]])
def test_cells_of_a_grid(shape):
    archives = pytest.importorskip("ribs.archives")
    ranges = [(0.0, 1.0)] * len(shape)
    theirs = archives.GridArchive(solution_dim=1, dims=shape, ranges=ranges)
    centroids = ops.grid_centroids(shape)
    np.testing.assert_array_equal(theirs.index_of(centroids), np.arange(len(centroids)))
    behavior = np.random.default_rng(0).uniform(-0.5, 1.5, (10_000, len(shape)))
    found, _ = nearest_centroid(jnp.asarray(behavior), jnp.asarray(centroids))
    # In single precision, some are as near to a border as rounding can tell.
    scaled = behavior * shape
    is_clear = (np.abs(scaled - np.round(scaled)) > 1e-5).all(1)
    np.testing.assert_array_equal(
        np.asarray(found)[is_clear], theirs.index_of(behavior)[is_clear]
    )
    assert is_clear.mean() > 0.99
