import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from toys import make_bowl

import softqd
from softqd.experiment.many import group, measure
from softqd.metrics import evaluate_population
from softqd.paper import catalog
from softqd.paper import run as paper_run
from softqd.paper.cases import Case
from softqd.paper.catalog import REPRODUCTIONS, Reproduction
from softqd.paper.record import load_all
from softqd.paper.run import config_of, from_records
from softqd.types import Population

SEEDS = [2001, 2002]
ALL = [case for spec in REPRODUCTIONS.values() for case in spec.cases]
CASES = {case.name(): case for case in ALL}
BOWL, CLIMB = "toys:make_bowl", "toys:climb"
FIRST, SECOND = (f"{BOWL}_{CLIMB}_sigma={sigma}_quick" for sigma in (0.1, 0.5))


@pytest.fixture(scope="module", autouse=True)
def tiny():
    """A reproduction of two cases that takes a second, named 'tiny'."""
    cases = [
        Case(variant, BOWL, CLIMB, variant, (variant,), (2001, 2002))
        for variant in ("sigma=0.1", "sigma=0.5")
    ]
    cases[0] = cases[0]._replace(curves=True)
    with pytest.MonkeyPatch.context() as patch:
        spec = Reproduction("Tiny", "For tests.", tuple(cases), ("qvs",))
        patch.setitem(REPRODUCTIONS, "tiny", spec)
        patch.setitem(paper_run._QUICK_PROBLEM, BOWL, ("dim=4",))
        patch.setitem(paper_run._QUICK_ALGORITHM, CLIMB, ("size=8",))
        patch.setitem(paper_run._QUICK_ITERATIONS, CLIMB, 4)
        yield spec


def run_tiny(out, **options):
    return paper_run.reproduce("tiny", out, quick=True, **options)


@pytest.fixture(scope="module")
def kept(tmp_path_factory, tiny):
    """The folder and the outcome of real runs."""
    out = tmp_path_factory.mktemp("reproduce")
    return out, run_tiny(out)


@pytest.fixture
def fake_run(kept, monkeypatch):
    """Runs that only read what `kept` holds, or raise; gives the seeds of all calls."""

    def install(error_at=lambda calls: None):
        calls = []

        def run_lanes(algorithm, lanes, *rest):
            calls.append(lanes.seeds)
            if error := error_at(calls):
                raise error
            places = kept[0] / "runs" / FIRST.replace(":", ".")
            return [softqd.load(places / f"seed_{2001 + s % 2}") for s in lanes.seeds]

        monkeypatch.setattr(group, "run_lanes", run_lanes)
        return calls

    return install


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_every_case_has_settings_that_exist(name, quick):
    for case in REPRODUCTIONS[name].cases:
        config = config_of(case, quick)
        last = dict(text.split("=", 1) for text in case.settings)
        for key, value in last.items():
            assert str(config["algorithm"][key]).lower() in (value, f"{value}.0")
        assert config["run"]["iterations"] // config["run"]["log_every"] <= 50
        assert "seed" not in config["run"]


def test_a_name_stands_for_one_configuration():
    for case in ALL:
        same = CASES[case.name()]
        assert config_of(case) == config_of(same)
        assert case.seeds == same.seeds


def test_published_settings_are_the_base_of_the_ablations():
    base, published = (
        CASES["ic_squad_published_ablation"],
        CASES["ic_squad_published_published"],
    )
    assert config_of(base) == config_of(published)
    neighbors = REPRODUCTIONS["neighbors"].cases
    others = [config_of(c)["algorithm"]["num_neighbors"] for c in neighbors]
    assert others == [0, 3, 7, 15, 31]  # the paper's k counts the solution itself


def test_runs_records_and_labels(kept):
    out, found = kept
    assert list(found.records) == [FIRST, SECOND]
    assert not found.failures
    for entry in found.records.values():
        assert entry["quick"] is True
        assert entry["seeds"] == [2001, 2002]
        assert entry["config"]["problem"]["dim"] == 4
        assert entry["metrics"]["evaluations"] == [8 * 5] * 2
        assert entry["history"]["iteration"] == [[0, 1, 2, 3, 4]] * 2
        assert "solutions" not in json.dumps(entry)
    assert records_in(out) == json.loads(json.dumps(found.records))
    again = from_records("tiny", out / "records", quick=True)
    assert again.records == records_in(out)


def records_in(folder):
    return {entry["name"]: entry for entry in load_all(folder / "records")}


def test_a_record_says_what_the_run_folders_say(kept):
    out, found = kept
    folders = [out / "runs" / SECOND.replace(":", ".") / f"seed_{s}" for s in SEEDS]
    metrics = [json.loads((f / "metrics.json").read_text()) for f in folders]
    entry = found.records[SECOND]
    assert entry["metrics"]["qvs"] == [m["qvs"] for m in metrics]
    assert metrics[0]["seeds_together"] == 2
    # Both folders hold the seconds of both seeds.
    np.testing.assert_allclose(entry["seconds"], metrics[0]["seconds"])
    mean = [softqd.load(f).history["mean_quality"] for f in folders]
    np.testing.assert_allclose(entry["history"]["mean_quality"], mean, atol=1e-4)


def test_curves_are_followed_over_the_run_for_all_seeds(kept):
    followed, other = kept[1].records.values()
    assert "qvs" not in other["history"]
    for name in ("qd_score", "qvs"):
        curve = np.array(followed["history"][name])
        assert curve.shape == (2, 5)
        last = followed["metrics"][name]
        np.testing.assert_allclose(curve[:, -1], last, rtol=1e-4)
        assert len(np.unique(curve)) > 5  # not one number repeated


def test_an_interrupted_reproduction_keeps_what_is_finished(tmp_path, fake_run):
    interrupt = KeyboardInterrupt()
    calls = fake_run(lambda calls: interrupt if len(calls) == 2 else None)
    with pytest.raises(KeyboardInterrupt):
        run_tiny(tmp_path)
    first = records_in(tmp_path)
    assert list(first) == [FIRST]
    found = run_tiny(tmp_path)
    assert calls == [SEEDS] * 3
    assert found.records[FIRST] == first[FIRST]
    run_tiny(tmp_path)
    assert calls == [SEEDS] * 3
    more = run_tiny(tmp_path, seeds=[2001, 2002, 2005])
    assert calls[3:] == [[2005], [2005]]
    assert more.records[FIRST]["seeds"] == [2001, 2002, 2005]
    assert run_tiny(tmp_path, seeds=3).records[FIRST]["seeds"] == [2001, 2002, 2003]


def test_a_failing_seed_is_reported_and_left_out(tmp_path, fake_run):
    error = FloatingPointError("not finite")
    is_second = lambda calls: len(calls) > 1 and 2002 in calls[-1]  # noqa: E731
    fake_run(lambda calls: error if is_second(calls) else None)
    found = run_tiny(tmp_path)
    assert found.failures == {SECOND: {2002: "not finite"}}
    assert found.records[SECOND]["seeds"] == [2001]


def test_other_settings_in_the_folder_are_refused(kept, tmp_path, monkeypatch):
    out = shutil.copytree(kept[0], tmp_path / "copy")
    monkeypatch.setitem(paper_run._QUICK_ITERATIONS, CLIMB, 5)
    with pytest.raises(ValueError, match="record with other settings"):
        run_tiny(out)
    shutil.rmtree(out / "records")
    with pytest.raises(ValueError, match="run iterations=4, this comparison has 5"):
        run_tiny(out)


def test_bad_names_and_settings_say_what_to_type(tmp_path):
    with pytest.raises(ValueError, match=r"did you mean 'tradeoff'\?"):
        catalog.find("trade-of")
    with pytest.raises(ValueError, match="only target, generator, scorer can be set"):
        config_of(CASES["ic_squad_published_published"], files=["num_circles=3"])
    with pytest.raises(ValueError, match="holds no record of 'lp'"):
        from_records("lp", tmp_path)


def test_files_reach_the_problems_that_have_them():
    files = ["target=face.png"]
    config = config_of(CASES["ic_dns_published"], files=files)
    assert config["problem"]["target"] == str(Path("face.png").absolute())
    published = config_of(CASES["lp-easy_dns_published"], files=files)
    assert "target" not in published["problem"]


@pytest.mark.slow
def test_metrics_in_processes_are_the_same():
    rng = np.random.default_rng(0)
    quality, behavior = rng.uniform(1, 2, 20), rng.uniform(size=(20, 2))
    occupied = np.arange(20) < 15
    population = Population(np.zeros((20, 1)), quality, behavior, occupied)
    bounds = make_bowl().bounds(2)
    (found,) = measure.measure_all(
        [population], bounds, 16, [0.0], [None], num_processes=1
    )
    assert found == evaluate_population(population, bounds, cells=16)
    assert measure.measure_all([population], bounds, 16, [0.0], [None]) == [
        None
    ]  # on a CPU


def test_latent_space_without_weights_says_what_to_type(tmp_path):
    with pytest.raises(ValueError, match="softqd weights fetch"):
        paper_run.reproduce("lsi", tmp_path)
    assert not list(tmp_path.iterdir())


def test_records_of_the_results_page_are_what_would_be_run():
    root = Path(__file__).parents[2]
    for entry in load_all(root / "results"):
        config = config_of(CASES[entry["name"]])
        for table in ("problem", "algorithm"):
            # Settings may have been added since.
            known = {key: config[table].get(key) for key in entry["config"][table]}
            assert entry["config"][table] == known, entry["name"]
        assert entry["config"]["run"]["iterations"] == config["run"]["iterations"]
        assert entry["config"]["run"]["cells"] == config["run"]["cells"]


def test_the_sweep_of_the_overlap_holds_the_default():
    found = [config_of(case)["algorithm"] for case in REPRODUCTIONS["overlap"].cases]
    labels = [case.label for case in REPRODUCTIONS["overlap"].cases]
    assert labels == [f"overlap {settings['overlap']:g}" for settings in found]
