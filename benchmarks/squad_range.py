"""The default SQUAD where something changes that should not matter, or only help.

Usage: python benchmarks/squad_range.py [--changes units,guesses,budgets,sizes]
           [--problems lp-easy,arm,ic-small,curves,routes,hill] [--seeds 10] [--jobs 1]

- units: solutions written in units a thousand times smaller and larger;
- guesses: the first guess of a step's length as many times smaller and larger;
- budgets: from .2 to 10 times the evaluations;
- sizes: 128 to 8192 solutions for 500 iterations.

Prints QD score on 512 cells (1024 on `ic-small`), QVS, mean quality and coverage, with
standard errors over seeds, quality measured from one level per problem. `hill` has two
behaviors without bounds: instead of the QD score, the Soft QD Score at one sigma.
`curves` and `routes` are held out (see held_out.py). The changes of sizes and budgets,
and `ic-small`, want a GPU.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import held_out
import jax
import jax.numpy as jnp
import numpy as np

import softqd
from softqd.algorithms import _squad, _steps
from softqd.experiment import config as configs
from softqd.ops.level import level_of

# Evaluations of a run, those of the presets where there is one.
BUDGETS = {"curves": 200_000, "routes": 200_000, "clusters": 200_000, "hill": 500_000}
SIZES = (128, 512, 1024, 2048, 8192)
TIMES = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
FACTORS = (1e-3, 1.0, 1e3)
_NUM_FIRST = 1024
# Of the Soft QD Score on `hill`, in standard deviations of random solutions: about what
# the bound has for 1024 solutions at the end of a run.
_SIGMA = 0.04


class Case(NamedTuple):
    """One row of the table."""

    problem: str
    change: str
    value: float


def hill() -> softqd.Problem:
    """Two behaviors without bounds, in units a thousand times apart."""

    def evaluate(x):
        quality = 100 * jnp.exp(-jnp.sum(x**2) / 16)
        return quality, jnp.stack([x[0] + x[1], 1000 * x[2]])

    return softqd.Problem(evaluate, lambda key: jax.random.normal(key, (8,)))


def problem_of(name: str) -> tuple[softqd.Problem, int, dict[str, Any]]:
    """A problem, the evaluations of a run, and settings of its preset."""
    if name in BUDGETS:
        build = {**held_out.PROBLEMS, "hill": hill}[name]
        return build(), BUDGETS[name], {}
    config = configs.from_name(name)
    size = config["algorithm"].get("population_size", 1024)
    evaluations = 5 * size + config["run"]["iterations"] * (size + size // 8)
    return configs.build_problem(config), evaluations, {"population_size": size}


def in_other_units(problem: softqd.Problem, unit: float) -> softqd.Problem:
    """The same problem, its solutions written in another unit."""
    return dataclasses.replace(
        problem,
        evaluate=lambda y: problem.evaluate(jax.tree.map(lambda x: x / unit, y)),
        sample=lambda key: jax.tree.map(lambda x: x * unit, problem.sample(key)),
    )


def cases(changes: list[str], problems: list[str]) -> list[Case]:
    """All rows."""
    values = {"units": FACTORS, "guesses": FACTORS, "budgets": TIMES, "sizes": SIZES}
    return [Case(p, c, v) for p in problems for c in changes for v in values[c]]


def run(case: Case, seeds: list[int]) -> list[softqd.Result]:
    """All seeds of a row."""
    problem, evaluations, settings = problem_of(case.problem)
    limits: dict[str, Any] = {"num_iterations": None, "max_evaluations": evaluations}
    guess = _steps.GUESS
    match case.change:
        case "units":
            problem = in_other_units(problem, case.value)
        case "guesses":
            guess *= case.value
        case "budgets":
            limits["max_evaluations"] = round(case.value * evaluations)
        case "sizes":
            settings = {"population_size": int(case.value)}
            limits = {"num_iterations": 500}
    _squad.measured_steps = functools.partial(_steps.measured_steps, guess)
    algorithm = softqd.squad(problem, **settings)
    return softqd.run(algorithm, seed=seeds, log_every=10**9, **limits)


@functools.cache
def first_population(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Qualities and behaviors of random solutions, for one level and one scale."""
    problem, *_ = problem_of(name)
    keys = jax.random.split(jax.random.key(0), _NUM_FIRST)

    def one(key):
        return problem.evaluate(problem.sample(key))

    all_of = jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=64))
    quality, behavior = all_of(keys)
    return np.asarray(quality), np.asarray(behavior)


def measure(problem: softqd.Problem, name: str, result: softqd.Result) -> list[float]:
    """QD score or Soft QD Score, QVS, mean quality and coverage."""
    quality, first = first_population(name)
    level = level_of(problem, quality)
    light = np.maximum(np.asarray(result.population.quality) - level, 0.0)
    behavior = np.asarray(result.population.behavior)
    low, high = problem.bounds(behavior.shape[1])
    mean = float(result.population.quality.mean())
    if not np.isfinite([low, high]).all():
        scaled = behavior / first.std(0)
        score = softqd.soft_qd_score(light, scaled, _SIGMA)
        return [float(score.value), np.nan, mean, np.nan]
    unit = (behavior - low) / (high - low)
    cells = 1024 if name.startswith("ic") else 512
    centroids = softqd.metrics.cvt_centroids(cells, behavior.shape[1], seed=3)
    return [
        float(softqd.metrics.qd_score(light, unit, centroids)),
        float(softqd.metrics.quality_vendi_score(light, unit)),
        mean,
        100 * float(softqd.metrics.coverage(unit, centroids)),
    ]


def row(case: Case, num_seeds: int) -> str:
    """Run and measure a row."""
    problem, *_ = problem_of(case.problem)
    found = run(case, list(range(num_seeds)))
    table = np.array([measure(problem, case.problem, result) for result in found])
    error = table.std(0, ddof=1) / np.sqrt(num_seeds) if num_seeds > 1 else 0 * table[0]
    numbers = "  ".join(
        f"{m:9.4g} ±{e:7.2g}" for m, e in zip(table.mean(0), error, strict=True)
    )
    return f"{case.problem:9} {case.change:8} {case.value:7g}  {numbers}"


def main() -> None:
    """Measure and print, each row as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", default="units,guesses,budgets,sizes")
    parser.add_argument("--problems", default="lp-easy,arm,ic-small,curves,routes,hill")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    table = cases(options.changes.split(","), options.problems.split(","))
    print("problem change value: QD score, QVS, mean quality, coverage in percent")
    with ProcessPoolExecutor(
        options.jobs, mp_context=multiprocessing.get_context("spawn")
    ) as pool:
        for text in pool.map(row, table, [options.seeds] * len(table)):
            print(text, flush=True)


if __name__ == "__main__":
    main()
