import json
import shutil

import numpy as np
import pytest
from toys import climb, make_bowl

import softqd
from softqd.experiment import config as configs
from softqd.experiment.many import group
from softqd.experiment.many.budget import with_budgets
from softqd.experiment.many.grid import parse_grid
from softqd.experiment.many.group import Group
from softqd.experiment.many.plan import grid_methods
from softqd.experiment.many.runs import stacked

BOWL, CLIMB = "toys:make_bowl", "toys:climb"
GRID = {"sigma": [0.01, 0.1, 1.0]}
LABELS = [f"sigma={value}" for value in GRID["sigma"]]


def sweep(out, grid=GRID, seeds=2, problem=BOWL, **options):
    options = {"evaluations": 200, "settings": ["size=8"]} | options
    return softqd.sweep(problem, CLIMB, grid, seeds, out=out, **options)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    out = tmp_path_factory.mktemp("sweep") / "experiment"
    return out, sweep(out)


@pytest.fixture
def copy(kept, tmp_path):
    """A copy of the finished sweep, to be changed."""
    return shutil.copytree(kept[0], tmp_path / "copy")


@pytest.fixture
def calls(kept, monkeypatch):
    """Runs that only read what `kept` holds.

    Gives what was run together: the first number of every lane, or the seeds of a
    setting by itself.
    """
    found = []

    def results(seeds):
        return [softqd.load(kept[0] / LABELS[0] / f"seed_{s % 2}") for s in seeds]

    def run_lanes(algorithm, lanes, *rest):
        numbers = lanes.numbers
        if numbers is None:
            found.append(lanes.seeds)
        else:
            found.append(np.round(numbers[:, 0].tolist(), 6).tolist())
        return results(lanes.seeds)

    monkeypatch.setattr(group, "run_lanes", run_lanes)
    return found


def test_a_run_is_what_run_gives(kept):
    algorithm = climb(make_bowl(), size=8, sigma=0.1)
    alone = softqd.run(algorithm, 1, max_evaluations=200)
    together = softqd.load(kept[0] / "sigma=0.1" / "seed_1")
    assert together.config["algorithm"]["sigma"] == 0.1
    for name in ("mean_quality", "evaluations"):
        np.testing.assert_allclose(
            together.history[name], alone.history[name], rtol=1e-4
        )
    np.testing.assert_allclose(
        together.population.behavior, alone.population.behavior, rtol=1e-3
    )


def test_the_best_has_the_highest_mean(kept):
    out, found = kept
    means = {}
    for label in LABELS:
        paths = (out / label).glob("seed_*/metrics.json")
        means[label] = np.mean([json.loads(path.read_text())["qvs"] for path in paths])
    assert found.best == max(means, key=means.get)
    assert found.config["algorithm"]["sigma"] == found.points[found.best]["sigma"]
    row = found.comparison.statistics["qvs"]["algorithms"][found.best]
    np.testing.assert_allclose(row["mean"], means[found.best])


def test_another_metric_needs_no_new_run(copy, kept, calls):
    found = sweep(copy, metric="mean_quality")
    assert calls == []
    assert found.metric == "mean_quality"
    values = [
        np.mean(entry.values["mean_quality"])
        for entry in kept[1].comparison.algorithms.values()
    ]
    assert found.best == LABELS[int(np.argmax(values))]


def test_files_hold_the_sweep(kept):
    out, found = kept
    assert softqd.load_sweep(out) == found
    config = configs.from_file(out / "preset.toml", trust=True)
    assert config["algorithm"] == {"name": CLIMB, "size": 8, **found.points[found.best]}
    assert config["run"]["evaluations"] == 200
    (out / "other").mkdir()
    (out / "other" / "sweep.json").write_text('{"schema": 9}')
    with pytest.raises(ValueError, match="not of this version"):
        softqd.load_sweep(out / "other")


def test_numbers_go_together_and_sizes_apart(tmp_path, calls):
    found = sweep(tmp_path, {"sigma": [0.1, 1.0], "size": [4, 8]}, settings=[])
    assert calls == [[0.1, 0.1, 1.0, 1.0]] * 2
    assert list(found.points) == [
        f"sigma={sigma},size={size}" for sigma in (0.1, 1.0) for size in (4, 8)
    ]
    assert found.comparison.evaluations == 200


def test_iterations_are_those_of_the_cheapest_setting(tmp_path, calls):
    """4 at the start and in each of 5 iterations, so 2 iterations of 8."""
    options = {"iterations": 5, "evaluations": None, "settings": []}
    found = sweep(tmp_path, {"size": [4, 8]}, **options)
    assert found.comparison.evaluations == 4 + 5 * 4


def test_values_and_seeds_are_added_to_what_is_there(copy, kept, calls):
    found = sweep(copy, {"sigma": [0.1, 0.5]}, seeds=3)
    assert calls == [[2], [0, 1, 2]]  # of 0.1, and of 0.5
    before = kept[1].comparison.algorithms["sigma=0.1"].values["qvs"]
    assert found.comparison.algorithms["sigma=0.1"].values["qvs"][:2] == before


def test_interrupted_runs_continue_bit_for_bit(kept, tmp_path, monkeypatch):
    def interrupt(self, share, iteration, latest):
        if iteration == 10:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(group._Share, "update", interrupt)
        with pytest.raises(KeyboardInterrupt):
            sweep(tmp_path)
    assert len(list(tmp_path.glob("unfinished/*/state.npz"))) == 1
    found = sweep(tmp_path)
    assert not (tmp_path / "unfinished").exists()
    for label in LABELS:
        entries = kept[1].comparison.algorithms, found.comparison.algorithms
        first, second = (entry[label].values["qvs"] for entry in entries)
        assert first == second


def test_what_was_interrupted_together_continues_together(tmp_path, calls, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(group, "run_lanes", interrupt)
        with pytest.raises(KeyboardInterrupt):
            sweep(tmp_path)
    sweep(tmp_path, {"sigma": [10.0, *GRID["sigma"]]}, seeds=3)
    # The three with their two seeds, then the new seed of each, and the new value.
    assert calls == [[0.01, 0.01, 0.1, 0.1, 1.0, 1.0], [0, 1, 2], [0.01, 0.1, 1.0]]
    assert not (tmp_path / "unfinished").exists()


def test_a_failing_setting_leaves_the_others_alone(kept, tmp_path):
    """Steps of 1e30 overflow the quality; no size is 0."""
    grid = {"sigma": [0.01, 1e30, 0.1], "size": [8, 0]}
    found = sweep(tmp_path, grid, settings=[])
    entries = found.comparison.algorithms
    failures = entries["sigma=1e+30,size=8"].failures
    assert "iteration 1: quality, behavior or gradient" in failures[0]
    assert entries["sigma=0.1,size=0"].failures[1] == "size must be at least 1; got 0"
    whole = entries["sigma=0.1,size=8"]
    expected = kept[1].comparison.algorithms["sigma=0.1"].values["mean_quality"]
    np.testing.assert_allclose(whole.values["mean_quality"], expected, rtol=1e-4)
    assert "advanced together" in (
        (tmp_path / "sigma=0.1,size=8" / "seed_0" / "metrics.json").read_text()
    )
    assert (tmp_path / "sigma=1e+30,size=8" / "seed_0" / "error.txt").exists()
    assert not (tmp_path / "unfinished").exists()
    assert any("sigma=1e+30,size=8 failed with seed 0" in w for w in found.warnings)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("RESOURCE_EXHAUSTED"), [["a"], ["b", "c"]]),
        (RuntimeError("another"), [["a"], ["b"], ["c"]]),
    ],
)
def test_a_stack_that_fails_is_run_in_parts(tmp_path, monkeypatch, error, expected):
    points = {"a": {"sigma": 0.1}, "b": {"sigma": 0.2}, "c": {"sigma": 0.3}}
    problem, methods = grid_methods(BOWL, CLIMB, points)
    _, methods = with_budgets(methods, 100, lambda method: "alike")
    seen = []

    def together(out, part, emit):
        if len(part.methods) > (2 if "EXHAUSTED" in str(error) else 1):
            raise error
        seen.append([method.name for method in part.methods])

    monkeypatch.setattr(group, "_run_together", together)
    (whole,) = stacked(tmp_path, [Group([m], [0], problem) for m in methods])
    group.run_group(tmp_path, whole, lambda event: None)
    assert seen == expected


def test_the_edge_of_the_grid_is_said(kept):
    value = kept[1].points[kept[1].best]["sigma"]
    word = {0.01: "smallest", 1.0: "largest"}.get(value)
    said = [text for text in kept[1].warnings if "of its grid" in text]
    assert len(said) == (word is not None)
    assert all(f"the best sigma, {value}, is the {word}" in text for text in said)


def test_a_comparison_takes_the_tuned_settings(kept, calls):
    preset = kept[0] / "preset.toml"
    found = softqd.compare(BOWL, [CLIMB], 1, evaluations=100, presets=[preset])
    tuned = kept[1].points[kept[1].best]["sigma"]
    assert found.algorithms[CLIMB].settings == {
        "name": CLIMB,
        "size": 8,
        "sigma": tuned,
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"algorithms": ["dns"]}, "is for algorithm 'toys:climb', and .* are dns"),
        ({"problem": "sphere"}, "tuned with problem name='toys:make_bowl', this one"),
        ({"settings": ["dim=3"]}, "problem dim=6, this one has 3"),
        ({"presets": ["p", "p"]}, "are both for algorithm 'toys:climb'; give one"),
        ({"presets": ["missing.toml"]}, "missing.toml cannot be used"),
        (
            {"presets": ["notes.toml"]},
            r"notes.toml cannot be used \('problem' is",
        ),
    ],
)
def test_presets_that_do_not_fit_are_refused(kept, tmp_path, change, message):
    (tmp_path / "notes.toml").write_text("[notes]\n")
    names = change.get("presets", ["p"])
    paths = [kept[0] / "preset.toml" if n == "p" else tmp_path / n for n in names]
    options = {"problem": BOWL, "algorithms": [CLIMB], "seeds": 1} | change
    with pytest.raises(ValueError, match=message):
        softqd.compare(**{**options, "presets": paths}, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grid": {}}, "grid is empty"),
        ({"grid": {"sigm": [1]}}, "unknown setting 'sigm'; did you mean 'sigma'"),
        ({"grid": {"sigma": "0.1"}}, "sigma must be a list of values"),
        ({"grid": {"sigma": [1, "1.0"]}}, "sigma holds 1.0 twice"),
        ({"grid": {"size": [0.5]}}, "size must be a whole number; got 0.5"),
        ({"grid": {"size": [0, -1]}}, "size=0: size .* got 0; size=-1: size"),
        ({"metric": "qsv"}, "unknown metric 'qsv'; did you mean 'qvs'"),
        ({"seeds": [1, 1]}, r"duplicates: \[1\]"),
        ({"iterations": 3}, "iterations or evaluations, not both"),
        ({"evaluations": 9}, r"sigma=0.01, .* sigma=1.0: evaluations=9 .* 8 \+ 8"),
        ({"settings": ["sigma=a"]}, "sigma must be a number; got 'a'"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(tmp_path, change, message):
    if "grid" in change or change.get("settings"):
        change = {"settings": [], **change}
    with pytest.raises(ValueError, match=message):
        sweep(tmp_path, **change)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["sigma", "=1", "sigma=", "sigma=1,,2"])
def test_texts_that_are_no_grid_are_refused(text):
    with pytest.raises(ValueError, match="--grid wants NAME=VALUE"):
        parse_grid([text])


def test_a_name_twice_is_refused():
    with pytest.raises(ValueError, match="names 'sigma' twice"):
        parse_grid(["sigma=1", "sigma=2"])


def test_a_sweep_of_another_problem_is_refused(copy):
    with pytest.raises(ValueError, match=r"problem dim=6, this .* has 5"):
        sweep(copy, settings=["size=8", "dim=5"])


def test_a_function_is_swept():
    def mine(problem, sigma):
        return climb(problem, size=8, sigma=sigma)

    found = softqd.sweep(
        make_bowl(), mine, {"sigma": [0.01, 0.1]}, seeds=2, evaluations=100
    )
    assert found.algorithm == "mine"
    assert set(found.comparison.algorithms) == {"sigma=0.01", "sigma=0.1"}
    assert found.comparison.algorithms["sigma=0.1"].settings["sigma"] == 0.1


def test_what_was_interrupted_alone_goes_on_alone(tmp_path):
    points = {"a": {"sigma": 0.1}, "b": {"sigma": 0.2}, "c": {"sigma": 0.3}}
    problem, methods = grid_methods(BOWL, CLIMB, points)
    groups = [Group([method], [0, 1], problem) for method in methods]
    group.checkpoint_of(tmp_path, groups[1]).mkdir(parents=True)
    found = stacked(tmp_path, groups)
    assert [[m.name for m in one.methods] for one in found] == [["b"], ["a", "c"]]
