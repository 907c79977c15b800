"""Settings and seeds run together into a run folder each.

The checkpoint of runs that advance together is one file, in ``unfinished/<digest>/``;
it goes away once their run folders are written.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from softqd.experiment.folder import identity, write_whole
from softqd.experiment.loop import NonFiniteError
from softqd.experiment.many.group import (
    Emit,
    Event,
    fail,
    finish,
    is_finished,
    is_memory,
    run_group,
)
from softqd.experiment.many.plan import Method, folder_of
from softqd.experiment.many.stack import Stack, stack, stacks_of
from softqd.experiment.many.workers import Task
from softqd.experiment.run import run_lanes
from softqd.types import Problem

_LANES_FILE = "lanes.json"


def run_stacks(
    out: Path,
    methods: Sequence[Method],
    seeds: Sequence[int],
    problem: Problem,
    emit: Emit,
) -> None:
    """Run methods with the same seeds, together where they differ in numbers alone.

    What happens is told to ``emit``; only Ctrl-C is raised.
    """
    try:
        stacks = stacks_of(methods, problem, len(seeds))
    except Exception:  # a factory of the user's that cannot be built twice, say
        stacks = []
        for method in methods:
            run_group(out, method, seeds, problem, emit)
    for part in stacks:
        _run_stack(out, part, seeds, problem, emit)


def continue_stacks(
    out: Path,
    methods: Sequence[Method],
    tasks: Sequence[Task],
    problem: Problem,
    emit: Emit,
) -> list[Task]:
    """Continue runs that were interrupted together; the tasks that are left."""
    for path in sorted((out / "unfinished").glob(f"*/{_LANES_FILE}")):
        lanes = json.loads(path.read_text())
        mine = [m for m in methods if m.algorithm and _lane(m) in lanes["methods"]]
        if len(mine) < len(lanes["methods"]):  # another grid: what is missing is lost
            continue
        seeds = lanes["seeds"]
        _run_stack(out, stack(mine, problem), seeds, problem, emit)
        names = {method.name for method in mine}
        tasks = [_without(t, seeds) if t.method.name in names else t for t in tasks]
    return [task for task in tasks if task.seeds]


def _without(task: Task, seeds: Sequence[int]) -> Task:
    return task._replace(seeds=[s for s in task.seeds if s not in seeds])


def _run_stack(
    out: Path, part: Stack, seeds: Sequence[int], problem: Problem, emit: Emit
) -> None:
    """Run a stack; if that fails, in halves, or each of its methods by itself."""
    methods = part.methods
    if len(methods) == 1:
        run_group(out, methods[0], seeds, problem, emit)
        return
    try:
        _run_together(out, part, seeds, problem, emit)
    except Exception as error:
        shutil.rmtree(_checkpoint(out, part, seeds), ignore_errors=True)
        _tell(methods, seeds, 0.0, emit)
        if not is_memory(error):
            for method in methods:
                run_group(out, method, seeds, problem, emit)
            return
        half = len(methods) // 2
        for some in (methods[:half], methods[half:]):
            _run_stack(out, stack(some, problem), seeds, problem, emit)


def _run_together(
    out: Path, part: Stack, seeds: Sequence[int], problem: Problem, emit: Emit
) -> None:
    checkpoint = _checkpoint(out, part, seeds)
    checkpoint.mkdir(parents=True, exist_ok=True)
    lanes = _lanes(part, seeds)
    write_whole(checkpoint / _LANES_FILE, json.dumps(lanes))
    limits = part.methods[0].config["run"]
    results = run_lanes(
        part.algorithm,
        list(seeds) * len(part.methods),
        np.repeat(part.numbers, len(seeds), axis=0),
        max_evaluations=limits["evaluations"],
        log_every=limits["log_every"],
        checkpoint_dir=checkpoint,
        progress=_Share(part.methods, seeds, emit),
        config=lanes,
    )
    pairs = [(method, seed) for method in part.methods for seed in seeds]
    is_written = True
    for (method, seed), result in zip(pairs, results, strict=True):
        if isinstance(result, NonFiniteError):
            fail(out, method, [seed], result, emit)
        else:
            finish(out, method, seed, result, problem, emit, len(results))
            is_written &= is_finished(folder_of(out, method, seed))
    if is_written:
        shutil.rmtree(checkpoint)
        with suppress(OSError):  # others may be there
            checkpoint.parent.rmdir()


class _Share:
    """Passes the progress of all runs on; their last bit is the metrics."""

    def __init__(self, methods: Sequence[Method], seeds: Sequence[int], emit: Emit):
        self._methods, self._seeds, self._emit = methods, seeds, emit

    def announce(self, seconds: float) -> None:
        """The experiment's bar shows the time left."""

    def update(self, share: float, iteration: int, latest: dict[str, float]) -> None:
        """Tell the share that is done."""
        _tell(self._methods, self._seeds, min(share, 0.99), self._emit)


def _tell(methods: Sequence[Method], seeds: Sequence[int], share: float, emit: Emit):
    for method in methods:
        emit(Event(method.name, list(seeds), share))


def _lane(method: Method) -> dict[str, Any]:
    """What a run must agree on to be continued."""
    run = method.config["run"]
    return {"name": method.name, "limit": run["evaluations"], **identity(method.config)}


def _lanes(part: Stack, seeds: Sequence[int]) -> dict[str, Any]:
    return {"methods": [_lane(m) for m in part.methods], "seeds": list(seeds)}


def _checkpoint(out: Path, part: Stack, seeds: Sequence[int]) -> Path:
    text = json.dumps(_lanes(part, seeds), sort_keys=True)
    return out / "unfinished" / hashlib.sha256(text.encode()).hexdigest()[:16]
