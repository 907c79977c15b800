"""Problems in plain Python: here, in threads, in processes that die or hang."""

import functools
import os
import signal
import subprocess
import sys
import threading
import types
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest
import simulators
from toys import make_bowl

import softqd
from softqd.interop.host import EvaluationError, executing, problem, processes


def sample(rng):
    return rng.normal(size=6)


def make(evaluate=simulators.bowl, **settings):
    settings = {"behavior_bounds": ((0, 0), (1, 1)), "quality_level": 0.0, **settings}
    return problem(evaluate, sample, **settings)


def dns(problem):
    return softqd.dns(problem, population_size=8, batch_size=8)


def assert_same(one, other, **tolerance):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


SOLUTIONS = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
RUN = {"seed": 1, "num_iterations": 4, "log_every": 2}


@pytest.fixture(scope="module")
def straight():
    return softqd.run(dns(make()), **RUN)


def test_it_finds_what_the_same_function_in_jax_does():
    same = {**RUN, "solutions": SOLUTIONS}
    expected = softqd.run(dns(make_bowl()), **same)
    found = softqd.run(dns(make()), **same)
    assert_same(found.population, expected.population, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(
        found.history["evaluations"], expected.history["evaluations"]
    )


def test_workers_change_nothing(straight):
    sizes = []

    def counted(x):
        sizes.append(threading.current_thread().name)
        return simulators.bowl(x)

    with ThreadPoolExecutor(3, "worker") as pool:
        found = softqd.run(dns(make(counted, executor=pool)), **RUN)
        with executing(pool):
            again = softqd.run(dns(make(counted)), **RUN)
    assert_same(found.population, straight.population)
    assert_same(again.population, straight.population)
    assert all(name.startswith("worker") for name in sizes)
    assert len(sizes) == 2 * straight.history["evaluations"][-1]


def test_seeds_side_by_side_are_each_alone(straight):
    batches = []

    class Pool(ThreadPoolExecutor):
        def submit(self, *args):
            batches.append(len(batches))
            return super().submit(*args)

    with Pool(1) as pool:
        many = softqd.run(dns(make(executor=pool)), **{**RUN, "seed": [5, 1]})
    assert_same(many[1].population, straight.population, rtol=1e-5)
    assert len(batches) == 2 * straight.history["evaluations"][-1]


def test_randomness_is_the_runs_own():
    found = [softqd.run(dns(make(simulators.noisy)), **RUN) for _ in range(2)]
    assert_same(found[0].population, found[1].population)
    true, _ = zip(*map(simulators.bowl, found[0].population.solutions), strict=True)
    assert np.abs(found[0].population.quality - true).min() > 1e-3


def test_evaluations_survive_the_end_of_the_process(tmp_path, straight):
    """None is made twice: neither before the first checkpoint nor after one."""
    calls, stop_at = [], [5, 19, 30]

    def mortal(x):
        if stop_at and len(calls) == stop_at[0]:
            stop_at.pop(0)
            raise SystemExit  # as the process would end: nothing is saved
        calls.append(x)
        return simulators.bowl(x)

    algorithm, kept = dns(make(mortal)), {"checkpoint_dir": tmp_path, "resume": True}
    for _ in range(3):
        with pytest.raises(SystemExit):
            softqd.run(algorithm, **RUN, **kept, checkpoint_every=0.0)
    journal = tmp_path / "journal.jsonl"
    journal.write_text(journal.read_text() + '\n{"solution": "torn')
    found = softqd.run(algorithm, **RUN, **kept)
    assert_same(found.population, straight.population)
    assert len(calls) == straight.history["evaluations"][-1] == 40
    assert not journal.exists()


def test_a_second_ctrl_c_keeps_what_whole_iterations_have_found(tmp_path, straight):
    """In the middle of the second iteration; what was paid for in it is not lost."""
    calls = []

    def impatient(x):
        calls.append(x)
        if len(calls) == 20:
            for _ in range(2):
                signal.raise_signal(signal.SIGINT)
        return simulators.bowl(x)

    algorithm, folder = dns(make(impatient, name="bowl")), tmp_path / "state"
    with pytest.raises(softqd.Interrupted) as caught:
        softqd.run(algorithm, **RUN | {"log_every": 1}, checkpoint_dir=folder)
    result = caught.value.result
    assert result.interrupted
    assert result.history["evaluations"].tolist() == [8, 16]
    assert len(result.population) == 8
    found = softqd.run(algorithm, **RUN, checkpoint_dir=folder, resume=True)
    assert_same(found.population, straight.population)
    assert len(calls) == 40 + 1  # the one that was interrupted


def test_workers_that_ctrl_c_has_reached_are_asked_again(straight):
    """A terminal sends it to all processes; the run ends when it wants to."""

    class Terminal(Executor):
        is_quiet = False

        def submit(self, function, /, *args):
            future = Future()
            if self.is_quiet:
                future.set_result(function(*args))
            else:
                self.is_quiet = True
                future.set_exception(KeyboardInterrupt())
            return future

    found = softqd.run(dns(make(executor=Terminal())), **RUN)
    assert_same(found.population, straight.population)


def test_a_new_run_knows_nothing_of_an_old_journal(tmp_path, straight):
    (tmp_path / "journal.jsonl").write_text('{"solution": "a", "quality": 1}')
    found = softqd.run(dns(make()), **RUN, checkpoint_dir=tmp_path)
    assert_same(found.population, straight.population)


def check_failure(problem, match, folder, at=None):
    with pytest.raises(EvaluationError, match=match) as caught:
        softqd.run(dns(problem), solutions=SOLUTIONS, checkpoint_dir=folder)
    at = SOLUTIONS[0] if at is None else at
    np.testing.assert_array_equal(caught.value.solution, at)
    assert str(caught.value.path) in str(caught.value)
    with np.load(caught.value.path) as saved:
        np.testing.assert_array_equal(saved["solution"], at)
    return caught.value


def test_an_error_is_the_users_and_its_solution_is_kept(tmp_path):
    error = check_failure(
        make(simulators.raises), "ZeroDivisionError: no wind", tmp_path
    )
    assert error.path.parent == tmp_path
    assert error.__cause__.__traceback__.tb_next.tb_frame.f_code.co_name == "raises"


@pytest.mark.parametrize(
    ("value", "got"),
    [
        ((1.0, np.ones(3)), r"got shapes \(\) and \(3,\)"),
        ((np.ones(1), np.ones(2)), r"got shapes \(1,\) and \(2,\)"),
        (3.0, "got float"),
        (None, "got NoneType"),
        (("good", [0, 1]), "got tuple"),
    ],
)
def test_what_is_not_a_quality_and_a_behavior_is_refused(value, got, tmp_path):
    check_failure(make(lambda x: value), f"evaluate must return .* {got}", tmp_path)


def test_failed_evaluations_are_nan():
    """At the start the run says which; later they are passed over."""
    with pytest.raises(ValueError, match="quality of solution 0 at the start"):
        softqd.run(dns(make(lambda x: (np.nan, np.zeros(2)))), solutions=SOLUTIONS)
    calls = []

    def later(x):
        calls.append(1)
        return simulators.bowl(x) if len(calls) <= 8 else (np.nan, [np.nan] * 2)

    found = softqd.run(dns(make(later)), solutions=SOLUTIONS, num_iterations=1)
    assert_same(found.population.solutions, SOLUTIONS)


def test_dimensions_are_found_out():
    calls = []

    def counted(x):
        calls.append(1)
        return simulators.bowl(x)

    assert make(counted).behavior_dim == 2
    assert make(counted, behavior_bounds=(0, 1), behavior_dim=2).behavior_dim == 2
    assert not calls
    assert make(counted, behavior_bounds=(0, 1)).behavior_dim == 2
    assert len(calls) == 1
    with pytest.raises(ValueError, match="give behavior_dim="):
        softqd.run(dns(problem(counted)), solutions=SOLUTIONS)


def test_squad_says_that_it_goes_on_without_gradients():
    algorithm = softqd.squad(make(), population_size=4)
    with pytest.warns(UserWarning, match="squad goes on with children alone"):
        result = softqd.run(algorithm, num_iterations=1)
    assert result.history["gradient_evaluations"].tolist() == [0, 0]
    softqd.run(softqd.squad(make(is_differentiable=False), population_size=4), 0, 1)


@pytest.mark.parametrize("name", ["ga_me", "cma_mega", "dns_g", "squad_published"])
def test_others_say_what_to_use_instead_before_anything_is_evaluated(name):
    cells = {"centroids": np.eye(2)} if name in ("ga_me", "cma_mega") else {}
    algorithm = getattr(softqd, name)(make(simulators.raises), **cells)
    with pytest.raises(ValueError, match=r"no gradient, .*use softqd\.dns"):
        softqd.run(algorithm)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"executor": 8}, r"host.processes\(8\) opens"),
        ({"timeout": 3.0}, "timeout needs an executor"),
        ({"timeout": 0.0}, "timeout must be a positive"),
        ({"retries": -1}, "retries must be a whole number"),
        ({"is_differentiable": True}, "has no gradient"),
        ({"evaluate": None}, "evaluate must be a function"),
    ],
)
def test_wrong_arguments_are_said(settings, match):
    with pytest.raises(ValueError, match=match):
        make(**settings)


def typed(x):
    """As in a notebook, whose main module is no file."""
    return simulators.bowl(x)


def test_functions_that_processes_cannot_find_are_said(monkeypatch):
    typed.__module__ = "__main__"
    main = types.ModuleType("__main__")
    main.typed = typed
    monkeypatch.setitem(sys.modules, "__main__", main)
    with processes(1) as pool:  # opens none before it is handed something
        for evaluate in (lambda x: simulators.bowl(x), functools.partial(typed)):
            algorithm = dns(make(evaluate, executor=pool))
            with pytest.raises(ValueError, match="at the top of a module and import"):
                softqd.run(algorithm, num_iterations=1)


def test_samples_are_arrays_of_numbers():
    with pytest.raises(ValueError, match=r"floating point arrays .* got \['int64'\]"):
        problem(simulators.bowl, lambda rng: rng.integers(3, size=2))


KILLED = """
import os, signal, sys
import numpy as np, softqd

def evaluate(x):
    with open("paid", "a") as file:
        file.write(f"{x[0]}\\n")
        paid = file.tell()
    if paid > 250 and not os.path.exists("killed"):
        open("killed", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return 10.0 - float(np.sum(x**2)), np.tanh(x[:2])

problem = softqd.interop.host.problem(
    evaluate, lambda rng: rng.normal(size=6), ((-1, -1), (1, 1)))
algorithm = softqd.dns(problem, population_size=8, batch_size=8)
result = softqd.run(
    algorithm, num_iterations=4, checkpoint_dir=sys.argv[1], resume=True)
result.save("result")
"""


@pytest.mark.slow
def test_what_was_paid_for_survives_a_kill(tmp_path):
    found = []
    for name in ("straight", "killed"):
        folder = tmp_path / name
        folder.mkdir()
        if name == "straight":
            (folder / "killed").touch()
        for status in [0] if name == "straight" else [-signal.SIGKILL, 0]:
            command = [sys.executable, "-c", KILLED, "checkpoint"]
            assert subprocess.run(command, cwd=folder).returncode == status
        found.append(softqd.load(folder / "result").population)
    assert_same(*found)
    paid = (tmp_path / "killed" / "paid").read_text().splitlines()
    assert len(paid) == 40 + 1  # the one under way when the process was killed


TERMINAL = """
import os, signal, threading
import softqd
from simulators import bowl_slowly

def ctrl_c(point):
    if point.iteration == 2:
        threading.Timer(0.1, os.killpg, (0, signal.SIGINT)).start()

if __name__ == "__main__":
    with softqd.interop.host.processes(2) as pool:
        problem = softqd.interop.host.problem(
            bowl_slowly, lambda rng: rng.normal(size=6), ((0, 0), (1, 1)), pool)
        algorithm = softqd.dns(problem, population_size=8, batch_size=8)
        try:
            softqd.run(algorithm, num_iterations=500, log_every=1, callback=ctrl_c)
        except softqd.Interrupted as end:
            print(len(end.result.population), end.result.history["iteration"][-1] > 2)
"""


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_leaves_a_result(tmp_path):
    """It reaches the workers too, which go on."""
    (tmp_path / "main.py").write_text(TERMINAL)
    folder = Path(simulators.__file__).parent
    done = subprocess.run(
        [sys.executable, "main.py"],
        **{"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(folder)}},
        **{"capture_output": True, "text": True, "start_new_session": True},
    )
    assert done.stdout == "8 True\n", done.stderr
    assert not done.stderr


@pytest.fixture(scope="module")
def pool():
    with processes(2) as pool:
        yield pool


@pytest.mark.slow
class TestProcesses:
    def test_they_change_nothing(self, pool, straight):
        found = softqd.run(dns(make(executor=pool)), **RUN)
        assert_same(found.population, straight.population)

    def test_an_error_has_the_workers_traceback(self, pool, tmp_path):
        raises = functools.partial(simulators.raises_at, SOLUTIONS[3])
        failing = make(raises, executor=pool, name="bowl")
        error = check_failure(
            failing, "ZeroDivisionError: no wind", tmp_path, SOLUTIONS[3]
        )
        assert "in raises" in str(error.__cause__.__cause__)

    @pytest.mark.parametrize("kind", ["dies", "hangs"])
    def test_a_worker_that_fails_once_is_replaced(self, kind, tmp_path):
        expected = softqd.run(dns(make()), solutions=SOLUTIONS, num_iterations=2)
        evaluate = functools.partial(getattr(simulators, kind), tmp_path, SOLUTIONS[3])
        with processes(2) as pool:
            algorithm = dns(make(evaluate, executor=pool, timeout=5.0, name="bowl"))
            found = softqd.run(algorithm, solutions=SOLUTIONS, num_iterations=2)
        assert (tmp_path / "done").exists()
        assert_same(found.population, expected.population)

    @pytest.mark.parametrize(
        ("kind", "match"),
        [("dies", "ended its worker"), ("hangs", "did not return within 2 seconds")],
    )
    def test_a_solution_that_workers_fail_at_is_named(self, kind, match, tmp_path):
        evaluate = functools.partial(getattr(simulators, kind), None, SOLUTIONS[3])
        with processes(2) as pool:
            failing = make(evaluate, executor=pool, timeout=2.0, name="bowl")
            check_failure(
                failing, f"{match}.*2 times and alone", tmp_path, SOLUTIONS[3]
            )
