import dataclasses
import shutil

import numpy as np
import pytest

import softqd
from softqd.experiment import config as configs
from softqd.experiment.many.comparison import Entry, conclude
from softqd.experiment.many.experiment_folder import ExperimentFolder
from softqd.experiment.many.grid import points_of
from softqd.experiment.many.sweep import Sweep
from softqd.experiment.result import Result
from softqd.page.figures import draw_figure, save_experiment_figures

SEEDS = 3


def write_run(folder, problem="sphere", n=12, seed=0, settings=()):
    """A run folder with a random population, as `softqd.run` would leave it."""
    config = configs.with_settings(configs.from_name(problem), list(settings))
    rng = np.random.default_rng(seed)
    known = configs.build_problem(config)
    dim = known.behavior_dim
    population = softqd.Population(
        rng.random((n, 4)), rng.random(n), rng.random((n, dim)), np.ones(n, bool)
    )
    steps = np.arange(3)
    history = {"iteration": steps, "evaluations": 10 * steps}
    history |= {"mean_quality": steps + seed, "max_quality": 2.0 * steps + seed}
    versions = {"softqd": softqd.__version__, "jax": "0"}
    result = Result(population, history, config, seed, versions, problem=known)
    result.write(folder)  # without metrics: it has not finished
    return folder


def values_of(offset):
    return {
        name: [offset + seed for seed in range(SEEDS)]
        for name in (*softqd.metrics.METRICS, "iterations")
    } | dict.fromkeys(
        ("evaluations", "gradient_evaluations", "vector_jacobian_products", "seconds"),
        [1.0] * SEEDS,
    )


def comparison_of(names, problem):
    seeds = list(range(SEEDS))
    entries = {n: Entry({}, seeds, values_of(10.0 * k)) for k, n in enumerate(names)}
    return conclude(problem, 20, entries, {})


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A run, a comparison of two algorithms, and a sweep with two settings."""
    out = tmp_path_factory.mktemp("figures")
    write_run(out / "run")
    problem = configs.from_name("sphere")["problem"]
    comparison_of(["squad", "dns"], problem).save(out / "comparison")
    for name in ("squad", "dns"):
        for seed in range(SEEDS):
            write_run(out / "comparison" / name / f"seed_{seed}", seed=seed)
    grid = {"gamma_sq": [0.1, 10.0], "transform": ["logit", "probit"]}
    points = points_of(grid)
    found = comparison_of(points, problem)
    best = list(points)[-1]
    Sweep("squad", "qvs", grid, points, best, {}, found, []).save(out / "sweep")
    return out


def test_scatter_shows_the_population_within_its_bounds(folders):
    axes = draw_figure("scatter", [folders / "run"]).axes[0]
    behavior = softqd.load(folders / "run").population.behavior
    drawn = axes.collections[0].get_offsets()
    assert sorted(map(tuple, drawn)) == sorted(map(tuple, behavior))


def test_kinds_of_one_run(folders):
    run = [folders / "run"]
    assert draw_figure("parallel", run).axes[0].collections[0].get_segments()
    bars = draw_figure("quality", run).axes[0].patches
    assert sum(bar.get_height() for bar in bars) == 12
    assert "512 cells" in draw_figure("cells", run).axes[0].get_title()
    lines = draw_figure("history", run).axes[0].lines
    np.testing.assert_array_equal(lines[0].get_ydata(), [0, 1, 2])


def test_bandwidth_and_overlap_of_a_run(folders, tmp_path):
    run = softqd.load(folders / "run")
    gamma_sq, overlap = np.array([3.0, 2.0, 1.0]), np.array([0.4, 0.2, 0.1])
    history = {**run.history, "gamma_sq": gamma_sq, "overlap": overlap}
    dataclasses.replace(run, history=history).save(tmp_path)
    left, right = draw_figure("bandwidth", [tmp_path]).axes
    np.testing.assert_array_equal(left.lines[0].get_ydata(), [3, 2, 1])
    np.testing.assert_array_equal(right.lines[0].get_ydata(), [0.4, 0.2, 0.1])
    assert right.get_yscale() == "log"
    with pytest.raises(ValueError, match="needs a run of SQUAD, which logs overlap"):
        draw_figure("bandwidth", [folders / "run"])


def test_several_runs_side_by_side(folders):
    runs = [folders / "comparison" / name / "seed_1" for name in ("squad", "dns")]
    titles = [axes.get_title() for axes in draw_figure("history", runs).axes]
    assert titles == ["squad/seed_1", "dns/seed_1"]
    maps = draw_figure("value-map", runs)
    assert "dns/seed_1" in maps.axes[1].get_title()


def test_curves_are_means_of_the_histories(folders):
    axes = draw_figure("curves", [folders / "comparison"], "max_quality").axes[0]
    np.testing.assert_allclose(axes.lines[1].get_ydata(), 2.0 * np.arange(3) + 1)
    np.testing.assert_array_equal(axes.lines[1].get_xdata(), [0, 10, 20])
    assert axes.get_ylabel() == "best quality"


def test_distributions_of_one_metric_or_all(folders):
    one = draw_figure("distributions", [folders / "comparison"], "qvs")
    assert [axes.get_ylabel() for axes in one.axes] == ["QVS"]
    np.testing.assert_array_equal(one.axes[0].lines[-1].get_ydata(), [10, 11, 12])
    every = draw_figure("distributions", [folders / "comparison"])
    assert "coverage (share of cells)" in [axes.get_ylabel() for axes in every.axes]


def test_a_sweep_has_a_line_per_other_setting(folders):
    figure = draw_figure("sweep", [folders / "sweep"])
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["transform=logit", "transform=probit"]
    first = figure.axes[0].containers[0][0]
    np.testing.assert_array_equal(first.get_xdata(), [0.1, 10.0])
    np.testing.assert_array_equal(first.get_ydata(), [1.0, 21.0])  # means of 3 seeds
    assert figure.axes[0].get_ylabel() == "QVS"


def test_tradeoff_of_a_sweep_and_of_a_comparison(folders):
    for name, number in (("sweep", 4), ("comparison", 2)):
        axes = draw_figure("tradeoff", [folders / name]).axes[0]
        assert len(axes.containers) == number
        assert axes.get_xlabel() == "Vendi score"


def test_a_run_without_its_problem_has_no_bounds(folders, tmp_path):
    result = softqd.load(folders / "run")
    dataclasses.replace(result, problem=None).save(tmp_path)
    axes = draw_figure("parallel", [tmp_path]).axes[0]
    high = result.population.behavior.max(0)
    assert [text.get_text() for text in axes.texts] == [f"{h:.3g}" for h in high]


def test_an_experiment_without_a_finished_run_has_no_figures(tmp_path):
    nothing = {name: [] for name in values_of(0.0)}
    entries = {"squad": Entry({}, [], nothing, {0: "it failed"})}
    conclude({"name": "sphere"}, 20, entries, {}).save(tmp_path)
    assert save_experiment_figures(ExperimentFolder(tmp_path)) == []


def test_galleries_need_a_picture(folders):
    for kind in ("gallery", "representatives"):
        with pytest.raises(ValueError, match=r"has no pictures .*; draw 'scatter'"):
            draw_figure(kind, [folders / "run"])


def test_figures_of_an_experiment_and_of_its_finished_runs(folders, tmp_path):
    copy = shutil.copytree(folders / "comparison", tmp_path / "copy")
    (copy / "dns" / "seed_0" / "metrics.json").write_text("{}")  # as written last
    paths = save_experiment_figures(ExperimentFolder(copy), each_run=True)
    assert [path.name for path in paths] == ["curves.png", "distributions.png"]
    assert all(path.exists() for path in paths)
    (drawn,) = copy.glob("*/seed_*/figures")
    assert drawn.parent == copy / "dns" / "seed_0"
    names = sorted(path.name for path in drawn.iterdir())
    assert names == ["behavior.png", "history.png", "quality.png", "value_map.png"]


@pytest.mark.parametrize(
    ("kind", "names", "metric", "message"),
    [
        ("scater", ["run"], None, "unknown figure 'scater'; did you mean 'scatter'"),
        ("scatter", [], None, "takes one run folder; got 0"),
        ("curves", ["comparison"] * 2, None, "takes one comparison folder; got 2"),
        ("scatter", ["run"], "qvs", "takes no metric; .* curves, distributions, sweep"),
        ("curves", ["comparison"], "qvs", "unknown column 'qvs'; .*squad logs"),
        ("distributions", ["comparison"], "q", "unknown metric 'q'; .*choose from"),
        ("history", ["run", "run"], None, "comes twice"),
        ("value-map", ["run", "lp"], None, "lp is a run of another problem than"),
        ("cells", ["lp"], None, "needs two bounded behaviors; .* has 4"),
        ("scatter", ["torn"], None, "torn/result.json is not a JSON file"),
    ],
)
def test_what_cannot_be_drawn_is_said(folders, tmp_path, kind, names, metric, message):
    small = ["behavior_dim=4", "solution_dim=4"]
    if "lp" in names:
        write_run(tmp_path / "lp", "linear_projection", settings=small)
    if "torn" in names:
        (write_run(tmp_path / "torn") / "result.json").write_text("{")
    places = {"lp": tmp_path, "torn": tmp_path}
    paths = [places.get(name, folders) / name for name in names]
    with pytest.raises(ValueError, match=message):
        draw_figure(kind, paths, metric)


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("scatter", "is not a run folder"),
        ("curves", "not a comparison folder: .* --out of 'softqd compare'"),
        ("sweep", "not a sweep folder: .* --out of 'softqd sweep'"),
    ],
)
def test_a_folder_of_something_else_is_said(tmp_path, kind, what):
    with pytest.raises(ValueError, match=what):
        draw_figure(kind, [tmp_path])


def test_a_metric_without_a_value_is_said(folders, tmp_path):
    found = softqd.load_comparison(folders / "comparison")
    for entry in found.algorithms.values():
        entry.values["qvs"] = [None] * SEEDS
    notes = {"qvs": "needs a bounded behavior space"}
    conclude(found.problem, 20, found.algorithms, notes).save(tmp_path)
    with pytest.raises(
        ValueError, match=r"'qvs' has no value .* bounded behavior space"
    ):
        draw_figure("distributions", [tmp_path], "qvs")
