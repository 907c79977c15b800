"""Every script of examples/ runs; `paper_figures.py` in tests/report/test_plots.py."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import softqd

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name, patch, *arguments):
    """Run a script with arguments; what it defines."""
    patch.setattr("sys.argv", [name, *map(str, arguments)])
    return runpy.run_path(str(EXAMPLES / name), run_name="__main__")


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples") / "comparison"
    with pytest.MonkeyPatch.context() as patch:
        found = run("compare_with_baseline.py", patch, folder)["found"]
    return folder, found


def test_comparison_with_a_baseline(comparison):
    folder, found = comparison
    assert list(found.algorithms) == ["squad", "dns"]
    assert [entry.seeds for entry in found.algorithms.values()] == [[0, 1, 2, 3]] * 2
    assert found.warnings == []  # four seeds can tell two algorithms apart
    for name in ("curves.pdf", "distributions.pdf", "comparison.json"):
        assert (folder / name).exists()


def test_exploring_a_result(comparison, monkeypatch, capsys):
    folder = comparison[0] / "squad" / "seed_2"
    found = run("explore_a_result.py", monkeypatch, folder)
    out = capsys.readouterr().out
    population = softqd.load(folder).population
    assert len(set(found["chosen"].tolist())) == 5
    distances = np.linalg.norm(population.behavior, axis=1)  # (0, 0) is in the middle
    assert found["nearest"] == distances.argmin()
    assert f"QVS {comparison[1].algorithms['squad'].values['qvs'][2]:.1f}" in out
    assert (folder / "figures" / "parallel.pdf").exists()


def test_own_problem(tmp_path, monkeypatch):
    """Thrown straight up from the ground at v, a ball rises by v^2 / 2g."""
    found = run("own_problem.py", monkeypatch, tmp_path)
    still, ground = -100.0, -100.0
    _, behavior = found["evaluate"](np.array([still, 0.0, ground], np.float32))
    np.testing.assert_allclose(behavior, [0.0, 5.0**2 / (2 * 9.81)], atol=1e-5)
    result = softqd.load(tmp_path)
    assert result.population.behavior.std(0).min() > 0.5
    assert result.history["mean_quality"][-1] > 0
    assert (tmp_path / "value_map.pdf").exists()


def test_light_up(tmp_path, monkeypatch):
    found = run("light_up.py", monkeypatch, tmp_path / "arm.png", 50)
    start, end = (
        softqd.metrics.evaluate_population(population, found["problem"].bounds(2))
        for population in (found["start"], found["end"])
    )
    assert end["soft_qd_score"] > 1.5 * start["soft_qd_score"]
    assert (tmp_path / "arm.png").exists()


def test_every_script_is_run():
    here = Path(__file__).read_text()
    for script in EXAMPLES.glob("*.py"):
        assert script.name in here
