"""The default SQUAD over sizes and budgets: nothing may collapse.

Usage: python benchmarks/squad_range.py [--sizes 128,512,2048,8192]
           [--budgets 50,200,1000,5000] [--problems lp-easy,arm,hill]

Sizes run 500 iterations, budgets 1024 solutions. `hill` is a quality that falls with
the distance from a point, with two behaviors that have no bounds. Prints mean and
lowest quality, Vendi score and coverage where there are bounds, and the standard
deviations of the behaviors over those of the first population. 8192 solutions want a
GPU.
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np

import softqd
from softqd.experiment import config as configs


def hill() -> softqd.Problem:
    """Two behaviors without bounds, in units a thousand times apart."""

    def evaluate(x):
        quality = 100 * jnp.exp(-jnp.sum(x**2) / 16)
        return quality, jnp.stack([x[0] + x[1], 1000 * x[2]])

    return softqd.Problem(evaluate, lambda key: jax.random.normal(key, (8,)))


def problem_of(name: str) -> softqd.Problem:
    """A problem by its preset's name, or the hill."""
    return hill() if name == "hill" else configs.build_problem(configs.from_name(name))


def measure(problem: softqd.Problem, size: int, budget: int) -> str:
    """One run, as a row."""
    algorithm = softqd.squad(problem, population_size=size)
    first = algorithm.population(jax.jit(algorithm.init)(jax.random.key(0)))
    found = softqd.run(algorithm, num_iterations=budget, log_every=budget).population
    behavior = np.asarray(found.behavior)
    growth = behavior.std(0) / np.asarray(first.behavior).std(0)
    bounds = problem.bounds(behavior.shape[1])
    text = f"{found.quality.mean():7.2f} {found.quality.min():7.2f}"
    if np.isfinite(bounds).all():
        scores = softqd.metrics.evaluate_population(found, bounds)
        text += f" {scores['vendi_score']:7.2f} {100 * scores['coverage']:6.1f}%"
    else:
        text += f" {'':15}"
    return f"{text}   {growth.min():.2f} to {growth.max():.2f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="128,512,2048,8192")
    parser.add_argument("--budgets", default="50,200,1000,5000")
    parser.add_argument("--problems", default="lp-easy,arm,hill")
    options = parser.parse_args()
    sizes, budgets = (
        [int(x) for x in text.split(",") if x]
        for text in (options.sizes, options.budgets)
    )
    runs = [(size, 500) for size in sizes] + [(1024, budget) for budget in budgets]
    print("problem solutions iterations: mean, lowest quality, Vendi, coverage, growth")
    for name in options.problems.split(","):
        problem = problem_of(name)
        for size, budget in runs:
            print(f"{name:8} {size:5} {budget:5}", measure(problem, size, budget))


if __name__ == "__main__":
    main()
