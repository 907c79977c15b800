"""From where quality is measured: one rule from the first population to the report."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import softqd
from softqd import cli
from softqd.experiment.many.compare import compare

SMALL = ["squad.population_size=16", "dns.population_size=8", "dns.batch_size=8"]
OUTSIDE = """
import jax, jax.numpy as jnp, softqd


def loss():
    evaluate = lambda x: (-jnp.sum(x**2), jax.nn.sigmoid(x[:2]))
    sample = lambda key: jax.random.normal(key, (4,))
    return softqd.Problem(evaluate, sample, (0, 1), name="loss")
"""


def loss(**settings):
    """Quality is minus a sum of squares: negative everywhere."""
    return softqd.Problem(
        lambda x: (-jnp.sum(x**2), jax.nn.sigmoid(x[:2])),
        lambda key: jax.random.normal(key, (4,)),
        (0, 1),
        name="loss",
        **settings,
    )


def first_qualities(problem, n, seed=0):
    algorithm = softqd.dns(problem, population_size=n)
    return np.asarray(algorithm.init(jax.random.key(seed)).quality)


@pytest.mark.parametrize("build", [softqd.squad, softqd.dns])
def test_a_result_knows_its_level(build, tmp_path):
    result = softqd.run(build(loss(), population_size=16), num_iterations=2)
    back = softqd.load(result.save(tmp_path))
    assert back.quality_level == result.quality_level < 0
    if build is softqd.dns:
        expected = np.quantile(first_qualities(loss(), 16), 0.1)
        assert result.quality_level == pytest.approx(expected, rel=1e-5)


def test_a_declared_level_is_everyones():
    problem = loss(quality_level=-30.0)
    for build in (softqd.squad, softqd.dns):
        algorithm = build(problem, population_size=16)
        assert softqd.run(algorithm, num_iterations=1).quality_level == -30.0


def test_every_seed_has_its_own_level_and_keeps_it(tmp_path):
    algorithm = softqd.dns(loss(), population_size=16)
    settings = {"seed": [1, 2], "checkpoint_dir": tmp_path, "num_iterations": 2}
    first = softqd.run(algorithm, **settings)
    again = softqd.run(algorithm, **{**settings, "num_iterations": 4}, resume=True)
    levels = [result.quality_level for result in first]
    assert len(set(levels)) == 2
    assert [result.quality_level for result in again] == levels


def test_metrics_are_measured_from_it():
    quality, behavior = np.array([-3.0, -1.0]), np.array([[0.1, 0.1], [0.9, 0.9]])
    population = softqd.Population(
        np.zeros((2, 1)), quality, behavior, np.ones(2, bool)
    )
    bounds = (0.0, 1.0)
    found, shifted = (
        softqd.metrics.evaluate_population(p, bounds, cells=4, level=level)
        for p, level in (
            (population, -4.0),
            (dataclasses.replace(population, quality=quality + 4.0), 0.0),
        )
    )
    for name in ("qvs", "qd_score", "soft_qd_score", "vendi_score", "coverage"):
        assert found[name] == pytest.approx(shifted[name])
    assert found["qd_score"] == 1.0 + 3.0
    assert found["settings"]["quality_level"] == -4.0
    assert found["mean_quality"] == -2.0


def test_a_comparison_measures_from_the_lowest_level(tmp_path):
    found = compare(
        loss(), ["squad", "dns"], seeds=2, evaluations=200, settings=SMALL, out=tmp_path
    )
    folders = sorted(tmp_path.glob("*/seed_*"))
    levels = [softqd.load(folder).quality_level for folder in folders]
    assert len(set(levels)) == 4
    assert found.quality_level == min(levels)
    for folder in folders:
        metrics = json.loads((folder / "metrics.json").read_text())
        assert metrics["settings"]["quality_level"] == min(levels)
        quality = softqd.load(folder).population.quality
        mean = max((np.asarray(quality, float) - min(levels)).mean(), 0.0)
        assert metrics["qvs"] == pytest.approx(mean * metrics["vendi_score"], rel=1e-5)
    assert softqd.load_comparison(tmp_path).quality_level == min(levels)


def test_files_of_a_run_are_measured_from_its_level(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "outside_loss.py").write_text(OUTSIDE)
    folder, sizes = tmp_path / "run", ["--set", "population_size=16"]
    run = ["run", "outside_loss:loss", *sizes, "--iterations", "2", "--out", folder]
    assert cli.invoke(list(map(str, run))) == 0
    level = softqd.load(folder).quality_level
    assert f"quality_level {level:.4g}" in capsys.readouterr().out
    again = tmp_path / "again.json"
    file = str(folder / "population.npz")
    assert cli.invoke(["evaluate", file, "--json", str(again)]) == 0
    first = json.loads((folder / "metrics.json").read_text())
    assert json.loads(again.read_text())["qvs"] == first["qvs"] > 0
    assert cli.invoke(["evaluate", file, "--level", "-50", "--json", str(again)]) == 0
    assert json.loads(again.read_text())["qvs"] > first["qvs"]


@pytest.mark.parametrize("log_every", [1, 4])
def test_an_archive_that_starts_empty_has_the_level_of_its_first_elites(log_every):
    settings = {"num_emitters": 1, "batch_size": 8, "cells": 16}
    algorithm = softqd.cma_mega(loss(), **settings)
    first = softqd.run(algorithm, num_iterations=1).population.compact()
    found = softqd.run(algorithm, num_iterations=4, log_every=log_every)
    expected = float(np.quantile(np.asarray(first.quality), 0.1))
    assert found.quality_level == pytest.approx(expected, rel=1e-5)
    assert expected < 0
