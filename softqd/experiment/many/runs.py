"""Runs of several methods: all that are not finished, in one process or several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import jax

from softqd.experiment.many.group import (
    Event,
    Group,
    checkpoint_of,
    groups_of,
    run_group,
)
from softqd.experiment.many.plan import Algorithms, Method
from softqd.experiment.many.stack import stacks_of
from softqd.experiment.many.workers import run_tasks
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
    is_grid: bool = False,
) -> dict[str, dict[int, str]]:
    """Run what is not finished; finished run folders are kept.

    Args:
        out: Folder of the experiment.
        wanted: Methods and seeds; methods that cannot run are passed over.
        jobs: Processes at once, as `check_jobs` allows them.
        progress: Show a progress bar over all runs.
        on_done: Called with a method's name when its last open run has ended.
        is_grid: Whether methods are settings of one algorithm: those that differ in
            numbers alone then advance together, in one process.

    Returns:
        Methods to what went wrong, by seed; empty where nothing did.
    """
    able = {
        runs.method.name: Group([runs.method], runs.seeds, runs.problem)
        for runs in wanted
        if runs.method.algorithm is not None
    }
    groups = groups_of(out, able, jobs)
    if is_grid and jobs == 1:
        groups = stacked(out, groups)
    shares = {
        (method.name, seed): 0.0 for group in groups for method, seed in group.runs()
    }
    total = max(sum(len(runs.seeds) for runs in wanted), len(shares))
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

    with _bar(total, total - len(shares), progress) as bar:
        if jobs > 1:
            run_tasks(out, groups, jobs, emit)
        else:
            for group in groups:
                run_group(out, group, emit)
    return failures


def _bar(total: int, kept: int, is_shown: bool) -> Any:
    if not is_shown:
        return nullcontext()
    from softqd.experiment.progress import ExperimentBar  # loads rich

    return ExperimentBar(total, kept)


def stacked(out: Path, groups: Sequence[Group]) -> list[Group]:
    """Groups with the same seeds, whose methods differ in numbers alone, as one.

    Those that were interrupted go on as they are.
    """
    found, together = [], {}
    for group in groups:
        if checkpoint_of(out, group).exists():
            found.append(group)
            continue
        seeds = tuple(group.seeds)
        same = together.get(seeds, group._replace(methods=[]))
        together[seeds] = same._replace(methods=same.methods + group.methods)
    for whole in together.values():
        parts = stacks_of(whole.methods, len(whole.seeds))
        found += [whole._replace(methods=part) for part in parts]
    return found


def check_jobs(
    jobs: int, problem: Problem | str = "", algorithms: Algorithms = ()
) -> None:
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
    functions = isinstance(algorithms, Mapping) and [
        label for label, given in algorithms.items() if not isinstance(given, str)
    ]
    if jobs > 1 and functions:
        raise ValueError(
            "jobs > 1 needs algorithms that other processes can build: give a name or "
            f"'module:factory' instead of a function for {', '.join(functions)}"
        )
    if jobs > 1 and jax.default_backend() != "cpu":
        raise ValueError(
            "jobs > 1 is for the CPU, and this is a "
            f"{jax.default_backend()}; leave jobs out, or set JAX_PLATFORMS=cpu"
        )
