"""Run folders with numbers that are known, without running anything."""

import dataclasses

import numpy as np

import softqd
from softqd.experiment.result import COUNTS, Result, versions
from softqd.metrics import METRICS

LP = {"name": "linear_projection", "behavior_dim": 2, "solution_dim": 16}


def make_result(num=40, seed=0, problem=None, algorithm=None, preset="lp", **parts):
    """A result of random solutions; ``parts`` replace those of the population."""
    problem = problem or LP
    rng = np.random.default_rng(seed)
    dim = problem.get("behavior_dim", 2)
    population = softqd.Population(
        solutions=rng.normal(size=(num, 16)).astype(np.float32),
        quality=rng.uniform(10, 90, num).astype(np.float32),
        behavior=rng.uniform(size=(num, dim)).astype(np.float32),
        occupied=np.ones(num, bool),
    )
    population = dataclasses.replace(population, **parts)
    dim = population.behavior.shape[1]
    sides = (0.0,) * dim, (1.0,) * dim
    known = softqd.Problem(lambda x: (x[0], x), None, sides, name=problem["name"])
    history = {
        "iteration": np.arange(3),
        "evaluations": np.array([10, 20, 30]),
        "seconds": np.array([0.0, 0.5, 1.0]),
        "mean_quality": np.array([1.0, 2.0, 3.0]) + seed,
        "max_quality": np.array([4.0, 5.0, 6.0]) + seed,
    }
    config = {
        "problem": problem,
        "algorithm": algorithm or {"name": "squad"},
        "run": {"preset": preset, "seed": seed, "iterations": 2},
    }
    return Result(
        population=population,
        history=history,
        config=config,
        seed=seed,
        versions=versions(),
        timings={"compile": 0.1, "run": 1.0},
        problem=known,
    )


def make_metrics(**values):
    """Metrics that are all 1.5 unless given, counts of 30."""
    counts = dict.fromkeys(COUNTS, 30)
    return dict.fromkeys(METRICS, 1.5) | counts | {"seconds": 1.0, "notes": {}} | values


def save_run(folder, metrics=None, **settings):
    """Write a run folder; its name is its path as text."""
    metrics = make_metrics() if metrics is None else metrics
    dataclasses.replace(make_result(**settings), metrics=metrics).save(folder)
    return str(folder)
