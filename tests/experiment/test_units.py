"""Where no bounds are declared: units of the first population, kept and compared."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toys import climb

import softqd
from softqd import cli, metrics
from softqd.ops.units import pooled_units, units_of

OUTSIDE = """
import jax, jax.numpy as jnp, softqd


def plain():
    evaluate = lambda x: (10.0 - jnp.sum(x**2), x[:2])
    sample = lambda key: jax.random.normal(key, (4,))
    return softqd.Problem(evaluate, sample, name="plain")
"""


def plain(bounds=None, scale=1.0):
    return softqd.Problem(
        lambda x: (10.0 - jnp.sum(x**2), scale * x[:2]),
        lambda key: jax.random.normal(key, (4,)),
        bounds,
        name="plain",
    )


def first(algorithm, seed=0):
    return np.asarray(algorithm.init(jax.random.key(seed)).behavior, np.float64)


def test_units_of_uniform_numbers_are_their_box():
    grid = (np.arange(1000)[:, None] + 0.5) / 1000 * [4.0, 2.0] + [1.0, -1.0]
    np.testing.assert_allclose(units_of(None, grid), [[1, -1], [5, 1]], atol=1e-5)


def test_declared_behaviors_keep_their_bounds_and_constants_have_a_unit():
    behavior = np.array([[0.2, 5.0, 3.0], [0.4, 5.0, 1.0]])
    problem = plain(([0, -np.inf, -np.inf], [1, np.inf, np.inf]))
    half = np.sqrt(3)
    low, high = units_of(problem, behavior)
    np.testing.assert_allclose(low, [0, 4.5, 2 - half])
    np.testing.assert_allclose(high, [1, 5.5, 2 + half])
    assert units_of(problem, behavior[:0]) is None
    assert units_of(plain((0, 1)), behavior[:0]) == [[0.0] * 3, [1.0] * 3]


def test_pooled_units_are_those_of_all_of_them_together():
    rng = np.random.default_rng(0)
    groups = [rng.normal(size=(50, 2)) * s + m for s, m in ((1, 0), (3, 2), (0.1, 9))]
    together = units_of(None, np.concatenate(groups))
    each = [units_of(None, group) for group in groups]
    np.testing.assert_allclose(pooled_units(each), together)
    assert pooled_units(each[:1] * 3) == each[0]


def test_a_result_keeps_the_units_of_its_first_population(tmp_path):
    algorithm = climb(plain())
    options = {"num_iterations": 4, "checkpoint_dir": tmp_path / "state"}
    result = softqd.run(algorithm, seed=2, **options)
    expected = units_of(None, first(algorithm, 2))
    np.testing.assert_allclose(result.behavior_units, expected, rtol=1e-5)
    options["num_iterations"] = 8
    again = softqd.run(algorithm, seed=2, resume=True, **options)
    assert again.behavior_units == result.behavior_units
    assert softqd.load(again.save(tmp_path)).behavior_units == again.behavior_units
    both = softqd.run(algorithm, seed=[2, 3], num_iterations=1)
    np.testing.assert_allclose(both[0].behavior_units, expected, rtol=1e-5)
    np.testing.assert_allclose(
        both[1].behavior_units, units_of(None, first(algorithm, 3)), rtol=1e-5
    )


def test_diversity_does_not_depend_on_the_units_of_behavior():
    rng = np.random.default_rng(0)
    quality, behavior = rng.random(20), rng.normal(size=(20, 2))
    unbounded = -np.inf, np.inf
    found = []
    for scale, shift in ((1.0, 0.0), (1e3, -5e3)):
        far = scale * 3 * behavior + shift
        population = softqd.Population(None, quality, far, np.ones(20, bool))
        units = units_of(None, scale * behavior + shift)
        found.append(metrics.evaluate_population(population, unbounded, units=units))
    for name in metrics.METRICS:
        assert found[0][name] == pytest.approx(found[1][name], rel=1e-4)
    # Three times as far as the first population: nobody is put on a border.
    low, high = np.array(units_of(None, behavior))
    unit = (3 * behavior - low) / (high - low)
    assert found[0]["vendi_score"] == pytest.approx(metrics.vendi_score(unit), rel=1e-5)
    assert found[0]["settings"]["space"] == "units of the first population"
    assert "diversity is in units of the first" in found[0]["notes"]["space"]


def test_a_comparison_measures_all_runs_in_the_same_units(tmp_path):
    methods = {"near": climb, "far": lambda problem: climb(plain(scale=10.0))}
    found = softqd.compare(plain(), methods, 1, evaluations=64, out=tmp_path)
    assert "diversity is in units of the first population" in found.warnings[0]
    runs = [tmp_path / name / "seed_0" for name in methods]
    own = [softqd.load(run).behavior_units for run in runs]
    used = [
        json.loads((run / "metrics.json").read_text())["settings"]["behavior_units"]
        for run in runs
    ]
    assert used == [pooled_units(own)] * 2
    assert own[0] != used[0]
    score = found.statistics["vendi_score"]["algorithms"]
    assert score["far"]["mean"] > score["near"]["mean"]


@pytest.mark.slow
def test_commands_say_the_units(capsys, monkeypatch, tmp_path):
    (tmp_path / "mine_units.py").write_text(OUTSIDE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    out = tmp_path / "a"
    options = ["--algorithm", "dns", "--iterations", "1", "--out", str(out)]
    settings = ["--set", "population_size=16", "--set", "batch_size=8"]
    assert cli.invoke(["run", "mine_units:plain", *options, *settings]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "space units of the first population" in said
    assert "no behavior_bounds are declared" in said
    saved = json.loads((out / "metrics.json").read_text())
    assert all(saved[name] is not None for name in metrics.METRICS)
    file = str(out / "population.npz")
    assert cli.invoke(["evaluate", file, "--json", "m.json"]) == 0
    again = json.loads((tmp_path / "m.json").read_text())
    assert {n: again[n] for n in metrics.METRICS} == {
        n: saved[n] for n in metrics.METRICS
    }
    assert cli.invoke(["select", file, "--size", "4", "--out", "few.csv"]) == 0
    few = softqd.load_population(tmp_path / "few.csv")
    assert few.behavior.shape == (4, 2)
    assert cli.invoke(["report", str(out)]) == 0
    assert "no behavior_bounds are declared" in (out / "report.html").read_text()
