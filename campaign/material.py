"""Small folders of real runs, which are damaged, killed and compared."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from softqd import cli

ROOT = Path(__file__).parents[1]
SMALL = ["--set", "solution_dim=8", "--set", "squad.population_size=16"]
SMALL_RUN = ["--set", "solution_dim=8", "--set", "population_size=16"]
# What is killed and resumed, and damaged: command by name.
COMMANDS = {
    "run": ["run", "sphere", *SMALL_RUN, "--iterations", "60", "--log-every", "20"],
    "compare": [
        *("compare", "sphere", "--algorithms", "squad", "--seeds", "2"),
        *("--evaluations", "400", *SMALL),
    ],
    "sweep": [
        *("sweep", "sphere", "--grid", "overlap=0.1,0.3", "--seeds", "2"),
        *("--iterations", "10", *SMALL_RUN),
    ],
}
# What the script `softqd` does.
_ENTRY = "from softqd_command import main; main()"


def environment(store: Path) -> dict[str, str]:
    """Of processes, which share what one of them has compiled."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "JAX_COMPILATION_CACHE_DIR": str(store),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "OPENBLAS_NUM_THREADS": "1",
    }


def start(arguments: list[str], store: Path, **how) -> subprocess.Popen:
    """Start a command in a process of its own; standard error goes to a file."""
    return subprocess.Popen(
        [sys.executable, "-c", _ENTRY, *arguments],
        env=environment(store),
        stdout=subprocess.DEVNULL,
        **how,
    )


def make(folder: Path, names=tuple(COMMANDS)) -> Path:
    """Make the folders, in this process."""
    for name in names:
        quiet = io.StringIO()
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            status = cli.invoke([*COMMANDS[name], "--out", str(folder / name)])
        if status:
            raise RuntimeError(f"{name} ended with {status}: {quiet.getvalue()}")
    return folder


def difference(one: Path, other: Path) -> str | None:
    """What differs in runs of two folders: population, history or metrics."""
    import json

    names = {
        p.relative_to(folder)
        for folder in (one, other)
        for name in ("population.npz", "history.csv", "metrics.json")
        for p in folder.rglob(name)
    }
    if not names:
        return "there is no run"
    for name in sorted(names):
        a, b = one / name, other / name
        if not (a.exists() and b.exists()):
            return f"{name} is missing"
        if name.suffix == ".npz":
            with np.load(a) as x, np.load(b) as y:
                is_same = x.files == y.files
                is_same = is_same and all(np.array_equal(x[k], y[k]) for k in x.files)
        elif name.suffix == ".csv":
            x, y = (np.genfromtxt(p, delimiter=",", names=True) for p in (a, b))
            kept = [k for k in x.dtype.names if k != "seconds"]
            is_same = x.dtype == y.dtype and np.array_equal(
                *(np.stack([np.atleast_1d(t[k]) for k in kept]) for t in (x, y)),
                equal_nan=True,
            )
        else:
            x, y = (json.loads(p.read_text()) for p in (a, b))
            is_same = {**x, "seconds": 0} == {**y, "seconds": 0}
        if not is_same:
            return f"{name} differs"
    return None
