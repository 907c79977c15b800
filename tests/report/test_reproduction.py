import math
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from toys import make_bowl

from softqd.experiment import config as configs
from softqd.experiment.paper.cases import Case
from softqd.experiment.paper.record import load_all
from softqd.experiment.paper.reproductions import REPRODUCTIONS, Reproduction
from softqd.experiment.result import save_population
from softqd.report import claims, paper_plots, reproduction
from softqd.report.paper_figures import write_figures
from softqd.types import Population

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def found():
    return {entry["name"]: entry for entry in load_all(RESULTS)}


def ablation(quick=False, num_seeds=3):
    """Records of the population sizes, QVS 390 + 10 i and QD score 3240 + 100 i."""
    records = {}
    spec = REPRODUCTIONS["population-size"]
    for place, case in enumerate(spec.cases):
        spread = np.arange(num_seeds) - (num_seeds - 1) / 2
        values = {"qvs": 390 + 10 * place + spread}
        values["qd_score"] = 3240 + 100 * place + 100 * spread
        size = int(case.variant.partition("=")[2])
        records[case.name(quick)] = {
            "name": case.name(quick),
            "preset": case.preset,
            "variant": case.variant,
            "seeds": list(case.seeds[:num_seeds]),
            "metrics": {name: list(map(float, x)) for name, x in values.items()},
            "config": {
                "algorithm": {"name": "squad_published", "population_size": size}
            },
            "history": {},
            **({"quick": True} if quick else {}),
        }
    return spec, records


def test_table_has_ours_the_papers_and_a_verdict():
    spec, records = ablation()
    sheet = reproduction.sheet_of(spec, records)
    assert sheet.title == "Population size"
    # The paper: 3.24 ± 0.43 thousand and 390.6 ± 1.6; ours: errors 100 / sqrt(3), 0.58.
    start = ["ic", "N = 128", "3"]
    ours = f"3.24 ± {0.1 / math.sqrt(3):.2f}"
    score = [ours, "3.24 ± 0.43", "0.0", "agrees"]
    assert sheet.rows[0] == [*start, "QD score / 1000", *score]
    apart = (0.6 - 0.05) / math.hypot(1 / math.sqrt(3), 1.6)
    qvs = ["390.0 ± 0.6", "390.6 ± 1.6", f"{apart:.1f}", "agrees"]
    assert sheet.rows[1] == [*start, "QVS", *qvs]
    assert sheet.rows[3][-1] == "differs"  # 400.0 beside 422.7 ± 0.8
    summary = reproduction.summary_of(spec, records)
    verdicts = [row[-1] for row in sheet.rows]
    assert summary.startswith(f"{verdicts.count('agrees')} of 8 cells are within three")


def test_quick_is_said_everywhere(tmp_path):
    spec, records = ablation(quick=True)
    page = reproduction.page_of(spec, records)
    assert page.startswith("# Population size (quick)")
    assert reproduction.QUICK_NOTE in page
    assert page.count("holds (quick): ") == 2
    assert "agrees" not in page
    assert "differs" not in page
    assert all(row[-1] == "quick" for row in reproduction.sheet_of(spec, records).rows)
    assert reproduction.rich_table(reproduction.sheet_of(spec, records)).title == (
        "Population size (quick)"
    )
    figure = paper_plots.draw(spec, records)
    assert figure.get_suptitle() == "Population size (quick)"
    paths = write_figures("population-size", spec, records, tmp_path)
    names = ["population-size_quick.pdf", "population-size_quick.png"]
    assert [path.name for path in paths] == names
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_wide_table_marks_what_differs():
    spec, records = ablation()
    first, second, *_ = reproduction.wide_table(spec, records).rows
    assert first[-1] == "390.0 ± 0.6<br>390.6 ± 1.6<br>0.3"
    assert second[-1].startswith("**400.0 ± 0.6**<br>422.7 ± 0.8<br>")


def test_one_seed_is_not_judged():
    spec, records = ablation(num_seeds=1)
    first, *_ = reproduction.wide_table(spec, records).rows
    # 390 / 390.6 is 1 - 0.0015.
    assert first[-1] == "390.0<br>390.6 ± 1.6<br>-0.2%"
    row = reproduction.sheet_of(spec, records).rows[1]
    assert row[-2:] == ["-0.2%", "one seed"]
    summary = reproduction.summary_of(spec, records)
    assert summary.startswith("8 cells come from one seed and cannot be judged so; ")
    assert reproduction.notes_of(spec, records) == [
        "Fewer seeds than the paper's: 1 of 3 in every case."
    ]


def test_fewer_seeds_and_missing_cases_are_said():
    spec, records = ablation(num_seeds=2)
    del records["ic_squad_published_population_size=512"]
    fewer, missing = reproduction.notes_of(spec, records)
    assert fewer == "Fewer seeds than the paper's: 2 of 3 in every case."
    assert missing == "Not run: N = 512 on ic."


def test_wallclock_has_seconds_beside_minutes(found):
    spec = REPRODUCTIONS["wallclock"]
    sheet = reproduction.sheet_of(spec, found)
    assert sheet.heads[1:] == [
        "lp-easy",
        "lp-medium",
        "lp-hard",
        "ic",
        "lsi",
        "lsi-hard",
    ]
    seconds = found["ic_squad_published_published"]["seconds"]
    row = next(row for row in sheet.rows if row[0] == "SQUAD")
    assert row[4] == f"{seconds:.1f} s for 10; 190 min"
    assert row[5] == "not run; 732 min"


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_every_name_has_its_claims_and_figure(name):
    spec = REPRODUCTIONS[name]
    assert set(spec.claims) <= set(claims.CLAIMS)
    assert spec.figure in ("", *paper_plots.FIGURES)
    assert reproduction.claims_of(spec, {}) == [
        claim for key in spec.claims for claim in claims.CLAIMS[key]({})
    ]
    assert all(c.holds is None for c in reproduction.claims_of(spec, {}))


@pytest.mark.parametrize("name", ["lp", "ic"])
def test_figures_of_records(found, name):
    spec = REPRODUCTIONS[name]
    figure = paper_plots.draw(spec, found)
    assert [axes.get_ylabel() for axes in figure.axes] == ["QD score", "QVS"]
    if name == "lp":
        heights = [bar.get_height() for bar in figure.axes[1].patches]
        expected = np.mean(found["lp-easy_squad_published_published"]["metrics"]["qvs"])
        assert len(heights) == 21
        assert heights[0] == pytest.approx(expected)


def test_tradeoff_figure_has_both_curves():
    records, spec = {}, REPRODUCTIONS["tradeoff"]
    for gamma_sq, case in enumerate(spec.cases, start=1):
        records[case.name()] = {
            "preset": case.preset,
            "variant": case.variant,
            "config": {"algorithm": {"name": "squad_published", "gamma_sq": gamma_sq}},
            "metrics": {"mean_quality": [90.0 - gamma_sq], "vendi_score": [gamma_sq]},
        }
    left, right = paper_plots.draw(spec, records).axes
    assert left.get_xscale() == "log"
    assert list(left.lines[0].get_ydata()) == [90.0 - i for i in range(1, 10)]
    assert list(right.lines[0].get_ydata()) == list(range(1, 10))


def test_pictures_are_of_the_first_seeds_run(tmp_path, monkeypatch):
    problem = make_bowl(dim=2, render=lambda x: jnp.ones((4, 4, 3)) * x.mean())
    monkeypatch.setattr(configs, "build_problem", lambda config: problem)
    cases = tuple(
        Case(name, "lsi", name) for name in ("squad_published", "cma_mega", "dns")
    )
    spec = Reproduction("LSI", "", cases, ("qvs",), pictures=True)
    x, ones = np.array([[0.1, 0.2], [0.7, 0.6]]), np.ones(2, bool)
    population = Population(x, np.array([1.0, 2.0]), x, ones)
    records = {}
    for case in cases:
        name = case.name(quick=True)
        folder = tmp_path / name / "seed_5"
        folder.mkdir(parents=True)
        save_population(folder / "population.npz", population)
        config = {"algorithm": {"name": case.algorithm}, "run": {"cells": 512}}
        entry = {"name": name, "preset": "lsi", "variant": "published", "seeds": [5]}
        records[name] = {**entry, "config": config, "quick": True}
    paths = write_figures("lsi", spec, records, tmp_path / "figures", tmp_path)
    assert {path.name for path in paths if path.suffix == ".pdf"} == {
        "lsi_squad_published_gallery_quick.pdf",
        "lsi_cma_mega_gallery_quick.pdf",
        "lsi_archives_quick.pdf",
    }


def test_archives_light_the_cells_of_their_best():
    centroids = np.array([[0.25, 0.5], [0.75, 0.5]])
    behavior = np.array([[0.2, 0.5], [0.3, 0.5]])
    figure = paper_plots.archives(
        {"SQUAD": (np.array([1.0, 3.0]), behavior)}, centroids, "lsi (quick)"
    )
    picture = figure.axes[0].images[0].get_array()
    assert picture[0, 0] == 3.0
    assert np.isnan(picture.filled(np.nan)[0, -1])
    assert figure.get_suptitle() == "lsi (quick)"
