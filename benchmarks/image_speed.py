"""SQUAD on Image Composition against the straightforward formulation, in one run.

Usage: python benchmarks/image_speed.py [--whole] [--growth]
"""

from __future__ import annotations

import argparse

import jax
import numpy as np
from squad_speed import compiled_loop
from straightforward import image_composition, straightforward_squad

import softqd


def compare(num_circles, population_size, batch_size, repeats, num_steps):
    problem = softqd.problems.image_composition(num_circles)
    algorithm = softqd.squad(
        problem, population_size=population_size, batch_size=batch_size
    )
    state = jax.jit(algorithm.init)(jax.random.key(0))
    init, step = straightforward_squad(
        image_composition(jax.numpy.asarray(problem.target), num_circles),
        1.0,
        population_size,
        batch_size,
    )
    flat = state.solutions.reshape(population_size, -1)
    plain = compiled_loop(step, jax.jit(init)(jax.random.key(0), flat))
    ours = compiled_loop(lambda s: algorithm.step(s)[0], state)
    times = np.array([(ours(num_steps), plain(1)) for _ in range(repeats)])
    ours_ms, plain_ms = 1e3 * np.median(times, axis=0)
    ratio = np.median(times[:, 1] / times[:, 0])
    print(
        f"{num_circles} circles, N={population_size}, M={batch_size}: ours "
        f"{ours_ms:.2f} ms/iteration, straightforward {plain_ms:.1f} ms/iteration, "
        f"ratio {ratio:.1f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.parse_args()
    print(f"jax {jax.__version__} on {jax.devices()[0].device_kind}")
    if jax.default_backend() == "cpu":
        compare(256, 64, 16, repeats=5, num_steps=2)
    else:
        compare(1024, 1024, 64, repeats=3, num_steps=20)


if __name__ == "__main__":
    main()
