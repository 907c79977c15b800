"""Runs on several devices, in processes that `experiment/test_spread.py` starts.

JAX takes the number of devices before its first computation, and never again.

Usage: python spread_runs.py devices OUT
       python spread_runs.py process NUMBER PORT FOLDER LAST OUT
"""

import os
import re
import signal
import sys

import jax
import numpy as np

import softqd

SIZE, ITERATIONS = 64, 20


def make(solution_dim=40, size=SIZE):
    problem = softqd.problems.linear_projection(4, solution_dim=solution_dim)
    return softqd.squad(problem, population_size=size)


def run(algorithm=None, **settings):
    settings = {"seed": 1, "num_iterations": ITERATIONS, "log_every": 5, **settings}
    return softqd.run(algorithm or make(), **settings)


def arrays(result, name):
    population, history = result.population, result.history
    return {
        f"{name}_solutions": population.solutions,
        f"{name}_behavior": population.behavior,
        f"{name}_quality": population.quality,
        f"{name}_evaluations": history["evaluations"],
        f"{name}_relocated": history["relocated"],
    }


def refused(**settings):
    try:
        run(**settings)
    except ValueError as error:
        return str(error)
    return ""


def moved():
    """Shapes that devices exchange in an iteration."""
    algorithm = make(solution_dim=40)
    from softqd.experiment.program import Lanes, Program
    from softqd.experiment.spread import mesh_of

    mesh = mesh_of("all")
    with jax.set_mesh(mesh):
        program = Program(algorithm, Lanes([0], is_single=True), mesh)
        text = program._lower(program.shape_of_state(None)).compile().as_text()
    found = re.findall(r"= (.*?) (?:all-\w+|collective-permute|ragged\S*)\(", text)
    return sorted(
        {shape for line in found for shape in re.findall(r"\[([\d,]*)\]", line)}
    )


def devices(out):
    """Eight devices in one process."""
    jax.config.update("jax_num_cpu_devices", 8)
    folder = os.path.join(os.path.dirname(out), "run")
    four = jax.make_mesh((4,), ("x",), devices=jax.devices()[:4])
    stop = lambda point: point.iteration == 10  # noqa: E731
    found = arrays(run(), "one") | arrays(run(mesh="all"), "all")
    found |= arrays(run(seed=[1, 2], mesh="all")[0], "seeds")
    run(mesh="all", checkpoint_dir=folder, stop_when=stop)
    found |= arrays(run(mesh=four, checkpoint_dir=folder, resume=True), "resumed")
    found["moved"] = np.array(moved())
    found["uneven"] = refused(algorithm=make(size=60), mesh="all")
    found["unknown"] = refused(mesh="some")
    np.savez(out, **found)


def process(number, port, folder, last, out):
    """Two devices of four; the second process dies after iteration ``last``."""
    jax.config.update("jax_num_cpu_devices", 2)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        f"127.0.0.1:{port}", 2, int(number), heartbeat_timeout_seconds=5
    )

    def die(point):
        if number == "1" and point.iteration == int(last):
            os.kill(os.getpid(), signal.SIGKILL)

    result = run(
        mesh="all",
        checkpoint_dir=folder,
        checkpoint_every=0,
        resume=True,
        callback=die,
    )
    np.savez(out, **arrays(result, "process"))


if __name__ == "__main__":
    {"devices": devices, "process": process}[sys.argv[1]](*sys.argv[2:])
