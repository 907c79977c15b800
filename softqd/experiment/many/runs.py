"""Runs of several methods: all that are not finished, in one process or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import jax

from softqd.experiment.many.group import Emit, Event, groups_of, run_group
from softqd.experiment.many.plan import Method
from softqd.experiment.many.workers import Task, run_tasks
from softqd.experiment.progress import ExperimentBar
from softqd.ops.checks import check_count
from softqd.types import Problem


class Runs(NamedTuple):
    """One method and the seeds wanted of it."""

    method: Method
    seeds: list[int]
    problem: Problem


def run_all(
    out: Path,
    wanted: Sequence[Runs],
    jobs: int = 1,
    progress: bool = False,
    on_done: Callable[[str], None] | None = None,
    run_here: Callable[[Sequence[Task], Emit], None] | None = None,
) -> dict[str, dict[int, str]]:
    """Run what is not finished; finished run folders are kept.

    Args:
        out: Folder of the experiment.
        wanted: Methods and seeds; methods that cannot run are passed over.
        jobs: Processes at once, as `check_jobs` allows them.
        progress: Show a progress bar over all runs.
        on_done: Called with a method's name when its last open run has ended.
        run_here: Runs tasks in this process; by default one after the other.

    Returns:
        Methods to what went wrong, by seed; empty where nothing did.
    """
    groups = [
        (Task(runs.method, seeds), runs.problem)
        for runs in wanted
        if runs.method.algorithm is not None
        for seeds in groups_of(out, runs.method, runs.seeds, jobs)
    ]
    open_runs = {(t.method.name, seed) for t, _ in groups for seed in t.seeds}
    total = max(sum(len(runs.seeds) for runs in wanted), len(open_runs))
    bar = ExperimentBar(total, total - len(open_runs)) if progress else None
    shares = dict.fromkeys(sorted(open_runs), 0.0)
    failures: dict[str, dict[int, str]] = {runs.method.name: {} for runs in wanted}

    def emit(event: Event) -> None:
        for seed in event.seeds:
            shares[event.algorithm, seed] = event.share
            if event.error:
                failures[event.algorithm][seed] = event.error
        if bar is not None:
            done = sum(share == 1.0 for share in shares.values())
            bar.update(sum(shares.values()), done, event.algorithm)
        mine = [share for (name, _), share in shares.items() if name == event.algorithm]
        if on_done is not None and min(mine) == 1.0:
            on_done(event.algorithm)

    with bar or nullcontext():
        if jobs > 1:
            run_tasks(out, [task for task, _ in groups], jobs, emit)
        elif run_here is not None:
            run_here([task for task, _ in groups], emit)
        else:
            for task, problem in groups:
                run_group(out, task.method, task.seeds, problem, emit)
    return failures


def check_jobs(jobs: int, problem: Problem | str = "") -> None:
    """Refuse several processes where they cannot be used.

    Raises:
        ValueError: If ``jobs`` is not a count, or several cannot build the problem or
            would share a GPU.
    """
    check_count("jobs", jobs, 1)
    if jobs > 1 and isinstance(problem, Problem):
        raise ValueError(
            "jobs > 1 needs a problem that other processes can build: give a name or "
            "'module:factory' instead of a softqd.Problem"
        )
    if jobs > 1 and jax.default_backend() != "cpu":
        raise ValueError(
            "jobs > 1 is for the CPU, and this is a "
            f"{jax.default_backend()}; leave jobs out, or set JAX_PLATFORMS=cpu"
        )
