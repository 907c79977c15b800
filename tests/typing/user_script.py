# pyright: strict
"""What a user writes, under pyright's strictest eyes: make lint checks it."""

from typing import assert_type

import jax
import jax.numpy as jnp

import softqd


def evaluate(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Quality and behavior of one solution."""
    return 10.0 - jnp.sum(x**2), jax.nn.sigmoid(x[:2])


def sample(key: jax.Array) -> jax.Array:
    """One random solution."""
    return jax.random.normal(key, (8,))


problem = softqd.Problem(evaluate, sample=sample, behavior_bounds=(0, 1))
algorithm = softqd.squad(problem, population_size=64)
assert_type(algorithm, softqd.Algorithm)

result = softqd.run(algorithm, seed=0, num_iterations=10)
assert_type(result, softqd.Result)
results = softqd.run(algorithm, seed=[0, 1], num_iterations=10)
assert_type(results, list[softqd.Result])

population = result.population
assert_type(population, softqd.Population)
assert_type(len(population), int)
assert_type(population[population.quality > 1.0], softqd.Population)
best = population[int(population.quality.argmax())]
print(best.quality, best.behavior)

print(population.solutions, result.history["mean_quality"], problem.render)

state = algorithm.init(jax.random.key(0))
state, info = algorithm.step(state)
assert_type(algorithm.population(state), softqd.Population)
print(info.evaluations, problem.evaluate(sample(jax.random.key(0))))

told = softqd.interop.told(lambda rng: rng.normal(size=8), behavior_dim=2)
loop = softqd.interop.AskTell(softqd.dns(told), seed=0)
print(loop.ask())
print(softqd.squad_published, softqd.interop.host.problem)

found = softqd.compare(
    problem,
    {"mine": lambda problem: softqd.squad(problem, overlap=0.3), "dns": "dns"},
    seeds=2,
    evaluations=10_000,
)
assert_type(found, softqd.Comparison)
assert_type(found.quality_level, float)
