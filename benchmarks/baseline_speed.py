"""The baselines against pyribs driving the same jitted evaluation, in one run.

Usage: python benchmarks/baseline_speed.py    (needs the extra 'parity')

Settings are the published ones on lp-hard: 10,000 cells, 15 emitters of 36 evaluations,
1024 numbers a solution, 16 behaviors. Both sides start from the same warm archive;
times are per iteration, after compilation, taken by turns.

The floor of one iteration of CMA-MEGA, in operations and bytes:

- evaluation: 540 solutions and 15 * 17 vector-Jacobian products of 1024 coordinates,
  about 25 operations each: 20 MFLOP;
- branching: 525 * 17 * 1024 * 2 = 18 MFLOP;
- cells: 540 * 10,000 * 17 * 2 = 184 MFLOP of matrix product, and one pass over the
  5.4 M scores;
- 15 eigen-decompositions of 17 x 17; comparisons inside the batch 540^2 = 0.3 M;
- bytes: children written and read, 540 * 4 kB = 2 MB, and the accepted rows once more.

About 230 MFLOP: 5 ms on two cores that sustain 50 GFLOP/s.
"""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np
from ribs.archives import CVTArchive, DNSArchive
from ribs.emitters import EvolutionStrategyEmitter, GradientArborescenceEmitter
from ribs.schedulers import Scheduler
from squad_speed import compiled_loop

import softqd
from softqd.experiment import config as configs

DIM, NUM_EMITTERS, BATCH = 16, 15, 36


def warm_state(name, num_iterations=300):
    """Our algorithm, its state after some iterations, and its problem."""
    problem, algorithm = configs.build(configs.from_name("lp-hard", name))
    advance = jax.jit(
        lambda s: jax.lax.fori_loop(
            0, num_iterations, lambda _, s: algorithm.step(s)[0], s
        )
    )
    init = jax.jit(algorithm.init)
    # CMA-MAEGA fails on some seeds: its archive stays nearly empty.
    for seed in range(10):
        state = jax.block_until_ready(advance(init(jax.random.key(seed))))
        if algorithm.population(state).occupied.sum() > 2 * NUM_EMITTERS:
            break
    return problem, algorithm, state


def pyribs_scheduler(name, algorithm, state):
    """The method in pyribs, with our elites in its archives."""
    settings = algorithm.settings
    common = {
        "solution_dim": 1024,
        "centroids": np.asarray(state.archive.centroids),
        "ranges": [(0.0, 1.0)] * DIM,
        "dtype": np.float32,
    }
    elites = algorithm.population(state).to_ribs()
    if name == "cma_mega":
        archive, result = CVTArchive(**common), None
    else:
        rate = settings["learning_rate"]
        archive = CVTArchive(**common, learning_rate=rate, threshold_min=0.0)
        result = CVTArchive(**common)
        result.add(**elites)
    archive.add(**elites)
    start = elites["solution"]
    options = {"archive": archive, "sigma0": settings["sigma0"]}
    if name == "sep_cma_mae":
        emitters = [
            EvolutionStrategyEmitter(
                **options,
                x0=start[i],
                ranker="imp",
                es="sep_cma_es",
                selection_rule="mu",
                restart_rule="basic",
                batch_size=BATCH,
                seed=i,
            )
            for i in range(NUM_EMITTERS)
        ]
    else:
        rules = {"ranker": "imp", "selection_rule": "mu", "restart_rule": "basic"}
        emitters = [
            GradientArborescenceEmitter(
                **options,
                x0=start[i],
                lr=0.05,
                grad_opt="adam",
                batch_size=BATCH - 1,
                seed=i,
                **(rules if name == "cma_maega" else {}),
            )
            for i in range(NUM_EMITTERS)
        ]
    return Scheduler(archive, emitters, result_archive=result)


def pyribs_iteration(name, problem, scheduler):
    """A function that takes one iteration."""
    evaluate = jax.jit(jax.vmap(problem.evaluate))

    def both(x):
        quality, behavior = problem.evaluate(x)
        return jnp.append(quality[None], behavior)

    jacobian = jax.jit(jax.vmap(jax.jacrev(both)))

    def iterate():
        if name != "sep_cma_mae":
            points = jnp.asarray(scheduler.ask_dqd(), jnp.float32)
            quality, behavior = map(np.asarray, evaluate(points))
            scheduler.tell_dqd(quality, behavior, np.array(jacobian(points)))
        solutions = jnp.asarray(scheduler.ask(), jnp.float32)
        scheduler.tell(*map(np.asarray, evaluate(solutions)))

    return iterate


def pyribs_dns(problem, algorithm, state, batch_size=128):
    """DNS on pyribs' DNSArchive, with iso+line children in NumPy."""
    evaluate = jax.jit(jax.vmap(problem.evaluate))
    archive = DNSArchive(
        solution_dim=1024, measure_dim=DIM, capacity=1024, k_neighbors=8
    )
    archive.add(**algorithm.population(state).to_ribs())
    rng = np.random.default_rng(0)

    def iterate():
        x1, x2 = (archive.sample_elites(batch_size)["solution"] for _ in range(2))
        line = 0.5 * rng.standard_normal((batch_size, 1))
        children = x1 + 0.05 * rng.standard_normal(x1.shape) + line * (x2 - x1)
        found = evaluate(jnp.asarray(children, jnp.float32))
        archive.add(children, *map(np.asarray, found))

    return iterate


def compare(name, repeats=4, num_steps=20, num_theirs=3):
    problem, algorithm, state = warm_state(name)
    ours = compiled_loop(lambda s: algorithm.step(s)[0], state)
    if name == "dns":
        theirs = pyribs_dns(problem, algorithm, state)
    else:
        scheduler = pyribs_scheduler(name, algorithm, state)
        theirs = pyribs_iteration(name, problem, scheduler)
    theirs()  # compile
    times = []
    for _ in range(repeats):
        mine = ours(num_steps)
        began = time.perf_counter()
        for _ in range(num_theirs):
            theirs()
        times.append((mine, (time.perf_counter() - began) / num_theirs))
    mine, other = 1e3 * np.median(times, axis=0)
    ratio = np.median([b / a for a, b in times])
    print(
        f"{name:12} ours {mine:7.2f} ms/iteration, pyribs {other:8.1f} ms/iteration, "
        f"ratio {ratio:.1f}",
        flush=True,
    )


def main():
    print(f"jax {jax.__version__} on {jax.devices()[0].device_kind}")
    print(f"softqd {softqd.__version__}, lp-hard, published settings")
    for name in ("cma_mega", "cma_maega", "sep_cma_mae", "dns"):
        compare(name)


if __name__ == "__main__":
    main()
