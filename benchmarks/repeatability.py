"""Does a run repeat itself in another process, and what does ``--deterministic`` cost?

For a GPU: ``python benchmarks/repeatability.py``. Every algorithm runs on lp-easy and
ic-small in two fresh processes without the flags and in two with them, without a store
of compiled programs. Prints whether the two populations and histories are the same, bit
for bit, and the seconds of the runs, compiling and iterating.

``--iterations 20`` for fewer, ``--algorithms squad,dns`` for some.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys

from softqd import registry
from softqd.cli._deterministic import FLAGS

PROBLEMS = ("lp-easy", "ic-small")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--algorithms", default=",".join(sorted(registry.ALGORITHMS)))
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measured(*options.child, options.iterations)))
        return
    print(
        "| problem | algorithm | repeats | with flags | compiling, s | iterating, s |"
    )
    print("|---|---|---|---|---|---|")
    for problem in PROBLEMS:
        for algorithm in options.algorithms.split(","):
            print(row(problem, algorithm, options.iterations), flush=True)


def row(problem, algorithm, iterations):
    pairs = [
        [child(problem, algorithm, iterations, flags) for _ in range(2)]
        for flags in ("", FLAGS)
    ]
    same = ["yes" if a["digest"] == b["digest"] else "no" for a, b in pairs]
    shown = [
        " to ".join(f"{min(run[part] for run in pair):.3g}" for pair in pairs)
        for part in ("compile", "run")
    ]
    return "| " + " | ".join([problem, algorithm, *same, *shown]) + " |"


def child(problem, algorithm, iterations, flags):
    """A run in a fresh process, with these flags beside those that are set."""
    dropped = ("XLA_FLAGS", "JAX_COMPILATION_CACHE_DIR")
    environment = {k: v for k, v in os.environ.items() if k not in dropped}
    environment["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    command = [sys.executable, __file__, "--iterations", str(iterations)]
    done = subprocess.run(
        [*command, "--child", problem, algorithm],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def measured(problem, algorithm, iterations):
    """Digest and seconds of a run in this process."""
    import jax
    import numpy as np

    import softqd
    from softqd.experiment import config

    built = config.build(config.from_name(problem, algorithm))[1]
    result = softqd.run(built, seed=0, num_iterations=iterations)
    history = [v for k, v in result.history.items() if k != "seconds"]
    digest = hashlib.sha256()
    for leaf in [*jax.tree.leaves(result.population), *history]:
        digest.update(np.asarray(leaf).tobytes())
    return {"digest": digest.hexdigest(), **result.timings}


if __name__ == "__main__":
    main()
