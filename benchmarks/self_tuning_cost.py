"""What it costs SQUAD to set its own bandwidth: time of an iteration against published.

Usage: python benchmarks/self_tuning_cost.py [--presets lp-easy,lp-hard]
           [--iterations 100] [--repeats 5]

The floor: beyond the published form, a batch scales its gradient and its steps, 3 M p
operations beside the M N d of its distances, for M members with p numbers each and d
behaviors among N; and once per iteration the scale of the behaviors, how far they moved
and the mean overlap take a few N d. No pass over the distances is added. On a GPU such
small programs take as long as it takes to launch their kernels, of which these steps
add some.

Prints seconds of both forms, taken in turns, and the ratio of their medians: with the
same number of neighbors, and with the defaults, where the self-tuning form has fewer.
"""

from __future__ import annotations

import argparse
import statistics

import jax

import softqd
from softqd.experiment import config as configs

FORMS = {
    "published": [],
    "self-tuning, 15 neighbors": ["gamma_sq=none", "num_neighbors=15"],
    "self-tuning": ["gamma_sq=none"],
}


def measure(preset: str, iterations: int, repeats: int) -> dict[str, float]:
    """Median seconds of an iteration, by form."""
    times: dict[str, list[float]] = {name: [] for name in FORMS}
    config = configs.from_name(preset)
    problem = configs.build_problem(config)
    algorithms = {
        name: configs.build_algorithm(configs.with_settings(config, changes), problem)
        for name, changes in FORMS.items()
    }
    for _ in range(repeats):
        for name, algorithm in algorithms.items():
            result = softqd.run(algorithm, num_iterations=iterations)
            times[name].append(result.timings["run"] / iterations)
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--presets", default="lp-easy,lp-hard")
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(jax.devices()[0].device_kind)
    for preset in options.presets.split(","):
        found = measure(preset, options.iterations, options.repeats)
        for name, seconds in found.items():
            ratio = seconds / found["published"]
            print(f"{preset}, {name}: {1e3 * seconds:.3f} ms, {ratio:.3f} of published")


if __name__ == "__main__":
    main()
