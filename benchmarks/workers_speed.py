"""How much faster workers evaluate: a simulator that takes 10 ms, 2 and 8 processes.

Prints the share of the ideal speed-up, which should be at least 90%.
"""

import time

import numpy as np

import softqd

SECONDS, BATCH, ITERATIONS = 0.01, 512, 4


def simulate(x):
    time.sleep(SECONDS)
    return 10.0 - float(np.sum(x**2)), np.tanh(x[:2])


def share_of_ideal(workers):
    with softqd.interop.host.processes(workers) as pool:
        list(pool.map(abs, range(64)))  # every process has started
        problem = softqd.interop.host.problem(
            simulate,
            lambda rng: rng.normal(size=16),
            behavior_bounds=((-1, -1), (1, 1)),
            executor=pool,
        )
        algorithm = softqd.dns(problem, population_size=BATCH, batch_size=BATCH)
        result = softqd.run(algorithm, num_iterations=ITERATIONS + 1, log_every=1)
    # The first iteration compiles.
    seconds = np.diff(result.history["seconds"])[1:]
    return BATCH * SECONDS / workers / np.median(seconds)


def main():
    for workers in (2, 8):
        print(f"{workers} workers: {share_of_ideal(workers):.0%} of the ideal speed-up")


if __name__ == "__main__":
    main()
