"""Whether gradients by evolution strategy are worth their evaluations to SQUAD.

A problem without gradients can be given estimates: solutions beside each one, in pairs
of opposite directions, and the differences between the two of a pair (Salimans et al.,
Evolution Strategies as a Scalable Alternative to Reinforcement Learning, 2017). One
estimate serves quality and behavior alike. Every solution looked at counts, so that an
iteration of SQUAD costs 1 + 2 * pairs evaluations per solution.

Usage: python benchmarks/evolution_gradient.py [--evaluations 200000] [--seeds 3]
           [--problems arm,lp-easy,routes] [--length 0.05]

Prints a table per problem at equal evaluations: SQUAD on children alone, Sep-CMA-MAE,
and SQUAD on estimates, as es-population-pairs. The length of
directions is in standard deviations of first solutions.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from held_out import PROBLEMS, SHOWN

import softqd

POPULATION = 256
# Populations and pairs: the better an estimate, the fewer solutions can take as many
# steps.
ESTIMATES = ((256, 1), (256, 4), (64, 16))


def estimated(problem: softqd.Problem, pairs: int, length: float) -> softqd.Problem:
    """The problem with estimated gradients in place of its own."""
    assert problem.sample is not None
    first = jax.vmap(problem.sample)(jax.random.split(jax.random.key(0), 256))
    unit = jax.tree.map(lambda x: length * x.std(0), first)

    def around(solution: Any) -> Any:
        """Directions ``(pairs, ...)``, others for every solution."""
        bits = jax.lax.bitcast_convert_type(solution, jnp.uint32).ravel()
        mixed = jnp.sum(bits * jnp.arange(1, 2 * bits.size, 2, dtype=jnp.uint32))
        noise = jax.random.normal(jax.random.key(mixed), (pairs, *solution.shape))
        return noise * unit

    @jax.custom_vjp
    def evaluate(solution):
        return problem.evaluate(solution)

    def forward(solution):
        each = jax.vmap(problem.evaluate)
        ahead, behind = (each(solution + s * around(solution)) for s in (1.0, -1.0))
        rises = jax.tree.map(lambda a, b: (a - b) / (2.0 * pairs), ahead, behind)
        return problem.evaluate(solution), (solution, rises)

    def backward(kept, cotangents):
        solution, (quality, behavior) = kept
        weights = quality * cotangents[0] + behavior @ cotangents[1]
        # In squared units of the directions, as the gradient with respect to them.
        return (jnp.tensordot(weights, around(solution) / unit**2, 1),)

    evaluate.defvjp(forward, backward)
    return dataclasses.replace(problem, evaluate=evaluate)


def squad_on_estimates(population_size: int, pairs: int, length: float) -> Callable:
    """A factory of SQUAD whose evaluations are counted with those of the estimates."""

    def factory(problem: softqd.Problem) -> softqd.Algorithm:
        inner = softqd.squad(
            estimated(problem, pairs, length), population_size=population_size
        )
        # As many children as without estimates, at most one for eight solutions.
        per_iteration = population_size * (1 + 2 * pairs) + population_size // 8

        def init(key, solutions=None):
            state = inner.init(key, solutions)
            more = 2 * pairs * state.init_gradient_evaluations
            return state._replace(init_evaluations=state.init_evaluations + more)

        def step(state):
            state, info = inner.step(state)
            more = 2 * pairs * info.gradient_evaluations
            return state, info._replace(evaluations=info.evaluations + more)

        def plan(state, iterations, evaluations):
            spare = (evaluations - state.init_evaluations) // per_iteration
            return inner.plan(state, spare, None)

        return inner._replace(init=init, step=step, plan=plan)

    return factory


def alone(problem: softqd.Problem) -> softqd.Algorithm:
    """SQUAD without gradients, on children alone."""
    problem = dataclasses.replace(problem, is_differentiable=False)
    return softqd.squad(problem, population_size=POPULATION)


def methods(length: float) -> dict[str, Callable]:
    """What is compared, by what the table calls it."""
    found: dict[str, Callable] = {
        f"children-{POPULATION}": alone,
        "sep-cma-mae": softqd.sep_cma_mae,
    }
    for n, pairs in ESTIMATES:
        found[f"es-{n}-{pairs}"] = squad_on_estimates(n, pairs, length)
    return found


def show(name: str, found: softqd.Comparison) -> None:
    """One row per method: means and standard errors."""
    for label in found.algorithms:
        rows = [found.statistics[metric]["algorithms"][label] for metric in SHOWN]
        text = "  ".join(f"{row['mean']:10.4g} ±{row['stderr']:8.2g}" for row in rows)
        print(f"{name:10} {label:14} {text}", flush=True)


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evaluations", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--length", type=float, default=0.05)
    parser.add_argument("--problems", default="arm,lp-easy,routes")
    options = parser.parse_args()
    known = {
        "arm": softqd.problems.arm,
        "lp-easy": softqd.problems.linear_projection,
        **PROBLEMS,
    }
    settings = {"seeds": options.seeds, "evaluations": options.evaluations}
    print(" " * 26 + "  ".join(f"{metric:>20}" for metric in SHOWN))
    for name in options.problems.split(","):
        found = softqd.compare(known[name](), methods(options.length), **settings)
        show(name, found)


if __name__ == "__main__":
    main()
