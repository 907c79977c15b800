"""Schedulers and archives of pyribs, which comes with the extra 'parity'."""

import doctest
import re
from pathlib import Path

import jax
import numpy as np
import pytest
from toys import make_bowl

import softqd
from softqd import metrics
from softqd.interop.ribs import run_scheduler, to_population

archives = pytest.importorskip("ribs.archives")
emitters = pytest.importorskip("ribs.emitters")
schedulers = pytest.importorskip("ribs.schedulers")

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
PAGE = Path(__file__).parents[2] / "docs" / "interop.md"


class CountingGrid(archives.GridArchive):
    """Counts the solutions that are added, new or not."""

    num_seen = 0

    def add(self, solution, objective, measures, **fields):
        self.num_seen += len(solution)
        return super().add(solution, objective, measures, **fields)


def grid(problem, solution_dim, kind=CountingGrid, **options):
    ranges = list(zip(*problem.bounds(2), strict=True))
    return kind(
        solution_dim=solution_dim, dims=[20, 20], ranges=ranges, seed=0, **options
    )


def gradient_emitter(archive, seed, lr=0.05):
    """CMA-MEGA."""
    x0 = np.zeros(archive.solution_dim)
    options = {"sigma0": 0.2, "lr": lr, "batch_size": 20}
    return emitters.GradientArborescenceEmitter(archive, x0=x0, seed=seed, **options)


def coverage(result, problem):
    found = metrics.evaluate_population(result.population, problem.bounds(2))
    return found["coverage"]


def test_evolution_strategy_lights_the_arm():
    problem = softqd.problems.arm(num_joints=10)
    archive = grid(problem, 10)
    options = {"x0": np.zeros(10), "sigma0": 0.2, "batch_size": 30}
    emit = [
        emitters.EvolutionStrategyEmitter(archive, seed=seed, **options)
        for seed in range(3)
    ]
    scheduler = schedulers.Scheduler(archive, emit)
    first = run_scheduler(scheduler, problem, 1)
    last = run_scheduler(scheduler, problem, 99)
    assert coverage(last, problem) > max(0.4, 3 * coverage(first, problem))
    assert last.history["max_quality"][-1] > last.history["max_quality"][0]
    np.testing.assert_allclose(
        last.history["mean_quality"][-1], archive.stats.obj_mean, rtol=1e-6
    )
    assert last.history["evaluations"][-1] == 99 * 90
    assert archive.num_seen == 100 * 90


def test_cma_mega_covers_more_and_more_of_the_sphere():
    problem = softqd.problems.sphere(solution_dim=20)
    archive = grid(problem, 20)
    emit = [gradient_emitter(archive, seed, lr=0.5) for seed in range(3)]
    scheduler = schedulers.Scheduler(archive, emit)
    results = [run_scheduler(scheduler, problem, 20) for _ in range(3)]
    covered = [coverage(result, problem) for result in results]
    assert covered[0] < covered[1] < covered[2]
    for result in results:
        assert result.history["evaluations"][-1] == 20 * 63
        assert result.history["gradient_evaluations"][-1] == 20 * 3
        assert result.history["vector_jacobian_products"][-1] == 20 * 3 * 3
    assert archive.num_seen == 3 * 20 * 63


def test_cma_mega_does_what_a_loop_by_hand_does(x64):
    problem = make_bowl()

    def by_hand(x):
        b = 1 / (1 + np.exp(-x[:, :2]))
        jacobian = np.zeros((len(x), 3, 6))
        jacobian[:, 0] = -2 * (x - 0.3)
        jacobian[:, 1, 0], jacobian[:, 2, 1] = (b * (1 - b)).T
        return 10 - ((x - 0.3) ** 2).sum(1), b, jacobian

    ours, theirs = grid(problem, 6), grid(problem, 6)
    run_scheduler(
        schedulers.Scheduler(ours, [gradient_emitter(ours, s) for s in (0, 1)]),
        problem,
        8,
    )
    scheduler = schedulers.Scheduler(
        theirs, [gradient_emitter(theirs, s) for s in (0, 1)]
    )
    for _ in range(8):
        scheduler.tell_dqd(*by_hand(scheduler.ask_dqd()))
        scheduler.tell(*by_hand(scheduler.ask())[:2])
    for field in ("index", "objective", "measures", "solution"):
        np.testing.assert_allclose(ours.data(field), theirs.data(field), rtol=1e-7)
    assert len(ours) > 20


def test_gradient_emitter_that_begins_with_given_solutions():
    problem = softqd.problems.arm(num_joints=10)
    archive = grid(problem, 10)
    first = np.random.default_rng(0).normal(size=(7, 10))
    options = {"sigma": 0.1, "sigma_g": 0.1, "batch_size": 20, "seed": 0}
    with_gradients = emitters.GradientOperatorEmitter(
        archive, initial_solutions=first, measure_gradients=True, **options
    )
    without = emitters.GaussianEmitter(
        archive, x0=np.zeros(10), sigma=0.1, batch_size=5, seed=0
    )
    scheduler = schedulers.Scheduler(archive, [with_gradients, without])
    history = run_scheduler(scheduler, problem, 3).history
    # ask_dqd is empty at first, then as large as ask.
    assert history["gradient_evaluations"].tolist() == [0, 0, 20, 40]
    assert history["evaluations"].tolist() == [0, 12, 57, 102]
    assert archive.num_seen == 102


def test_bandit_chooses_among_emitters_of_different_size():
    problem = softqd.problems.arm(num_joints=10)
    archive = grid(problem, 10)
    pool = [
        emitters.GaussianEmitter(
            archive, x0=np.zeros(10), sigma=0.1 * n, batch_size=n, seed=n
        )
        for n in range(1, 6)
    ]
    scheduler = schedulers.BanditScheduler(archive, pool, num_active=2)
    result = run_scheduler(scheduler, problem, 10)
    assert result.history["evaluations"][-1] == archive.num_seen > 0
    assert result.config["algorithm"]["emitters"] == ["GaussianEmitter"] * 5


ARCHIVES = {
    "GridArchive": {"dims": [8, 8], "ranges": [(-1, 1)] * 2},
    "CVTArchive": {
        "centroids": np.random.default_rng(7).uniform(-1, 1, (40, 2)),
        "ranges": [(-1, 1)] * 2,
    },
    "ProximityArchive": {
        "measure_dim": 2,
        "k_neighbors": 5,
        "novelty_threshold": 0.1,
        "local_competition": True,
    },
    "DNSArchive": {"measure_dim": 2, "k_neighbors": 3, "capacity": 40},
    "SlidingBoundariesArchive": {"dims": [8, 8], "ranges": [(-1, 1)] * 2},
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_population_holds_the_elites_of_any_archive(name):
    problem = softqd.problems.arm(num_joints=10)
    archive = getattr(archives, name)(solution_dim=10, **ARCHIVES[name])
    empty = to_population(archive, problem)
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(empty)]
    assert shapes == [(0, 10), (0,), (0, 2), (0,)]
    emitter = emitters.GaussianEmitter(
        archive, x0=np.zeros(10), sigma=0.3, batch_size=25, seed=1
    )
    scheduler = schedulers.Scheduler(archive, [emitter])
    result = run_scheduler(scheduler, problem, 5)
    elites, population = archive.data(), result.population
    assert len(population.quality) == archive.stats.num_elites > 5
    np.testing.assert_array_equal(population.solutions, elites["solution"])
    np.testing.assert_array_equal(population.quality, elites["objective"])
    np.testing.assert_array_equal(population.behavior, elites["measures"])
    quality, behavior = jax.vmap(problem.evaluate)(population.solutions)
    np.testing.assert_allclose(population.quality, quality, rtol=1e-5)
    np.testing.assert_allclose(population.behavior, behavior, atol=1e-5)
    assert result.config["algorithm"]["archive"] == name
    assert result.versions["ribs"] != "unknown"


def test_density_archive_needs_a_result_archive():
    problem = softqd.problems.arm(num_joints=10)
    density, archive = (
        archives.DensityArchive(measure_dim=2, bandwidth=1.0),
        grid(problem, 10),
    )
    emitter = emitters.GaussianEmitter(
        archive, x0=np.zeros(10), sigma=0.3, batch_size=25, seed=1
    )
    with pytest.raises(ValueError, match="a DensityArchive keeps no elites"):
        run_scheduler(schedulers.Scheduler(density, [emitter]), problem, 2)
    scheduler = schedulers.Scheduler(density, [emitter], archive)
    result = run_scheduler(scheduler, problem, 2)
    assert len(result.population.quality) == len(archive) > 0
    assert result.config["algorithm"]["result_archive"] == "CountingGrid"


def test_docstring_example():
    text = run_scheduler.__doc__
    names = {"run_scheduler": run_scheduler}
    test = doctest.DocTestParser().get_doctest(text, names, "run_scheduler", None, 0)
    assert len(test.examples) == 10
    assert doctest.DocTestRunner().run(test).failed == 0


def test_page_for_those_who_come_from_pyribs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = PAGE.with_name("from-pyribs.md")
    blocks = re.findall(r"```python[^\n]*\n(.*?)```", page.read_text(), re.S)
    namespace = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    # pyribs in its own cells, SQUAD, pyribs in the cells of softqd
    assert len(shown) == 3
    assert all(float(score) > 0 and 0 < float(part) < 1 for score, part in shown)
    num_rows = len((tmp_path / "archive.csv").read_text().splitlines()) - 1
    assert len(namespace["elites"].quality) == num_rows
    # The page's last block adds what SQUAD found: no cell is emptied by that.
    assert namespace["archive"].stats.num_elites >= num_rows


def test_page_compares_in_twenty_lines(capsys):
    first, *others = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len([line for line in first.splitlines() if line.strip()]) <= 20
    namespace = {}
    exec(compile(first, str(PAGE), "exec"), namespace)
    printed = capsys.readouterr().out.splitlines()
    names = ("mean_quality", "coverage", "soft_qd_score")
    rows = {line.split()[0]: line.split()[1:] for line in printed if line}
    for name in names:
        assert all(float(value) > 0 for value in rows[name])
        assert len(rows[name]) == 2
    for block in others:
        exec(compile(block, str(PAGE), "exec"), namespace)
