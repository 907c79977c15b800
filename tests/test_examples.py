"""Every script of examples/ runs, once, and does what it says."""

import contextlib
import functools
import io
import runpy
import tempfile
from pathlib import Path

import numpy as np
import pytest

import softqd

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parent.parent / "examples"
# Need a package, and run where it is installed: tests/parity.
ELSEWHERE = ("airfoils.py",)
NAMES = sorted({path.name for path in EXAMPLES.glob("*.py")} - {*ELSEWHERE})
# What follows the name on the command line, from a folder to write to.
ARGUMENTS = {
    "compare_with_baseline.py": lambda folder: [folder],
    "explore_a_result.py": lambda folder: [comparison()[0] / "squad" / "seed_2"],
    "neurons.py": lambda folder: [folder, "-", 3],
    "light_up.py": lambda folder: [folder / "arm.png", 50],
    "own_problem.py": lambda folder: [folder],
    "paper_figures.py": lambda folder: [folder],
}


# Packages that examples need beyond the development tools: make parity runs these.
NEEDS = {"neurons.py": "jaxley"}


@functools.cache
def ran(name):
    """Run a script once: its folder, what it defines, and what it prints."""
    folder = Path(tempfile.mkdtemp(dir=FOLDER.name))
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr("sys.argv", [name, *map(str, ARGUMENTS[name](folder))])
        found = runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return folder, found, printed.getvalue()


FOLDER = tempfile.TemporaryDirectory(prefix="softqd-examples-")


def comparison():
    folder, found, _ = ran("compare_with_baseline.py")
    return folder, found["found"]


@pytest.mark.parametrize("name", NAMES)
def test_script_runs(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    assert ran(name)[1]["__name__"] == "__main__"


def test_comparison_with_a_baseline():
    folder, found = comparison()
    assert list(found.algorithms) == ["squad", "dns"]
    assert [entry.seeds for entry in found.algorithms.values()] == [[0, 1, 2, 3]] * 2
    assert found.warnings == []  # four seeds can tell two algorithms apart
    for name in ("curves.pdf", "distributions.pdf", "comparison.json"):
        assert (folder / name).exists()


def test_exploring_a_result():
    folder = comparison()[0] / "squad" / "seed_2"
    _, found, out = ran("explore_a_result.py")
    population = softqd.load(folder).population
    assert len(set(found["chosen"].tolist())) == 5
    distances = np.linalg.norm(population.behavior, axis=1)  # (0, 0) is in the middle
    assert found["nearest"] == distances.argmin()
    assert f"QVS {comparison()[1].algorithms['squad'].values['qvs'][2]:.1f}" in out
    assert (folder / "figures" / "parallel.pdf").exists()


def test_own_problem():
    """Thrown straight up from the ground at v, a ball rises by v^2 / 2g."""
    folder, found, _ = ran("own_problem.py")
    still, ground = -100.0, -100.0
    _, behavior = found["evaluate"](np.array([still, 0.0, ground], np.float32))
    np.testing.assert_allclose(behavior, [0.0, 5.0**2 / (2 * 9.81)], atol=1e-5)
    result = softqd.load(folder)
    assert result.population.behavior.std(0).min() > 0.5
    assert result.history["mean_quality"][-1] > 0
    assert (folder / "value_map.pdf").exists()


def test_light_up():
    folder, found, _ = ran("light_up.py")
    start, end = (
        softqd.metrics.evaluate_population(population, found["problem"].bounds(2))
        for population in (found["start"], found["end"])
    )
    assert end["soft_qd_score"] > 1.5 * start["soft_qd_score"]
    assert (folder / "arm.png").exists()


def test_surfaces_of_the_example_rise_as_the_score_does():
    """A real run: the volume under each surface is the Soft QD Score of the box."""
    folder, example, _ = ran("paper_figures.py")
    assert all((folder / f"figure{number}.png").exists() for number in (1, 2))
    pictures = example["pictures"]
    panels = [axes for axes in example["figure_2"].axes if axes.name == "3d"]
    volumes = [axes.collections[0].get_array().mean() for axes in panels]
    scores = [
        softqd.soft_qd_score(*population, example["SIGMA"], bounds=(0, 1)).value
        for population in pictures.values()
    ]
    np.testing.assert_allclose(volumes, scores, rtol=0.01)
    assert [len(quality) for quality, _ in pictures.values()] == [5, 5]
    assert volumes[1] > 3 * volumes[0]
