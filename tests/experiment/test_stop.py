"""How runs end: limits, conditions, callbacks, Ctrl-C, and what goes on afterwards."""

import os
import signal
import sys

import numpy as np
import pytest
from toys import climb, make_bowl

import softqd
from softqd.experiment.loop import LogPoint
from softqd.stop import patience, target


@pytest.fixture(scope="module")
def algorithm():
    return climb(make_bowl(), 16)


def iterations(result):
    return int(result.history["iteration"][-1])


def test_a_thousand_iterations_where_nothing_else_ends_a_run(algorithm):
    assert iterations(softqd.run(algorithm)) == 1000
    assert iterations(softqd.run(algorithm, max_evaluations=16 * 1201)) == 1200
    ended = softqd.run(algorithm, stop_when=lambda point: point.iteration >= 1010)
    assert iterations(ended) == 1010


@pytest.mark.parametrize("answer", [True, np.True_])
def test_a_callback_stops_a_run_by_true_alone(algorithm, answer):
    seen = []

    def callback(point):
        seen.append(point.iteration)
        return answer if point.iteration == 20 else "no more than words"

    result = softqd.run(algorithm, num_iterations=40, callback=callback)
    assert seen == [10, 20]
    assert iterations(result) == 20
    assert not result.interrupted


def test_seeds_stop_when_all_of_them_want_to(algorithm):
    seen = []

    def callback(point):
        seen.append((point.iteration, point.seed, len(point.population())))
        return point.iteration >= 10 * point.seed

    results = softqd.run(algorithm, [1, 3], num_iterations=60, callback=callback)
    assert seen == [(i, seed, 16) for i in (10, 20, 30) for seed in (1, 3)]
    assert [iterations(result) for result in results] == [30, 30]
    last = {}
    softqd.run(
        algorithm,
        [1, 3],
        num_iterations=60,
        callback=lambda p: last.update({p.seed: p.history["mean_quality"][-1]}),
        stop_when=lambda point: point.iteration >= 10 * point.seed,
    )
    assert last == {r.seed: r.history["mean_quality"][-1] for r in results}


def test_callback_and_condition_are_both_asked_and_limits_come_first(algorithm):
    asked = []

    def stop_when(point):
        asked.append(("condition", point.iteration))
        return point.iteration == 20

    def callback(point):
        asked.append(("callback", point.iteration))
        return point.iteration == 20

    options = {"callback": callback, "stop_when": stop_when}
    assert iterations(softqd.run(algorithm, num_iterations=15, **options)) == 15
    assert iterations(softqd.run(algorithm, num_iterations=99, **options)) == 20
    first = [("condition", 0), ("callback", 10), ("condition", 10)]
    assert asked == [*first, *first, ("callback", 20), ("condition", 20)]


def test_a_resumed_run_stops_where_it_would_have_stopped(algorithm, tmp_path):
    options = {"stop_when": lambda point: point.iteration >= 30}
    options |= {"checkpoint_dir": tmp_path, "resume": True}
    assert iterations(softqd.run(algorithm, num_iterations=17, **options)) == 17
    for _ in range(2):  # and stays there
        result = softqd.run(algorithm, num_iterations=99, **options)
        assert iterations(result) == 30
    # Without the condition it goes on, as if there had been none.
    options["stop_when"] = None
    result = softqd.run(algorithm, num_iterations=40, **options)
    straight = softqd.run(algorithm, num_iterations=40)
    np.testing.assert_array_equal(
        result.population.solutions, straight.population.solutions
    )


def test_a_condition_that_holds_at_the_start_spends_nothing_more(algorithm):
    result = softqd.run(algorithm, stop_when=target("mean_quality", -np.inf))
    assert result.history["evaluations"].tolist() == [16]


def points_of(**columns):
    rows = len(next(iter(columns.values())))
    for i in range(rows):
        history = {name: values[: i + 1] for name, values in columns.items()}
        history["iteration"] = [10 * k for k in range(i + 1)]
        yield LogPoint(10 * i, history, None)


def test_patience_is_in_iterations_and_passes_over_nan():
    quality = [np.nan, 1.0, 2.0, 1.0, 2.1, 2.1, 2.1]
    points = list(points_of(best=quality))
    wait = [patience("best", 20)(point) for point in points]
    assert wait == [False] * 6 + [True]
    assert [patience("best", 20, 0.5)(point) for point in points] == [
        *([False] * 4),
        *([True] * 3),
    ]


def test_conditions_refuse_what_they_cannot_use():
    point = next(points_of(best=[1.0]))
    for condition in (patience("qd_score", 10), target("qd_score", 1.0)):
        with pytest.raises(ValueError, match=r"no column 'qd_score'; it has best"):
            condition(point)
    with pytest.raises(ValueError, match="iterations must be a whole number"):
        patience("best", 0)
    with pytest.raises(ValueError, match="min_change must be at least 0"):
        patience("best", 10, np.nan)
    with pytest.raises(ValueError, match="value must be a number; got nan"):
        target("best", np.nan)


# --- Ctrl-C ---------------------------------------------------------------------------


def interrupt_at(iteration):
    def callback(point):
        if point.iteration == iteration and point.seed == 0:
            os.kill(os.getpid(), signal.SIGINT)

    return callback


def test_ctrl_c_in_a_script_raises_with_the_result(algorithm, tmp_path):
    options = {"num_iterations": 40, "checkpoint_dir": tmp_path / "state"}
    with pytest.raises(softqd.Interrupted, match="after iteration 20") as caught:
        softqd.run(algorithm, callback=interrupt_at(20), **options)
    assert isinstance(caught.value, KeyboardInterrupt)
    result = caught.value.result
    assert result.interrupted
    assert result.history["iteration"].tolist() == [0, 10, 20]
    assert len(result.population) == 16
    assert softqd.load(result.save(tmp_path / "run")).interrupted
    resumed = softqd.run(algorithm, resume=True, **options)
    straight = softqd.run(algorithm, num_iterations=40)
    assert not resumed.interrupted
    np.testing.assert_array_equal(
        resumed.population.solutions, straight.population.solutions
    )
    assert resumed.history["iteration"].tolist() == [0, 10, 20, 30, 40]


def test_ctrl_c_at_a_prompt_returns_what_there_is(algorithm, monkeypatch):
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    results = softqd.run(algorithm, [0, 1], callback=interrupt_at(10))
    assert [iterations(result) for result in results] == [10, 10]
    assert all(result.interrupted for result in results)


def test_ctrl_c_at_the_last_moment_is_not_lost(algorithm):
    with pytest.raises(softqd.Interrupted) as caught:
        softqd.run(algorithm, num_iterations=10, callback=interrupt_at(10))
    assert iterations(caught.value.result) == 10


def test_a_comparison_is_interrupted_as_before(tmp_path, monkeypatch):
    from softqd.experiment import drive

    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)

    class Pressed(drive.Deferred):
        def __enter__(self):
            super().__enter__().pending = signal.SIGINT
            return self

    monkeypatch.setattr(drive, "Deferred", Pressed)
    with pytest.raises(KeyboardInterrupt):
        softqd.compare(make_bowl(), {"climb": climb}, 1, evaluations=64, out=tmp_path)
