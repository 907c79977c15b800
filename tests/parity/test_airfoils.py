"""Airfoils beside the package `neuralfoil`, and beside what XFOIL said of them.

``benchmarks/airfoils_xfoil.py`` asked XFOIL 6.99 and recorded its answers.
"""

import importlib.util
import json
import runpy
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import softqd
from softqd.networks import neuralfoil
from softqd.ops.cst import stations, surfaces

pytestmark = [
    pytest.mark.parity,
    pytest.mark.skipif(
        importlib.util.find_spec("neuralfoil") is None,
        reason="needs the package neuralfoil",
    ),
]
ROOT = Path(__file__).parents[2]
RECORD = json.loads((ROOT / "tests" / "fixtures" / "airfoils_xfoil.json").read_text())
NAMES = {"lift": "CL", "drag": "CD", "moment": "CM"}


@pytest.fixture(scope="module")
def package():
    """The package itself, and the one that its geometry is from."""
    import aerosandbox
    import neuralfoil

    return neuralfoil, aerosandbox


@pytest.fixture(scope="module")
def found():
    """A small run of the default, from the command's preset."""
    problem = softqd.problems.airfoils(behavior_dim=5)
    algorithm = softqd.squad(problem, population_size=64)
    return problem, softqd.run(algorithm, seed=0, num_iterations=60)


def kulfan(solution):
    """An airfoil as the package takes it."""
    one = neuralfoil.to_airfoil(solution)
    return {
        "upper_weights": np.asarray(one.upper, float),
        "lower_weights": np.asarray(one.lower, float),
        "leading_edge_weight": float(one.leading_edge),
        "TE_thickness": float(one.trailing_edge),
    }


def aerodynamics(solutions, size, flow):
    """What our networks say, row by row."""
    params = neuralfoil.load(size)

    def one(solution):
        return neuralfoil.aerodynamics(params, neuralfoil.to_airfoil(solution), **flow)

    return jax.jit(jax.vmap(one))(np.asarray(solutions, np.float32))


@pytest.mark.parametrize("size", ["xxsmall", "xlarge", "xxxlarge"])
@pytest.mark.parametrize("flow", [(1e6, 4.0, 9.0), (2e5, -3.0, 12.0)])
def test_networks_say_what_the_package_says(package, found, size, flow):
    """Twenty results; lift, moment and confidence as they are, drag as a share."""
    chosen = softqd.select(found[1].population, 20)
    reynolds, angle, n_crit = flow
    settings = {"angle_deg": angle, "reynolds": reynolds, "n_crit": n_crit}
    ours = aerodynamics(chosen.solutions, size, settings)
    theirs = [
        package[0].get_aero_from_kulfan_parameters(
            kulfan(solution), angle, reynolds, n_crit, model_size=size
        )
        for solution in chosen.solutions
    ]
    assert len(theirs) == 20
    for name, key in {**NAMES, "confidence": "analysis_confidence"}.items():
        expected = np.array([one[key][0] for one in theirs])
        scale = expected if name == "drag" else 1.0
        difference = np.abs(np.asarray(getattr(ours, name)) - expected) / scale
        assert difference.max() < 1e-4, name


def test_geometry_is_the_packages(package, found):
    """The package samples its surfaces at 101 places and interpolates."""
    population = softqd.select(found[1].population, 20)
    x = jnp.asarray(stations(30), jnp.float32)
    for solution, behavior in zip(
        population.solutions, population.behavior, strict=True
    ):
        theirs = package[1].KulfanAirfoil(**kulfan(solution))
        upper, lower = surfaces(neuralfoil.to_airfoil(solution), x)
        places = np.asarray(x, float)
        for ours, of in ((upper, "upper"), (lower, "lower")):
            expected = getattr(theirs, f"{of}_coordinates")(places)[:, 1]
            np.testing.assert_allclose(ours, expected, atol=1e-6)
        if 5.0 < behavior[0] < 25.0:
            assert behavior[0] == pytest.approx(100 * theirs.max_thickness(), abs=0.02)
        if 0.1 < behavior[3] < 10.0:
            assert behavior[3] == pytest.approx(100 * theirs.max_camber(), abs=0.02)


def test_networks_agree_with_xfoil():
    """Ten results of the default at the design point, which optimizers flatter."""
    rows = [row for row in RECORD["airfoils"] if row["xfoil"] is not None]
    assert len(rows) == 10
    ours = aerodynamics([row["solution"] for row in rows], "xlarge", RECORD["flow"])
    theirs = {name: np.array([row["xfoil"][name] for row in rows]) for name in NAMES}
    assert np.abs(ours.lift - theirs["lift"]).max() < 0.05
    assert np.abs(ours.moment - theirs["moment"]).max() < 0.01
    assert np.abs(ours.drag / theirs["drag"] - 1).max() < 0.2


def test_a_small_run_is_better_than_its_start_and_more_different(found):
    problem, result = found
    start = jax.vmap(problem.sample)(jax.random.split(jax.random.key(0), 64))
    quality, behavior = jax.vmap(problem.evaluate)(start)
    assert result.population.quality.mean() > np.mean(quality) + 10
    spread = result.population.behavior.std(0) / np.asarray(behavior).std(0)
    assert spread.min() > 1.2


def test_example_runs(tmp_path, monkeypatch):
    """The coordinates that it writes are of an airfoil that the gallery shows."""
    monkeypatch.setattr("sys.argv", ["airfoils.py", str(tmp_path), "20"])
    example = runpy.run_path(
        str(ROOT / "examples" / "airfoils.py"), run_name="__main__"
    )
    outline = np.loadtxt(tmp_path / "chosen.dat", skiprows=1)
    behavior = example["population"].behavior[example["chosen"]]
    x, y = outline[:, 0], outline[:, 1]
    assert x.min() == 0.0
    assert x[0] == x[-1] == 1.0
    nose = int(x.argmin())
    thickness = np.interp(x[nose:], x[nose::-1], y[nose::-1]) - y[nose:]
    assert 100 * thickness.max() == pytest.approx(behavior[0], abs=0.02)
    for name in ("airfoils.png", "airfoils_polar.png", "population.npz"):
        assert (tmp_path / name).exists()


def test_preset_runs_from_the_command_line(tmp_path):
    from softqd import cli

    command = ["run", "airfoils", "--iterations", "2", "--out", str(tmp_path / "run")]
    assert cli.invoke([*command, "--set", "population_size=16"]) == 0
    assert len(softqd.load(tmp_path / "run").population) == 16
