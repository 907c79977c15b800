"""CMA-MEGA, CMA-MAEGA, Sep-CMA-MAE and GA-ME: what their papers say of them."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import softqd
from softqd.algorithms import _arborescence
from softqd.ops import evaluation
from softqd.ops.archive import grid_centroids

# Cells of a grid, which need no k-means.
SMALL = {"centroids": grid_centroids((8, 4)), "num_emitters": 2, "batch_size": 7}
EMITTERS = {
    "cma_mega": softqd.cma_mega,
    "cma_maega": softqd.cma_maega,
    "sep_cma_mae": softqd.sep_cma_mae,
}


def tilted(dim=8):
    """A smooth peak whose two behaviors are two of the coordinates."""
    return softqd.Problem(
        lambda x: (10.0 - (x**2).sum(), jax.nn.sigmoid(x[:2])),
        lambda key: 0.1 * jax.random.normal(key, (dim,)),
        behavior_bounds=(0.0, 1.0),
    )


def start(algorithm, *solutions):
    """The first state; compiled, since its many small operations take longer."""
    return jax.jit(algorithm.init)(jax.random.key(0), *solutions)


@pytest.mark.parametrize("name", EMITTERS)
def test_finds_more_cells_than_random_search(name):
    problem, cells = tilted(), grid_centroids((8, 8))
    algorithm = EMITTERS[name](problem, centroids=cells, num_emitters=3, sigma0=0.5)
    result = softqd.run(algorithm, seed=0, num_iterations=40, log_every=40)
    spent = result.history["evaluations"][-1]
    keys = jax.random.split(jax.random.key(1), int(spent))
    behavior = jax.vmap(lambda k: problem.evaluate(problem.sample(k))[1])(keys)
    random = softqd.metrics.coverage(behavior, cells)
    found = result.population.compact()
    assert softqd.metrics.coverage(found.behavior, cells) > 2 * random
    assert result.history["elites"][-1] == len(found.quality)


@pytest.mark.parametrize("name", EMITTERS)
def test_counts(name):
    result = softqd.run(
        EMITTERS[name](tilted(), **SMALL), num_iterations=3, log_every=3
    )
    gradients = 0 if name == "sep_cma_mae" else 2 * 3
    assert result.history["evaluations"].tolist() == [0, 3 * 2 * 7]
    assert result.history["gradient_evaluations"][-1] == gradients
    assert result.history["vector_jacobian_products"][-1] == 3 * gradients


def test_branches_lie_in_the_span_of_the_gradients():
    """Children of CMA-MEGA differ from their point by combinations of 1 + d rows."""
    problem = tilted(dim=12)
    settings = {"centroids": grid_centroids((8, 8)), "num_emitters": 1}
    algorithm = softqd.cma_mega(problem, batch_size=20, **settings)
    state = start(algorithm)
    after, _ = jax.jit(algorithm.step)(state)
    kept = algorithm.population(after).compact()
    point = np.asarray(state.emitters.point[0])
    x = jnp.asarray(point)
    rows = jax.jacrev(
        lambda x: jnp.append(problem.evaluate(x)[1], problem.evaluate(x)[0])
    )(x)
    offsets = kept.solutions - point
    assert np.linalg.matrix_rank(np.vstack([rows, offsets]), tol=1e-3) == 3


@pytest.mark.parametrize("signed", [True, False])
def test_quality_coefficient_is_positive_unless_signed(monkeypatch, signed):
    """Where behaviors do not move, children then only climb."""
    children = []

    def recording(problem, solutions, *rest):
        children.append(solutions)
        return evaluate(problem, solutions, *rest)

    problem = softqd.Problem(
        lambda x: (x.sum(), jnp.full((2,), 0.5)),
        lambda key: jnp.zeros(3),
        behavior_bounds=(0.0, 1.0),
    )
    settings = {"num_emitters": 1, "batch_size": 30, "signed_quality": signed}
    algorithm = softqd.cma_mega(problem, centroids=grid_centroids((2, 2)), **settings)
    state = start(algorithm)
    evaluate = evaluation.evaluate
    monkeypatch.setattr(evaluation, "evaluate", recording)
    proposed = jax.jit(lambda s: (algorithm.step(s), children[0])[1])(state)
    lower = (proposed.sum(1) < 0).mean()
    assert 0.2 < lower < 0.8 if signed else lower == 0.0


def test_the_point_moves_by_the_optimizer():
    """Plain ascent with rate 1 puts the point on the weighted mean of its parents."""
    algorithm = softqd.cma_mega(
        tilted(), **SMALL, optimizer=optax.sgd(1.0), selection="mu", restart="basic"
    )
    state = start(algorithm)
    after, info = jax.jit(algorithm.step)(state)
    moved = np.linalg.norm(after.emitters.point - state.emitters.point, axis=1)
    assert (moved > 0).all()
    assert int(info.restarts) == 0


def test_no_improvement_restarts_from_an_elite():
    """Nothing can be improved on a plateau that is already found."""
    problem = softqd.Problem(
        lambda x: (0.0 * x.sum() + 1.0, jnp.full((2,), 0.5)),
        lambda key: jax.random.normal(key, (4,)),
        behavior_bounds=(0.0, 1.0),
    )
    algorithm = softqd.cma_mega(problem, **SMALL)
    state = start(algorithm)
    after, info = jax.jit(algorithm.step)(state)
    assert int(info.restarts) == 2
    elite = algorithm.population(after).compact().solutions[0]
    np.testing.assert_array_equal(after.emitters.point, np.stack([elite, elite]))
    assert not np.asarray(after.emitters.cma.mean).any()


@pytest.mark.parametrize("name", EMITTERS)
def test_unsound_children_are_rejected_and_the_run_goes_on(name):
    problem = softqd.Problem(
        lambda x: (
            jnp.where(x[0] > 0.3, jnp.nan, -(x**2).sum()),
            jax.nn.sigmoid(x[:2]),
        ),
        lambda key: -jnp.abs(jax.random.normal(key, (4,))),
        behavior_bounds=(0.0, 1.0),
    )
    settings = {"sigma0": 2.0} | (
        {} if name == "cma_mega" else {"threshold_floor": -99}
    )
    algorithm = EMITTERS[name](problem, **SMALL, **settings)
    result = softqd.run(algorithm, num_iterations=20, log_every=1)
    assert np.nansum(result.history["rejected"]) > 0
    assert np.isfinite(result.population.compact().quality).all()


def test_soft_thresholds_guide_and_the_result_remembers():
    algorithm = softqd.cma_maega(tilted(), **SMALL, threshold_floor=-100.0)
    state = start(algorithm)
    for _ in range(5):
        state, _ = jax.jit(algorithm.step)(state)
    best = np.asarray(state.result.quality)[np.asarray(state.result.occupied)]
    guide = np.asarray(state.archive.quality)[np.asarray(state.result.occupied)]
    assert (best >= guide - 1e-5).all()
    thresholds = np.asarray(state.archive.threshold)[np.asarray(state.archive.occupied)]
    assert (thresholds < best.max()).all()


def test_archives_need_bounds():
    problem = softqd.Problem(lambda x: (x.sum(), x[:2]), lambda key: jnp.ones(3))
    with pytest.raises(ValueError, match="has no finite behavior_bounds"):
        softqd.cma_mega(problem)
    with pytest.raises(ValueError, match=r"centroids must have shape \(cells, 2\)"):
        softqd.ga_me(tilted(), centroids=np.zeros((4, 3)))


@pytest.mark.parametrize("name", EMITTERS)
def test_random_starts_are_searched_around_but_not_kept(name):
    """As in the papers, the archive is empty until the first samples come."""
    algorithm = EMITTERS[name](tilted(), **SMALL)
    state = start(algorithm)
    assert not algorithm.population(state).occupied.any()
    after, _ = jax.jit(algorithm.step)(state)
    assert algorithm.population(after).occupied.any()


@pytest.mark.slow
@pytest.mark.usefixtures("optimized_programs")
@pytest.mark.parametrize("name", [*EMITTERS, "ga_me"])
def test_cells_of_one_run_or_of_all(name):
    build = softqd.registry.ALGORITHMS[name]
    for shared in (True, False):
        algorithm = build(tilted(), cells=16, shared_cells=shared)
        init = jax.jit(jax.vmap(algorithm.init))
        states = init(jax.random.split(jax.random.key(0), 2))
        first, second = np.asarray(states.archive.centroids)
        assert np.array_equal(first, second) == shared
        # Those of k-means: near the best mean squared distance of 16 cells, 1 / 96.
        points = np.random.default_rng(0).random((4000, 2))
        error = ((points[:, None] - second) ** 2).sum(2).min(1).mean()
        assert 0.0095 < error < 0.0125


def test_start_from_given_solutions():
    given = np.random.default_rng(0).normal(size=(9, 8)).astype(np.float32)
    for make in (*EMITTERS.values(), softqd.ga_me):
        algorithm = make(tilted(), centroids=grid_centroids((4, 4)))
        state = start(algorithm, given)
        assert int(state.init_evaluations) == 9
        kept = algorithm.population(state).compact().solutions
        assert {tuple(row) for row in kept} <= {tuple(row) for row in given}


def test_memory_is_mostly_the_archive():
    """Fifteen emitters do not copy it."""
    problem = softqd.problems.sphere(solution_dim=256)
    cells = np.random.default_rng(0).random((2000, 2))
    algorithm = softqd.cma_mega(problem, centroids=cells)
    state = jax.eval_shape(algorithm.init, jax.random.key(0))
    size = lambda tree: sum(x.size for x in jax.tree.leaves(tree))  # noqa: E731
    assert size(state.archive) > 0.9 * size(state)
    assert isinstance(state.emitters, _arborescence.Branching)
