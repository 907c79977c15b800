"""SQUAD against the straightforward formulation, in one run, after compilation.

Usage: python benchmarks/squad_speed.py [--large] [--whole]

First the published form against its straightforward formulation, then what an
evaluation costs in the default and in the published form.

The floor of one iteration of the published form on lp-hard (N=1024 solutions of p=1024,
M=64, d=16, k=15), in operations and bytes:

- evaluation and gradient: 2 evaluations and 1 vector-Jacobian product of N p = 1.05 M
  coordinates, each about 15 operations for the polynomial cosine or sine and 10 for the
  rest: 3 * 25 * 1.05 M = 79 MFLOP;
- Adam: about 12 operations on N p values: 13 MFLOP;
- distances: N^2 d * 3 = 50 MFLOP; kernel and forces: N^2 (2 d + 12) = 46 MFLOP;
- k-th distance: k passes over N^2 values: 16 M comparisons and minima;
- bytes: solutions and two moments read and written once, 6 * 4 N p = 25 MB, the
  distance matrix stays in cache batch by batch (64 x 1024 x 4 = 256 kB).

About 200 MFLOP and 25 MB. Two CPU cores that sustain 50 GFLOP/s and 20 GB/s need 4 ms
and 1.3 ms; an H200 (60 TFLOP/s, 4 TB/s) 4 us and 7 us, far below the cost of launching
16 dependent batches of about 25 small kernels, which is what its time consists of.

The default evaluates each solution once and N/8 children, and takes the whole
population at once: 1.125 + 1 passes over 1.05 M coordinates (56 MFLOP), Adam, all pairs
twice (push, and children against all with their nearest: 50 + 46 + 15 MFLOP): about as
many operations as the published form for 0.56 of its evaluations, and on a GPU a
sixteenth of the launches, whose number is printed.
"""

from __future__ import annotations

import argparse
import re
import resource
import time

import jax
import jax.numpy as jnp
import numpy as np
from straightforward import linear_projection, straightforward_squad

import softqd


def compiled_loop(step, state):
    """A function of a number of iterations that returns their seconds, no logging."""
    advance = jax.jit(
        lambda state, n: jax.lax.fori_loop(0, n, lambda _, s: step(s), state)
    )
    jax.block_until_ready(advance(state, 2))

    def seconds(num_steps):
        began = time.perf_counter()
        jax.block_until_ready(advance(state, num_steps))
        return (time.perf_counter() - began) / num_steps

    return seconds


def compare(name, dim, gamma_sq, num_steps, repeats=15):
    """Both formulations by turns, so that a busy machine disturbs both alike."""
    algorithm = softqd.squad_published(
        softqd.problems.linear_projection(dim), gamma_sq=gamma_sq
    )
    state = algorithm.init(jax.random.key(0))
    began = time.perf_counter()
    jax.jit(algorithm.step).lower(state).compile()
    compilation = time.perf_counter() - began
    init, step = straightforward_squad(linear_projection(dim), gamma_sq)
    ours = compiled_loop(lambda s: algorithm.step(s)[0], state)
    plain = compiled_loop(step, init(jax.random.key(0), state.solutions))
    times = np.array([(ours(4 * num_steps), plain(num_steps)) for _ in range(repeats)])
    ours_ms, plain_ms = 1e3 * np.median(times, axis=0)
    ratio = np.median(times[:, 1] / times[:, 0])
    print(
        f"{name:10} ours {ours_ms:8.3f} ms/iteration, straightforward "
        f"{plain_ms:8.3f} ms/iteration, ratio {ratio:5.2f}, "
        f"compilation {compilation:.1f} s"
    )


def compare_evaluations(name, dim, gamma_sq, num_steps, repeats=9):
    """What an evaluation costs in the default and in the published form, by turns."""
    problem = softqd.problems.linear_projection(dim)
    loops = []
    for algorithm in (
        softqd.squad(problem),
        softqd.squad_published(problem, gamma_sq=gamma_sq),
    ):
        state = jax.jit(algorithm.init)(jax.random.key(0))
        step = algorithm.step
        evaluations = int(jax.jit(step)(state)[1].evaluations)
        advance = compiled_loop(lambda s, step=step: step(s)[0], state)
        loops.append((evaluations, advance))
    times = np.array(
        [[run(4 * num_steps) / n for n, run in loops] for _ in range(repeats)]
    )
    default, published = 1e6 * np.median(times, axis=0)
    ratio = np.median(times[:, 0] / times[:, 1])
    print(
        f"{name:10} default {default:8.3f} us/evaluation, published "
        f"{published:8.3f} us/evaluation, ratio {ratio:5.2f}"
    )


def launches(algorithm):
    """About how many kernels an iteration launches, from its compiled program."""
    state = jax.jit(algorithm.init)(jax.random.key(0))
    text = jax.jit(algorithm.step).lower(state).compile().as_text()
    # What lies inside of a fusion or of a reduction is no launch of its own.
    blocks = re.split(r"\n(?=(?:ENTRY )?%[\w.\-]+ \()", text)
    outer = [b for b in blocks if b.startswith("ENTRY") or "branch" in b.split("(")[0]]
    kinds = r" (fusion|custom-call|copy|sort|scatter|reduce|dot|dynamic-update-slice)\("
    return sum(len(re.findall(kinds, block)) for block in outer)


def whole_runs():
    """2.05 M evaluations of lp-hard with the default, one seed and ten together."""
    problem = softqd.problems.linear_projection(behavior_dim=16)
    algorithm = softqd.squad(problem)
    print(f"lp-hard, default: about {launches(algorithm)} launches an iteration")
    for seed in (0, list(range(10))):
        times = []
        for _ in range(3):
            result = softqd.run(
                algorithm,
                seed=seed,
                max_evaluations=2_050_000,
                log_every=10**6,
            )
            first = result[0] if isinstance(result, list) else result
            times.append(first.timings["run"])
        count = len(seed) if isinstance(seed, list) else 1
        print(
            f"lp-hard, 2.05 M evaluations, {count:2} seeds: {min(times):.3f} s (best "
            f"of 3), compilation {first.timings['compile']:.1f} s"
        )


def large_population():
    """One iteration of 100,000 solutions, 64 coordinates, 16 behaviors."""
    problem = softqd.problems.linear_projection(behavior_dim=16, solution_dim=64)
    algorithm = softqd.squad_published(problem, population_size=100_000)
    state = jax.jit(algorithm.init)(jax.random.key(0))
    step = jax.jit(algorithm.step, donate_argnums=0).lower(state).compile()
    began = time.perf_counter()
    state, _ = jax.block_until_ready(step(state))
    spent = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    assert jnp.isfinite(state.quality).all()
    print(f"N=100,000, d=16: one iteration {spent:.1f} s, peak memory {peak:.2f} GiB")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true", help="only N = 100,000")
    parser.add_argument("--whole", action="store_true", help="whole runs too")
    arguments = parser.parse_args()
    print(f"jax {jax.__version__} on {jax.devices()[0].device_kind}")
    if arguments.large:
        large_population()
        return
    num_steps = 5 if jax.default_backend() == "cpu" else 100
    compare("lp-easy", 4, 0.1, num_steps)
    compare("lp-medium", 8, 0.5, num_steps)
    compare("lp-hard", 16, 1.0, num_steps)
    compare_evaluations("lp-easy", 4, 0.1, num_steps)
    compare_evaluations("lp-hard", 16, 1.0, num_steps)
    if arguments.whole or jax.default_backend() != "cpu":
        whole_runs()


if __name__ == "__main__":
    main()
