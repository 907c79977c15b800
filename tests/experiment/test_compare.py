import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from toys import climb, make_bowl

import softqd
from softqd.experiment.folder import finish_folder
from softqd.experiment.many import group
from softqd.experiment.many.comparison import COMPARED

BOWL = "toys:make_bowl"
CLIMB = "toys:climb"
ALGORITHMS = ["squad", CLIMB]
SMALL = ["squad.population_size=16", "squad.batch_size=16", f"{CLIMB}.size=8"]


def compare(out, seeds=3, problem=BOWL, algorithms=ALGORITHMS, **options):
    settings = [text for text in SMALL if text.rpartition(".")[0] in algorithms]
    options = {"settings": settings, "evaluations": 400} | options
    return softqd.compare(problem, algorithms, seeds, out=out, **options)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    out = tmp_path_factory.mktemp("compare") / "experiment"
    return out, compare(out)


@pytest.fixture
def copy(kept, tmp_path):
    """A copy of the finished experiment, to be changed."""
    return shutil.copytree(kept[0], tmp_path / "copy")


@pytest.fixture
def fake_run(kept, monkeypatch):
    """Runs that only read what `kept` holds, or fail; gives the seeds of all calls."""

    def install(is_failing=lambda seeds: False, error=None):
        calls = []

        def run_lanes(algorithm, lanes, *rest):
            calls.append(lanes.seeds)
            if is_failing(lanes.seeds):
                raise error
            name = "squad" if algorithm.name == "squad" else "toys.climb"
            folders = [kept[0] / name / f"seed_{s % 3}" for s in lanes.seeds]
            return [softqd.load(folder) for folder in folders]

        monkeypatch.setattr(group, "run_lanes", run_lanes)
        return calls

    return install


def test_every_run_has_its_folder(kept):
    out, found = kept
    folders = sorted(p.relative_to(out).as_posix() for p in out.glob("*/*"))
    names = {"squad": "squad", CLIMB: "toys.climb"}
    assert folders == [f"{a}/seed_{s}" for a in names.values() for s in range(3)]
    for name, folder in names.items():
        metrics = json.loads((out / folder / "seed_2" / "metrics.json").read_text())
        for metric in COMPARED:
            assert found.algorithms[name].values[metric][2] == metrics[metric]
        assert metrics["notes"]["seconds"] == "of 3 runs that advanced together"
        assert softqd.load(out / folder / "seed_2").seed == 2


def test_a_run_is_what_run_gives(kept):
    algorithm = climb(make_bowl(), size=8)
    alone = softqd.run(algorithm, 1, max_evaluations=400)
    together = softqd.load(kept[0] / "toys.climb" / "seed_1")
    assert together.history["iteration"][-1] == alone.history["iteration"][-1] == 49
    np.testing.assert_allclose(
        together.population.quality, alone.population.quality, rtol=1e-3
    )


def test_budgets(kept):
    squad, other = (kept[1].algorithms[name].values for name in ALGORITHMS)
    # 5 times 16 at the start, and 16 and two children an iteration: 17 fit into 400.
    assert squad["evaluations"] == [80 + 17 * 18] * 3
    assert other["evaluations"] == [8 + 49 * 8] * 3
    assert kept[1].evaluations == 400


def test_the_published_squad_evaluates_twice_an_iteration(tmp_path):
    settings = ["squad_published.population_size=16", "squad_published.batch_size=16"]
    found = compare(tmp_path, 1, algorithms=["squad_published"], settings=settings)
    values = found.algorithms["squad_published"].values
    # 16 at the start and 32 an iteration: 12 fit into 400.
    assert values["evaluations"] == [16 + 12 * 32]
    assert values["gradient_evaluations"] == [12 * 16]


def test_statistics_are_scipys(kept):
    found = kept[1]
    squad, climb = (found.algorithms[n].values["vendi_score"] for n in ALGORITHMS)
    table = found.statistics["vendi_score"]
    best, other = ALGORITHMS if np.mean(squad) > np.mean(climb) else ALGORITHMS[::-1]
    p = stats.mannwhitneyu(squad, climb).pvalue
    assert table["best"] == best
    assert table["algorithms"][other]["p"] == p
    assert table["algorithms"][best]["p"] is None
    assert table["kruskal_p"] == stats.kruskal(squad, climb).pvalue
    assert table["algorithms"][CLIMB]["stderr"] == stats.sem(climb)
    assert table["not_worse"] == [other]  # three seeds: p is at least 0.1
    assert found.warnings == [
        "3 seeds cannot tell 2 algorithms apart: from 4 seeds a Mann-Whitney test can "
        "reach p < 0.05 after correction"
    ]


def test_files_hold_the_comparison(kept):
    out, found = kept
    assert softqd.load_comparison(out) == found
    with open(out / "comparison.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["algorithm"], row["seed"]) for row in rows] == [
        (name, str(seed)) for name in ALGORITHMS for seed in range(3)
    ]
    assert float(rows[4]["qvs"]) == found.algorithms[CLIMB].values["qvs"][1]


def test_finished_runs_are_kept_and_seeds_added(copy, kept, fake_run):
    calls = fake_run()
    found = compare(copy, seeds=[4, 1, 2], algorithms=["squad"])
    assert calls == [[4]]
    assert found.algorithms["squad"].seeds == [4, 1, 2]
    values = found.algorithms["squad"].values["qvs"]
    assert values[1:] == kept[1].algorithms["squad"].values["qvs"][1:]


def test_interrupted_runs_continue_bit_for_bit(kept, tmp_path, monkeypatch):
    def interrupt(self, share, iteration, latest):
        if iteration == 10:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(group._Share, "update", interrupt)
        with pytest.raises(KeyboardInterrupt):
            compare(tmp_path, algorithms=[CLIMB])
    assert len(list(tmp_path.glob("unfinished/*/state.npz"))) == 1
    # Those that were interrupted together continue together.
    found = compare(tmp_path, seeds=2, algorithms=[CLIMB])
    assert (tmp_path / "toys.climb" / "seed_2" / "metrics.json").exists()
    assert not (tmp_path / "unfinished").exists()
    entry = kept[1].algorithms[CLIMB]
    for metric in COMPARED:
        expected = entry.values[metric][:2]
        assert found.algorithms[CLIMB].values[metric] == expected


def test_an_interrupted_run_of_another_budget_is_refused(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(group, "run_lanes", interrupt)
        with pytest.raises(KeyboardInterrupt):
            compare(tmp_path, algorithms=["squad"])
    with pytest.raises(ValueError, match=r"evaluations=400, this .* has 500"):
        compare(tmp_path, algorithms=["squad"], evaluations=500)
    with pytest.raises(ValueError, match="with problem name='toys:make_bowl'"):
        compare(tmp_path, algorithms=[CLIMB], problem="sphere")


@pytest.mark.parametrize(
    "name",
    ["metrics.json", "config.toml", "population.npz", "history.csv", "result.json"],
)
def test_half_written_folders_are_written_again(copy, fake_run, name):
    torn = copy / "toys.climb" / "seed_1"
    (torn / name).write_text("")
    if name == "metrics.json":
        (torn / name).unlink()
        (torn / "config.toml").write_text("[prob")
    calls = fake_run()
    found = compare(copy)
    assert calls == [[1]]
    assert found.algorithms[CLIMB].seeds == [0, 1, 2]
    assert softqd.load(torn).config["run"]["seed"] == 1


def test_one_failing_run_leaves_the_others_alone(copy, fake_run):
    shutil.rmtree(copy / "squad")
    error = softqd.NonFiniteError("not finite")
    calls = fake_run(lambda seeds: 1 in seeds, error)
    found = compare(copy)
    assert calls == [[0, 1, 2], [0], [1], [2]]
    assert found.algorithms["squad"].seeds == [0, 2]
    assert found.algorithms["squad"].failures == {1: "not finite"}
    assert found.algorithms[CLIMB].seeds == [0, 1, 2]
    assert found.warnings[0] == "squad failed with seed 1: not finite"
    assert softqd.load_comparison(copy) == found
    calls = fake_run()
    again = compare(copy)  # what failed is tried again
    assert calls == [[1]]
    assert again.algorithms["squad"].seeds == [0, 1, 2]
    assert again.algorithms["squad"].failures == {}


def test_a_folder_that_cannot_be_written_fails_alone(tmp_path, fake_run, monkeypatch):
    def finish(folder, *rest, **options):
        if folder.name == "seed_1":
            raise OSError("no space left")
        return finish_folder(folder, *rest, **options)

    calls = fake_run()
    with monkeypatch.context() as patch:
        patch.setattr(group, "finish_folder", finish)
        found = compare(tmp_path, algorithms=[CLIMB])
    assert found.algorithms[CLIMB].failures == {1: "no space left"}
    assert calls == [[0, 1, 2]]
    again = compare(tmp_path, algorithms=[CLIMB])  # from the state that was kept
    assert calls == [[0, 1, 2]] * 2
    assert again.algorithms[CLIMB].failures == {}
    assert not (tmp_path / "unfinished").exists()


def test_seeds_are_halved_where_memory_does_not_suffice(tmp_path, fake_run):
    error = RuntimeError("RESOURCE_EXHAUSTED: out of memory")
    calls = fake_run(lambda seeds: len(seeds) > 2, error)
    found = compare(tmp_path, seeds=4, algorithms=[CLIMB])
    assert calls == [[0, 1, 2, 3], [0, 1], [2, 3]]
    assert found.algorithms[CLIMB].seeds == [0, 1, 2, 3]


def test_an_algorithm_that_cannot_run_is_reported():
    problem = make_bowl(behavior_bounds=None)
    found = softqd.compare(problem, ["ga_me", CLIMB], 1, evaluations=100)
    assert "no finite behavior_bounds" in found.algorithms["ga_me"].failures[0]
    assert found.algorithms[CLIMB].seeds == [0]
    assert found.statistics["qd_score"]["best"] == CLIMB
    assert "diversity is in units of the first population" in found.warnings[0]
    assert found.statistics["mean_quality"]["best"] == CLIMB


def test_a_missing_metric_is_left_out_and_said(copy):
    path = copy / "toys.climb" / "seed_0" / "metrics.json"
    metrics = json.loads(path.read_text())
    del metrics["qvs"]
    path.write_text(json.dumps(metrics))
    found = compare(copy)
    assert found.algorithms[CLIMB].values["qvs"][0] is None
    assert found.statistics["qvs"]["algorithms"][CLIMB]["num"] == 2
    assert "qvs is missing in 1 of 3 runs of toys:climb" in found.warnings[0]


def test_another_version_is_said(copy):
    path = copy / "toys.climb" / "seed_0" / "result.json"
    result = json.loads(path.read_text())
    result["versions"]["softqd"] = "0.0.1"
    path.write_text(json.dumps(result))
    warning = compare(copy).warnings[0]
    assert "different versions" in warning
    assert "softqd 0.0.1" in warning


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"problem": "sphere"}, r"problem name='toys:make_bowl', .* 'sphere'"),
        ({"evaluations": 500}, r"evaluations=400, this comparison has 500"),
        ({"settings": SMALL[:2]}, r"climb.seed_0 holds .* size=8, .* 16"),
    ],
)
def test_a_folder_of_another_comparison_is_refused(copy, change, message):
    with pytest.raises(ValueError, match=message):
        compare(copy, **change)


def test_damaged_files_are_named(copy):
    (copy / "toys.climb" / "seed_0" / "metrics.json").write_text("{")
    with pytest.raises(ValueError, match=r"metrics.json is not a JSON file.*remove"):
        compare(copy)
    (copy / "comparison.json").write_text('{"schema": 7}')
    with pytest.raises(ValueError, match="not of this version"):
        softqd.load_comparison(copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": [1, 2, 1]}, r"duplicates: \[1\]"),
        ({"seeds": 0}, "seeds must be a whole number between 1 and 1000000; got 0"),
        ({"algorithms": ["squad", "squad"]}, "duplicates: squad, squad"),
        ({"algorithms": ["squid"]}, "did you mean 'squad'"),
        ({"algorithms": "squad"}, "list of names"),
        ({"problem": "spere"}, "did you mean 'sphere'"),
        (
            {"evaluations": 15},
            r"no algorithm can run.* squad: .* 80 \+ 18; toys:climb: .* 8 \+ 8",
        ),
        ({"evaluations": 0}, "evaluations must be a whole number at least 1"),
        ({"jobs": 0}, "jobs must be a whole number at least 1"),
        (
            {"settings": ["ga_me.cells=3"]},
            "ALGORITHM.NAME=VALUE for one of squad, toys:climb",
        ),
        ({"problem": make_bowl(), "jobs": 2}, "jobs > 1 needs a problem"),
        ({"problem": make_bowl(), "settings": ["dim=2"]}, "given by name"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        compare(tmp_path, **change)
    assert not list(tmp_path.iterdir())


CRASHING = """
import os, sys, toys

def crashing(problem):
    if "pytest" not in sys.modules:
        os._exit(3)
    return toys.climb(problem)
"""


@pytest.mark.slow
def test_processes_give_the_same_and_survive_a_crash(kept, tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text(CRASHING)
    monkeypatch.syspath_prepend(tmp_path)
    out, names = tmp_path / "out", [CLIMB, "own:crashing"]
    found = compare(out, 2, algorithms=names, settings=SMALL[2:], jobs=2)
    expected = kept[1].algorithms[CLIMB].values["mean_quality"]
    values = found.algorithms[CLIMB].values["mean_quality"]
    np.testing.assert_allclose(values, expected[:2], rtol=1e-3)
    failures = found.algorithms["own:crashing"].failures
    assert failures == dict.fromkeys([0, 1], "its process ended with status 3")


@pytest.fixture
def long_comparison(tmp_path):
    """A comparison in two processes that would take hours, once both are under way."""
    # Programs started in the background ignore Ctrl-C unless they say otherwise.
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    start = f"{listen}; from softqd.cli import main; main()"
    command = [sys.executable, "-c", start, "compare", BOWL, "--jobs", "2"]
    command += ["--algorithms", CLIMB, "--seeds", "2", "--evaluations", "1000000000"]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: len(list(tmp_path.glob(f"{UNFINISHED}/lanes.json"))) == 2)
    assert process.poll() is None
    time.sleep(0.5)
    yield process
    process.kill()
    process.communicate()


UNFINISHED = "unfinished/*"


def wait_for(is_so, seconds=60):
    deadline = time.time() + seconds
    while not is_so():
        assert time.time() < deadline
        time.sleep(0.1)


@pytest.mark.slow
def test_ctrl_c_reaches_the_processes(tmp_path, long_comparison):
    long_comparison.send_signal(signal.SIGINT)
    _, err = long_comparison.communicate(timeout=60)
    assert long_comparison.returncode == 130
    assert "interrupted; continue with the same command" in err
    assert "Traceback" not in err
    states = tmp_path.glob(f"{UNFINISHED}/state.npz")
    lanes = [json.loads((p.parent / "lanes.json").read_text()) for p in states]
    assert sorted(lane["seeds"] for lane in lanes) == [[0], [1]]


@pytest.mark.slow
def test_processes_end_when_the_parent_is_killed(tmp_path, long_comparison):
    """The kernel lists them; each keeps its state as after Ctrl-C."""
    children = f"/proc/{long_comparison.pid}/task/{long_comparison.pid}/children"
    if not os.path.exists(children):
        pytest.skip("needs Linux's list of child processes")
    workers = Path(f"/proc/{long_comparison.pid}/task").glob("*/children")
    pids = " ".join(path.read_text() for path in workers).split()
    assert len(pids) == 2
    long_comparison.kill()
    wait_for(lambda: len(list(tmp_path.glob(f"{UNFINISHED}/state.npz"))) == 2)
    wait_for(lambda: not any(is_running(pid) for pid in pids))


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_functions_are_compared_as_they_are(tmp_path, bowl):
    """What a user built, beside a name; continued where it was left."""
    built = {"mine": lambda problem: climb(problem, size=8), "named": CLIMB}
    options = {"evaluations": 200, "settings": ["named.size=8"], "out": tmp_path}
    found = softqd.compare(bowl, built, 2, **options)
    mine, named = (found.algorithms[name] for name in built)
    assert mine.values["qvs"] == named.values["qvs"]
    assert mine.settings["size"] == 8
    again = softqd.compare(bowl, built, 2, **options)
    assert again.algorithms["mine"].values == mine.values


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"a b": "squad"}, "must be a label"),
        ({"mine": 3}, "to a name or a function of a problem; got 3"),
        ([climb], "give functions as a dictionary"),
        ({}, "a dictionary of labels"),
    ],
)
def test_what_is_no_algorithm_is_refused(bowl, given, words):
    with pytest.raises(ValueError, match=words):
        softqd.compare(bowl, given, 1, evaluations=100)


def test_a_function_that_builds_nothing_is_reported(bowl):
    built = {"broken": lambda problem: 3, "mine": lambda p: climb(p, size=8)}
    found = softqd.compare(bowl, built, 1, evaluations=100)
    assert (
        "must return a softqd.Algorithm; got 3"
        in (found.algorithms["broken"].failures[0])
    )
    assert found.algorithms["mine"].seeds == [0]


def test_settings_of_a_function_are_its_own(bowl):
    with pytest.raises(ValueError, match="'mine', which is a function"):
        softqd.compare(bowl, {"mine": climb}, 1, settings=["mine.size=8"])


def test_functions_stay_in_this_process():
    with pytest.raises(ValueError, match="instead of a function for mine"):
        softqd.compare(BOWL, {"mine": climb}, 2, jobs=2)
