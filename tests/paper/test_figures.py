from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from toys import make_bowl

from softqd.experiment import config as configs
from softqd.experiment.run_folder import write_population
from softqd.paper import figure_files, figures
from softqd.paper.cases import Case
from softqd.paper.catalog import REPRODUCTIONS, Reproduction
from softqd.paper.figure_files import write_figures
from softqd.paper.record import load_all
from softqd.types import Population

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def found():
    return {entry["name"]: entry for entry in load_all(RESULTS)}


@pytest.mark.parametrize("name", ["lp", "ic"])
def test_figures_of_records(found, name):
    spec = REPRODUCTIONS[name]
    figure = figures.draw(spec, found)
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
    left, right = figures.draw(spec, records).axes
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
        write_population(folder / "population.npz", population)
        config = {"algorithm": {"name": case.algorithm}, "run": {"cells": 512}}
        entry = {"name": name, "preset": "lsi", "variant": "published", "seeds": [5]}
        records[name] = {**entry, "config": config, "quick": True}
    paths = write_figures("lsi", spec, records, tmp_path / "figures", tmp_path)
    assert {path.name for path in paths if path.suffix == ".pdf"} == {
        "lsi_squad_published_gallery_quick.pdf",
        "lsi_cma_mega_gallery_quick.pdf",
        "lsi_archives_quick.pdf",
    }
    drawn = figure_files._pictures("lsi", spec, records, tmp_path)
    assert drawn["lsi_archives"].get_suptitle() == "lsi, seed 5 (quick)"


def test_landscape_peaks_at_the_shift():
    image = figures.landscape(resolution=401).axes[0].images[0].get_array()
    row, column = np.unravel_index(image.argmax(), image.shape)
    np.testing.assert_allclose([row, column], (2.048 + 5.12) / 10.24 * 400, atol=1)
    assert image.max() <= 100.0
