import base64
import dataclasses
import hashlib
import io
import json
import re

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from saved_runs import LP, make_metrics, make_result, save_run
from scipy import stats

import softqd
from softqd.experiment.pictures import draw_pictures
from softqd.page.comparison_data import curves
from softqd.page.report import build_page, write_report, write_run_report

NASTY = "</script><img src=x onerror=alert(1)>"


def block(page, name):
    """What a JSON block of the page holds."""
    return json.loads(re.search(rf'id="{name}">(.*?)</script>', page, re.S)[1])


def numbers(text):
    return np.frombuffer(base64.b64decode(text), "<f4")


def data_of(path):
    return block(path.read_text("utf-8"), "data")


def test_holds_the_population_of_the_file(tmp_path):
    folder = save_run(tmp_path / "run", make_metrics(qvs=12.25), num=30)
    path = write_report([folder])
    assert path == tmp_path / "run" / "report.html"
    (run,) = data_of(path)["runs"]
    population = softqd.load(folder).population
    np.testing.assert_array_equal(numbers(run["quality"]), population.quality)
    behavior = numbers(run["behavior"]).reshape(30, 2)
    np.testing.assert_array_equal(behavior, population.behavior)
    assert (run["low"], run["high"]) == ([0.0, 0.0], [1.0, 1.0])  # of the problem
    found = {row["name"]: row["value"] for row in run["metrics"]}
    assert found["qvs"] == 12.25
    assert run["history"]["evaluations"] == [10, 20, 30]
    assert run["notes"] == []


def test_loads_nothing_and_runs_only_its_own_scripts(tmp_path):
    page = write_report([save_run(tmp_path / "run")]).read_text("utf-8")
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", page)
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', page)[1]
    assert policy.startswith("default-src 'none'")
    scripts = re.findall(r"<script>(.*?)</script>", page, re.S)
    assert len(scripts) == 2
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_names_cannot_become_markup(tmp_path):
    algorithm = {"name": NASTY, NASTY: NASTY}
    result = make_result(preset=NASTY, algorithm=algorithm)
    path = write_run_report(tmp_path / "a.html", result, pictures=0)
    page = path.read_text("utf-8")
    assert "<img" not in page
    assert page.count("</script>") == page.count("<script") == 4
    assert data_of(path)["runs"][0]["problem"] == NASTY


def test_template_marks_in_the_data_stay():
    page = build_page({"title": "@@CODE@@", "runs": []}, [])
    assert "<title>@@CODE@@ - softqd</title>" in page
    assert page.count("Put the page together.") == 1


def test_ten_thousand_solutions_and_a_thousand_pictures_fit(tmp_path):
    rng = np.random.default_rng(0)
    noise = jnp.asarray(rng.uniform(size=(96, 96, 3)), jnp.float32)  # nothing to save
    problem = softqd.Problem(
        lambda x: (x[0], x), render=lambda x: jnp.roll(noise, x[0].astype(int))
    )
    result = make_result(10_000, problem={**LP, "behavior_dim": 16})
    drawn = draw_pictures(problem, result.population, 0.0)
    run = dataclasses.replace(result, pictures=drawn, metrics=make_metrics())
    path = write_run_report(tmp_path / "a.html", run, pictures=1000)
    assert len(block(path.read_text("utf-8"), "pictures-0")) == 1000
    assert path.stat().st_size < 15e6


def test_pictures_are_of_the_solutions_best_first(tmp_path):
    # Saved as nested dictionaries, drawn in the problem's own structure.
    problem = softqd.Problem(
        lambda x: (x[0][0], x[1]),
        sample=lambda key: (jnp.zeros(1), jnp.zeros(2)),
        render=lambda x: jnp.broadcast_to(x[0], (200, 100, 3)),
    )
    shades = np.array([[0.2], [1.0], [0.6]], np.float32)
    held = {"0": shades, "1": np.zeros((3, 2), np.float32)}
    population = softqd.Population(held, shades[:, 0], shades, np.ones(3, bool))
    drawn = draw_pictures(problem, population, 0.0).small
    assert list(drawn) == [1, 2, 0]
    images = [Image.open(io.BytesIO(data)) for data in drawn.values()]
    assert [image.size for image in images] == [(48, 96)] * 3
    colors = [np.asarray(image)[40, 20] for image in images]
    np.testing.assert_allclose(colors, [[255] * 3, [153] * 3, [51] * 3], atol=2)


def test_a_render_that_fails_is_a_note(tmp_path):
    def render(x):
        raise RuntimeError("no paint left")

    problem = softqd.Problem(lambda x: (x[0], x[:2]), render=render)
    dataclasses.replace(make_result(), problem=problem).save(tmp_path)
    (run,) = data_of(write_report([tmp_path]))["runs"]
    assert run["members"] == []
    assert "no paint left" in run["notes"][0]


def test_what_is_missing_is_said(tmp_path):
    notes = {"qd_score": "the space is unbounded"}
    metrics = make_metrics(qd_score=None, notes=notes)
    del metrics["coverage"]
    result = make_result(problem={"name": "gone:problem"})
    versions = {**result.versions, "softqd": "0.0.1"}
    old = dataclasses.replace(result, problem=None, versions=versions, metrics=metrics)
    old.save(tmp_path)
    (run,) = data_of(write_report([tmp_path]))["runs"]
    assert "0.0.1" in run["notes"][0]
    assert "does not say the bounds" in run["notes"][1]
    assert run["low"] == [None, None]
    rows = {row["name"]: row for row in run["metrics"]}
    assert rows["qd_score"]["note"] == "the space is unbounded"
    assert rows["coverage"]["value"] is None
    assert "not in this run's" in rows["coverage"]["note"]


def test_one_behavior_and_no_solutions_at_all(tmp_path):
    problem = {**LP, "behavior_dim": 1}
    (run,) = data_of(write_report([save_run(tmp_path / "a", problem=problem)]))["runs"]
    assert run["names"] == ["behavior 1"]
    result = make_result(occupied=np.zeros(40, bool))
    path = write_run_report(tmp_path / "b.html", result, pictures=5)
    assert data_of(path)["runs"][0]["num"] == 0


def save_pair(place, **others):
    """Three seeds of SQUAD and of DNS."""
    folders = []
    for seed in range(3):
        good, bad = make_metrics(qvs=5.0 + seed), make_metrics(qvs=1.0 + seed)
        folders.append(save_run(place / f"a{seed}", good, seed=seed))
        dns = {"name": "dns"} | others
        folders.append(save_run(place / f"b{seed}", bad, seed=seed, algorithm=dns))
    return folders


def test_runs_are_compared(tmp_path):
    data = data_of(write_report(save_pair(tmp_path), tmp_path / "page.html"))
    assert data["title"] == "squad, dns on lp"
    qvs = data["comparison"]["statistics"]["qvs"]
    assert qvs["best"] == "squad"
    assert qvs["algorithms"]["dns"]["mean"] == 2.0
    p = stats.mannwhitneyu([5, 6, 7], [1, 2, 3]).pvalue
    assert qvs["algorithms"]["dns"]["p"] == pytest.approx(p)
    assert "3 seeds cannot tell 2 algorithms apart" in data["comparison"]["warnings"][0]
    assert [run["label"] for run in data["runs"]] == ["squad, seed 0", "dns, seed 0"]
    curve = data["comparison"]["curves"]["squad"]
    assert curve["columns"]["mean_quality"]["mean"] == [2.0, 3.0, 4.0]
    stderr = stats.sem([1.0, 2.0, 3.0])
    assert curve["columns"]["mean_quality"]["stderr"] == pytest.approx([stderr] * 3)


def test_settings_tell_runs_of_one_algorithm_apart(tmp_path):
    tuned = [{"name": "squad", "gamma_sq": g} for g in (0.1, 0.5)]
    folders = [
        save_run(tmp_path / str(i), seed=i % 2, algorithm=tuned[i // 2])
        for i in range(4)
    ]
    data = data_of(write_report(folders, tmp_path / "page.html"))
    names = ["squad, gamma_sq=0.1", "squad, gamma_sq=0.5"]
    assert list(data["comparison"]["algorithms"]) == names


def test_curves_of_different_lengths_share_a_grid():
    histories = [
        {"evaluations": np.array([0, 10]), "mean_quality": np.array([0.0, 10.0])},
        {"evaluations": np.array([2, 8]), "mean_quality": np.array([4.0, 10.0])},
    ]
    found = curves(histories)
    assert (found["evaluations"][0], found["evaluations"][-1]) == (2.0, 8.0)
    column = found["columns"]["mean_quality"]
    assert column["mean"][0] == pytest.approx((2 + 4) / 2)
    assert column["mean"][-1] == pytest.approx((8 + 10) / 2)
    assert column["stderr"][0] == pytest.approx(1.0)


def test_different_budgets_are_said(tmp_path):
    first = save_run(tmp_path / "a", make_metrics(evaluations=1000))
    other = make_metrics(evaluations=2000)
    second = save_run(tmp_path / "b", other, algorithm={"name": "dns"})
    (note,) = data_of(write_report([first, second], tmp_path / "page.html"))["notes"]
    assert "between 1,000 and 2,000 evaluations" in note


def test_refusals_name_what_to_do(tmp_path):
    good = save_run(tmp_path / "good")
    other = save_run(tmp_path / "other", problem={**LP, "behavior_dim": 4})
    twin = save_run(tmp_path / "twin")
    bare = tmp_path / "bare"
    make_result(seed=7).write(bare)
    (tmp_path / "empty").mkdir()
    future = tmp_path / "future"
    save_run(future)
    (tmp_path / "half" / "unfinished").mkdir(parents=True)
    (future / "result.json").write_text('{"seed": 0, "mood": "new"}')
    for folders, message in (
        ([], "give one or more"),
        ([tmp_path / "nowhere"], "there is no folder"),
        ([tmp_path / "empty"], "softqd run PROBLEM --out"),
        ([tmp_path / "half"], "call the same 'softqd compare' again"),
        ([future], "'mood' is not known here"),
        ([good, other], "behavior_dim=2, .*other has 4"),
        ([good, good], "given twice"),
        ([good, twin], "both squad with seed 0"),
        ([good, bare], "has no metrics.json"),
    ):
        with pytest.raises(ValueError, match=message):
            write_report(folders, tmp_path / "page.html")


def test_a_run_from_python_has_a_page(tmp_path, bowl):
    algorithm = softqd.squad(bowl, population_size=16, batch_size=8)
    softqd.run(algorithm, num_iterations=2).save(tmp_path)
    data = data_of(write_report([tmp_path]))
    assert data["title"] == "squad on bowl"
    (run,) = data["runs"]
    assert (run["low"], run["high"], run["notes"]) == ([0, 0], [1, 1], [])
    found = {row["name"]: row["value"] for row in run["metrics"]}
    bounds = bowl.bounds(2)
    again = softqd.metrics.evaluate_population(softqd.load(tmp_path).population, bounds)
    assert found["qvs"] == pytest.approx(again["qvs"])
