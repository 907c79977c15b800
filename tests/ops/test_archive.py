import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from softqd.ops import archive as ops

SHAPE = (3, 2)
PLAIN = {"threshold_floor": None}
SETTINGS = [
    PLAIN,
    {"learning_rate": 1.0, "threshold_floor": 0.0},
    {"learning_rate": 0.5, "threshold_floor": -1.0},
    {"learning_rate": 0.0, "threshold_floor": 0.5},
]
insert = jax.jit(ops.insert, static_argnames=("threshold_floor", "learning_rate"))
sample_elites = jax.jit(ops.sample_elites, static_argnums=2)


def new_archive(shape=SHAPE, **options):
    solution = {"x": jax.ShapeDtypeStruct((2,), jnp.float32), "id": jnp.zeros((), int)}
    return ops.empty_archive(ops.grid_centroids(shape), solution, **options)


def candidates(quality, behavior, first_id=1):
    """Solutions with a number of their own, so that no two are alike."""
    quality = jnp.asarray(quality, jnp.float32)
    number = first_id + jnp.arange(len(quality))
    solutions = {"x": jnp.stack([number, -number], 1) / 8, "id": number}
    return solutions, quality, jnp.asarray(behavior, jnp.float32)


def in_cell(cell, count, shape=SHAPE):
    """Behaviors at the center of one cell."""
    return np.repeat(ops.grid_centroids(shape)[[cell]], count, axis=0)


def as_dict(archive):
    """Cell to (number, quality, behavior, threshold) of its elite."""
    return {
        int(cell): (
            int(archive.solutions["id"][cell]),
            float(archive.quality[cell]),
            tuple(archive.behavior[cell].tolist()),
            float(archive.threshold[cell]),
        )
        for cell in np.flatnonzero(archive.occupied)
    }


def expected_insertion(elites, batch, learning_rate=1.0, threshold_floor=None):
    """The definition, candidate by candidate, on a dictionary of cells."""
    ids, quality, behavior = batch[0]["id"].tolist(), *map(np.asarray, batch[1:])
    status, value, accepted, base = [], [], {}, {}
    for i, (q, b) in enumerate(zip(quality.tolist(), behavior, strict=True)):
        if not (np.isfinite(q) and np.isfinite(b).all()):
            status.append(0)
            value.append(-np.inf)
            continue
        place = np.clip(np.floor(b * SHAPE), 0, np.subtract(SHAPE, 1)).astype(int)
        cell = int(np.ravel_multi_index(tuple(place), SHAPE))
        base[cell] = elites[cell][3] if cell in elites else threshold_floor
        is_accepted = base[cell] is None or q > base[cell]
        status.append((1 if cell in elites else 2) if is_accepted else 0)
        value.append(q - (base[cell] or 0.0))
        if is_accepted:
            accepted.setdefault(cell, []).append(i)
    elites = dict(elites)
    for cell, rows in accepted.items():
        best = max(rows, key=lambda i: quality[i])  # the first of equals
        threshold = float(quality[best])
        if threshold_floor is not None:
            kept = (1 - learning_rate) ** len(rows)
            threshold = kept * base[cell] + (1 - kept) * quality[rows].mean()
        elite = ids[best], float(quality[best]), tuple(behavior[best].tolist())
        elites[cell] = (*elite, threshold)
    return elites, status, value


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for cell, elite in expected.items():
        assert found[cell][:3] == elite[:3]
        np.testing.assert_allclose(found[cell][3], elite[3], rtol=1e-6)


QUALITIES = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, np.nan, np.inf, -np.inf])
BEHAVIORS = st.sampled_from([-7.0, 0.1, 0.4, 0.6, 0.9, 1.2, np.nan])


@pytest.mark.parametrize("options", SETTINGS)
@settings(max_examples=40, deadline=None)
@given(
    hnp.arrays(np.float32, (3, 9), elements=QUALITIES),
    hnp.arrays(np.float32, (3, 9, 2), elements=BEHAVIORS),
)
def test_batches_as_in_a_dictionary(options, qualities, behaviors):
    archive = new_archive()
    for i in range(3):
        batch = candidates(qualities[i], behaviors[i], 1 + 10 * i)
        expected, status, value = expected_insertion(as_dict(archive), batch, **options)
        archive, info = insert(archive, *batch, **options)
        assert info.status.tolist() == status
        np.testing.assert_allclose(info.value, value, rtol=1e-6)
        assert_same(as_dict(archive), expected)
    for leaf in jax.tree.leaves(archive[1:]):
        assert not np.asarray(leaf)[~np.asarray(archive.occupied)].any()


def test_thresholds_by_hand():
    """Floor 0, rate 1/2: two of mean 2 lift 0 to 3/4 of 2, another 2 half way to it."""
    soft = {"learning_rate": 0.5, "threshold_floor": 0.0}
    first = candidates([1.0, 3.0, 0.0], in_cell(4, 3))
    archive, info = insert(new_archive(), *first, **soft)
    assert info.status.tolist() == [2, 2, 0]
    assert info.value.tolist() == [1.0, 3.0, 0.0]
    assert as_dict(archive)[4] == (2, 3.0, (float(np.float32(5 / 6)), 0.25), 1.5)
    second = candidates([2.0], in_cell(4, 1), first_id=9)
    archive, info = insert(archive, *second, **soft)
    assert (info.status.tolist(), info.value.tolist()) == ([1], [0.5])
    # The new elite is worse than the old one.
    assert as_dict(archive)[4][:2] == (9, 2.0)
    assert archive.threshold[4] == 1.75


def test_without_a_floor_a_new_cell_is_worth_its_quality():
    first = candidates([-5.0, -4.0], in_cell(0, 2))
    archive, info = insert(new_archive(), *first)
    assert (info.status.tolist(), info.value.tolist()) == ([2, 2], [-5.0, -4.0])
    again = candidates([-4.0, -3.0], in_cell(0, 2))
    archive, info = insert(archive, *again)
    assert (info.status.tolist(), info.value.tolist()) == ([0, 1], [0.0, 1.0])
    assert archive.quality[0] == archive.threshold[0] == -3.0


@pytest.mark.parametrize("options", SETTINGS)
@pytest.mark.parametrize("count", [1, 100])
def test_a_batch_for_one_cell(options, count):
    quality = np.random.default_rng(count).integers(2, 9, count)
    archive, info = insert(
        new_archive(), *candidates(quality, in_cell(3, count)), **options
    )
    assert info.status.tolist() == [2] * count
    assert np.flatnonzero(archive.occupied).tolist() == [3]
    assert archive.solutions["id"][3] == 1 + quality.argmax()
    assert archive.quality[3] == quality.max()


@pytest.mark.parametrize("options", SETTINGS)
def test_nothing_changes_where_none_is_accepted(options):
    archive, _ = insert(new_archive(), *candidates([3.0], in_cell(1, 1)), **options)
    low = float(archive.threshold[1])
    refused = candidates([low, low - 1.0], in_cell(1, 2), first_id=7)
    after, info = insert(archive, *refused, **options)
    assert (info.status.tolist(), info.value.tolist()) == ([0, 0], [0.0, -1.0])
    jax.tree.map(np.testing.assert_array_equal, after, archive)
    none = candidates(np.zeros(0), np.zeros((0, 2)))
    after, info = insert(archive, *none, **options)
    assert info.status.shape == info.value.shape == (0,)
    jax.tree.map(np.testing.assert_array_equal, after, archive)


@pytest.mark.parametrize("options", SETTINGS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_candidates_that_are_not_finite(options, bad):
    behavior = in_cell(2, 4)
    behavior[1, 0] = behavior[2, 1] = bad
    batch = candidates([bad, 9.0, 8.0, 1.0], behavior)
    archive, info = insert(new_archive(), *batch, **options)
    assert info.status.tolist() == [0, 0, 0, 2]
    assert np.isneginf(info.value[:3]).all()
    assert as_dict(archive).keys() == {2}
    assert archive.solutions["id"][2] == 4


def test_too_large_for_the_archive_is_not_finite(x64):
    archive = new_archive(dtype=jnp.float32)
    solutions, _, behavior = candidates([0.0, 0.0], in_cell(2, 2))
    quality = jnp.array([1e300, 1.0], jnp.float64)
    archive, info = insert(archive, solutions, quality, behavior.astype(float))
    assert info.status.tolist() == [0, 2]
    assert archive.quality.dtype == archive.behavior.dtype == jnp.float32


def test_double_precision(x64):
    archive = new_archive(dtype=jnp.float64)
    solutions, _, behavior = candidates([0.0, 0.0], in_cell(2, 2))
    quality = jnp.array([1.0, 1.0 + 1e-12], jnp.float64)
    archive, _ = insert(archive, solutions, quality, behavior)
    assert archive.solutions["id"][2] == 2
    assert archive.threshold[2] == 1.0 + 1e-12


def test_behaviors_outside_go_to_the_nearest_cell():
    outside = np.array([[-9.0, 0.3], [1.7, 1.7], [0.5, -0.1], [1e6, 0.3]])
    archive, info = insert(new_archive(), *candidates(np.ones(4), outside))
    assert info.status.tolist() == [2, 2, 2, 2]
    found = {cell: elite[0] for cell, elite in as_dict(archive).items()}
    assert found == {0: 1, 5: 2, 2: 3, 4: 4}
    np.testing.assert_array_equal(archive.behavior[0], outside[0].astype(np.float32))


@pytest.mark.parametrize("options", SETTINGS)
def test_vmap_is_a_loop_over_seeds(options):
    rng = np.random.default_rng(0)
    quality, behavior = rng.integers(-2, 3, (4, 30)), rng.uniform(-0.2, 1.2, (4, 30, 2))
    batches = [candidates(q, b) for q, b in zip(quality, behavior, strict=True)]
    start, _ = insert(new_archive(), *candidates([0.5], in_cell(0, 1)), **options)
    one_by_one = [insert(start, *batch, **options) for batch in batches]
    stack = functools.partial(jax.tree.map, lambda *x: jnp.stack(x))
    together = functools.partial(ops.insert, **options)
    found = jax.jit(jax.vmap(together))(stack(*[start] * 4), *stack(*batches))
    close = functools.partial(np.testing.assert_allclose, rtol=1e-6)
    jax.tree.map(close, found, stack(*one_by_one))


def test_vmap_over_learning_rates():
    batch = candidates([2.0], in_cell(0, 1))

    def threshold(rate, floor):
        soft = {"learning_rate": rate, "threshold_floor": floor}
        return ops.insert(new_archive(), *batch, **soft)[0].threshold[0]

    rates, floors = jnp.array([0.0, 0.5, 1.0]), jnp.array([0.0, 0.0, 1.0])
    found = jax.jit(jax.vmap(threshold))(rates, floors)
    assert found.tolist() == [0.0, 1.0, 2.0]


def test_a_loop_does_not_copy_the_archive():
    archive = ops.empty_archive(ops.grid_centroids([50, 40]), jnp.zeros(512))
    batch = (jnp.ones((8, 512)), jnp.ones(8), jnp.full((8, 2), 0.3))

    def loop(archive):
        def step(i, archive):
            solutions, quality, behavior = batch
            return ops.insert(archive, solutions, quality + i, behavior)[0]

        return jax.lax.fori_loop(0, 5, step, archive)

    memory = jax.jit(loop, donate_argnums=0).lower(archive).compile().memory_analysis()
    size = archive.solutions.nbytes
    assert memory.alias_size_in_bytes >= size
    assert memory.temp_size_in_bytes < size / 4


def test_samples_are_uniform_over_elites():
    behavior = ops.grid_centroids(SHAPE)[[1, 2, 5]]
    archive, _ = insert(new_archive(), *candidates([1.0, 9.0, -3.0], behavior))
    drawn = sample_elites(archive, jax.random.key(0), 3000)
    assert drawn["x"].shape == (3000, 2)
    np.testing.assert_array_equal(drawn["x"][:, 0], drawn["id"] / 8)
    counts = np.bincount(drawn["id"], minlength=4)
    assert counts[0] == 0
    # Five standard deviations of a binomial: sqrt(3000 * 1/3 * 2/3) = 26.
    assert abs(counts[1:] - 1000).max() < 130


@pytest.mark.parametrize("cell", range(6))
def test_samples_of_a_single_elite(cell):
    archive, _ = insert(new_archive(), *candidates([-1.0], in_cell(cell, 1)))
    drawn = sample_elites(archive, jax.random.key(cell), 20)
    assert drawn["id"].tolist() == [1] * 20


def test_samples_of_an_empty_archive_are_zeros():
    drawn = sample_elites(new_archive(), jax.random.key(0), 4)
    assert drawn["x"].tolist() == [[0.0, 0.0]] * 4
    assert drawn["id"].tolist() == [0] * 4


def test_samples_under_vmap():
    one, _ = insert(new_archive(), *candidates([1.0], in_cell(0, 1), 3))
    other, _ = insert(new_archive(), *candidates([1.0], in_cell(5, 1), 8))
    both = jax.tree.map(lambda *x: jnp.stack(x), one, other, new_archive())
    keys = jax.random.split(jax.random.key(0), 3)
    drawn = jax.vmap(lambda a, k: sample_elites(a, k, 2))(both, keys)
    assert drawn["id"].tolist() == [[3, 3], [8, 8], [0, 0]]


def test_grid_centroids():
    expected = [[x, y] for x in (0.125, 0.375, 0.625, 0.875) for y in (0.25, 0.75)]
    assert ops.grid_centroids([4, 2]).tolist() == expected
    assert ops.grid_centroids((1,)).tolist() == [[0.5]]


def test_population_of_an_archive():
    batch = candidates([1.0, 2.0], ops.grid_centroids(SHAPE)[[4, 1]])
    archive, _ = insert(new_archive(), *batch)
    population = ops.archive_population(archive)
    assert population.quality.shape == (6,)
    elites = population.compact()
    assert elites.solutions["id"].tolist() == [2, 1]
    assert elites.quality.tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": 1.5, "threshold_floor": 0}, "between 0 and 1; got 1.5"),
        ({"learning_rate": np.nan, "threshold_floor": 0}, "between 0 and 1; got nan"),
        ({"learning_rate": 0.1}, "give one, or leave it at 1.0; got 0.1"),
        ({"threshold_floor": -np.inf}, "None for a plain archive; got -inf"),
    ],
)
def test_thresholds_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        ops.insert(new_archive(), *candidates([1.0], in_cell(0, 1)), **options)


def test_a_traced_learning_rate_needs_a_floor():
    batch = candidates([1.0], in_cell(0, 1))
    with pytest.raises(ValueError, match="nothing without a threshold_floor"):
        jax.jit(lambda rate: ops.insert(new_archive(), *batch, learning_rate=rate))(1.0)


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (3, 2)])
def test_solutions_of_another_shape(shape):
    solutions, quality, behavior = candidates([1.0, 2.0], in_cell(0, 2))
    solutions["x"] = jnp.ones(shape)
    message = rf"shape \({shape[0]}, {shape[1]}\), expected \(2, 2\)"
    with pytest.raises(ValueError, match=message):
        insert(new_archive(), solutions, quality, behavior)


def test_an_archive_needs_cells():
    with pytest.raises(ValueError, match=r"number of centroids .* at least 1; got 0"):
        ops.empty_archive(np.zeros((0, 2)), jnp.zeros(3))
    with pytest.raises(ValueError, match=r"every count in shape .* at least 1; got 0"):
        ops.grid_centroids([3, 0])
    with pytest.raises(ValueError, match="number of dimensions in shape"):
        ops.grid_centroids([])
