"""SQUAD as an emitter in schedulers of pyribs, which comes with the extra 'parity'."""

import numpy as np
import pytest
from toys import make_bowl

from softqd.interop.ribs import SquadEmitter, run_scheduler

archives = pytest.importorskip("ribs.archives")
emitters = pytest.importorskip("ribs.emitters")
schedulers = pytest.importorskip("ribs.schedulers")

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
GOAL = np.linspace(-0.5, 0.5, 6)


def evaluate(x):
    """Objective, measures and Jacobian of a bowl, by hand."""
    measures = np.tanh(x[:, :2])
    jacobian = np.zeros((len(x), 3, 6))
    jacobian[:, 0] = -2 * (x - GOAL)
    for i in range(2):
        jacobian[:, 1 + i, i] = 1 - measures[:, i] ** 2
    return 10 - ((x - GOAL) ** 2).sum(1), measures, jacobian


def grid(**settings):
    ranges = [(-0.9, 0.9)] * 2  # narrower than what the measures reach
    return archives.GridArchive(
        solution_dim=6, dims=[10, 10], ranges=ranges, seed=0, **settings
    )


def drive(scheduler, iterations, is_dqd):
    asked = []
    for _ in range(iterations):
        if is_dqd:
            x = scheduler.ask_dqd()
            scheduler.tell_dqd(*evaluate(x))
            asked.append(len(x))
        x = scheduler.ask()
        scheduler.tell(*evaluate(x)[:2])
        asked.append(len(x))
    return asked


@pytest.mark.parametrize("is_dqd", [True, False])
def test_it_fills_an_archive(is_dqd):
    archive = grid()
    emitter = SquadEmitter(archive, x0=np.zeros(6), sigma0=2.0, batch_size=32, seed=1)
    scheduler = schedulers.Scheduler(archive, [emitter])
    scheduler_asked = drive(scheduler, 60, is_dqd)
    assert scheduler_asked[0] == 32
    # A random population of the start covers a fifth, at qualities around -10.
    assert archive.stats.coverage > (0.6 if is_dqd else 0.3)
    assert archive.stats.obj_max > (9.5 if is_dqd else 5.0)


def test_it_works_beside_other_emitters():
    archive = grid()
    others = [
        emitters.GradientArborescenceEmitter(
            archive, x0=np.zeros(6), sigma0=1.0, lr=0.1, batch_size=7, seed=3
        ),
        emitters.GaussianEmitter(archive, sigma=0.1, x0=np.zeros(6), batch_size=5),
    ]
    start = np.random.default_rng(0).normal(size=(8, 6))
    emitter = SquadEmitter(archive, initial_solutions=start, batch_size=8, seed=1)
    scheduler = schedulers.Scheduler(archive, [others[0], emitter, others[1]])
    np.testing.assert_allclose(scheduler.ask_dqd()[1:], start, rtol=1e-6)
    scheduler.tell_dqd(*evaluate(np.concatenate([np.zeros((1, 6)), start])))
    scheduler.tell(*evaluate(scheduler.ask())[:2])
    drive(scheduler, 20, is_dqd=True)
    assert archive.stats.obj_max > 9.5


def test_solutions_stay_in_their_bounds_and_seeds_repeat():
    bounds = [(-0.25, 0.25)] * 5 + [None]

    def asked(seed):
        archive = grid(dtype=np.float32)
        emitter = SquadEmitter(
            archive, x0=np.zeros(6), bounds=bounds, batch_size=4, seed=seed
        )
        scheduler = schedulers.Scheduler(archive, [emitter])
        rows = []
        for _ in range(6):
            rows.append(scheduler.ask_dqd())
            scheduler.tell_dqd(*evaluate(rows[-1]))
            rows.append(scheduler.ask())
            scheduler.tell(*evaluate(rows[-1])[:2])
        return np.concatenate(rows)

    one = asked(7)
    assert one.dtype == np.float32
    assert np.abs(one[:, :5]).max() <= 0.25 < np.abs(one[:, 5]).max()
    np.testing.assert_array_equal(one, asked(7))
    assert not np.array_equal(one[:4], asked(8)[:4])


def test_our_own_loop_runs_it():
    problem = make_bowl()
    archive = archives.GridArchive(
        solution_dim=6, dims=[8, 8], ranges=list(zip(*problem.bounds(2), strict=True))
    )
    emitter = SquadEmitter(archive, x0=np.zeros(6), batch_size=8, seed=1)
    result = run_scheduler(schedulers.Scheduler(archive, [emitter]), problem, 40)
    assert result.history["gradient_evaluations"][-1] == 40 * 8
    best = result.history["max_quality"]
    assert best[-1] > best[1]


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({}, "either x0 or initial_solutions"),
        ({"x0": np.zeros(6), "initial_solutions": np.zeros((8, 6))}, "either x0 or"),
        ({"x0": np.zeros(5)}, r"x0 must have shape \(6,\)"),
        ({"initial_solutions": np.zeros((3, 6))}, r"initial_solutions \(8, 6\)"),
        ({"x0": np.zeros(6), "bounds": [None]}, "bounds must have 6 pairs"),
        ({"x0": np.zeros(6), "batch_size": 1}, "batch_size must be a whole number"),
    ],
)
def test_wrong_arguments_are_said(settings, match):
    with pytest.raises(ValueError, match=match):
        SquadEmitter(grid(), **{"batch_size": 8, **settings})
