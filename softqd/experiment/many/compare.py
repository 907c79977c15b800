"""Algorithms against each other on one problem: run every seed, then conclude.

Every run is kept in a folder of its own, ``<out>/<algorithm>/seed_<n>``. Called again,
`compare` keeps finished runs, continues interrupted ones and tries failed ones again.
"""

from __future__ import annotations

import functools
import math
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from softqd.experiment.config import ConfigError
from softqd.experiment.files.lock import locked
from softqd.experiment.files.schema import FileError
from softqd.experiment.folder import measure_again
from softqd.experiment.many.budget import with_budgets
from softqd.experiment.many.comparison import Comparison, conclude, entry_of
from softqd.experiment.many.group import unfinished
from softqd.experiment.many.plan import (
    Algorithms,
    Method,
    check_seeds,
    folder_of,
    methods_of,
    refuse_other,
)
from softqd.experiment.many.preset import read_presets
from softqd.experiment.many.runs import Runs, check_jobs, run_all
from softqd.experiment.run_folder import RunFolder
from softqd.ops.checks import check_count
from softqd.ops.units import pooled_units
from softqd.types import Problem


def compare(
    problem: Problem | str,
    algorithms: Algorithms,
    seeds: int | Sequence[int] = 10,
    *,
    evaluations: int | None = None,
    settings: Sequence[str] = (),
    presets: Sequence[str | Path] = (),
    out: str | Path | None = None,
    jobs: int = 1,
    progress: bool = False,
) -> Comparison:
    """Run algorithms on a problem with equal budgets, and compare them.

    The seeds of one algorithm advance together in one program. A run that fails, or an
    algorithm that cannot run on the problem, is reported and leaves the others alone.

    Args:
        problem: A name from ``softqd list``, ``module:factory``, or a `Problem`.
        algorithms: Names; ``module:factory`` for your own; ``label=name`` to set one
            algorithm in several ways. Or a dictionary of labels to names and to
            functions that take the problem and return an `Algorithm`, as in
            ``{"mine": lambda problem: softqd.squad(problem, overlap=0.3)}``.
        seeds: How many, from 0, or which.
        evaluations: Budget of every run, the first population included. By default the
            smallest budget among the algorithms' presets.
        settings: ``name=value`` for the problem, ``algorithm.name=value`` for one
            algorithm, or its label, over those of the preset.
        presets: Files that `softqd.sweep` wrote, at most one per algorithm: its tuned
            settings.
        out: Folder of the experiment, which can be continued; None keeps no run.
        jobs: Processes at once, on the CPU.
        progress: Show a progress bar over all runs.

    Returns:
        Numbers of all runs and their statistics; in ``out`` also as
        ``comparison.json`` and ``comparison.csv``.

    Raises:
        ValueError: If an argument cannot be used, no algorithm can run, or ``out``
            holds runs of another problem, other settings or another budget.

    Examples:
        >>> import softqd
        >>> small = ["solution_dim=8", "squad.population_size=64"]
        >>> found = softqd.compare(
        ...     "sphere", ["squad"], seeds=2, evaluations=500, settings=small
        ... )
        >>> found.algorithms["squad"].values["evaluations"]  # 5 * 64 + 2 * (64 + 8)
        [464, 464]
    """
    wanted = check_seeds(seeds)
    if evaluations is not None:
        check_count("evaluations", evaluations, 1, math.inf)
    check_jobs(jobs, problem, algorithms)
    tuned = read_presets(presets)
    texts = [text for preset in tuned for text in preset.settings_for(list(algorithms))]
    ready, methods = methods_of(problem, algorithms, [*texts, *settings])
    for preset in tuned:
        preset.check_problem(methods[0].config["problem"])
    budget, methods = with_budgets(methods, evaluations)
    place = tempfile.TemporaryDirectory() if out is None else nullcontext(str(out))
    with place as folder, locked(Path(folder)):
        experiment = Experiment(Path(folder), ready, methods, wanted)
        experiment.check_folder()
        experiment.run(jobs, progress)
        found = experiment.conclude(budget)
        if out is not None:
            found.write(Path(out))
    return found


def _or_remove(read: Callable) -> Callable:
    """Say what to do about a run folder that cannot be read."""

    @functools.wraps(read)
    def reading(*arguments: Any) -> Any:
        try:
            return read(*arguments)
        except FileError as error:
            what = f"{error}; remove its folder to run it again"
            raise ConfigError(what) from None

    return reading


class Experiment:
    """The runs of one comparison and what became of them."""

    def __init__(
        self, out: Path, problem: Problem, methods: list[Method], seeds: list[int]
    ):
        self.out, self.problem = out, problem
        self.methods, self.seeds = methods, seeds
        self.failures: dict[str, dict[int, str]] = {
            m.name: dict.fromkeys(seeds, m.error) if m.algorithm is None else {}
            for m in methods
        }

    @_or_remove
    def check_folder(self) -> None:
        """Refuse a folder whose runs do not belong to this comparison."""
        # A folder that was being written when it ended may lack files.
        folders = sorted(path.parent for path in self.out.glob("*/seed_*/metrics.json"))
        runs = [RunFolder(folder) for folder in folders]
        finished = {run.path: run.config for run in runs if run.is_finished}
        shared: dict[str, list[str] | None] = {"problem": None}
        for folder, saved in finished.items():
            refuse_other(folder, saved, self.methods[0].config, shared)
        own = {"algorithm": None, "run": ["evaluations", "cells"]}
        for method in self.methods:
            for folder in (folder_of(self.out, method, seed) for seed in self.seeds):
                if folder in finished:
                    refuse_other(folder, finished[folder], method.config, own)
        methods = {method.name: method for method in self.methods}
        for folder, lanes in unfinished(self.out):
            for lane in lanes["methods"]:
                method = methods.get(lane["name"], self.methods[0])
                tables = {**shared, **(own if lane["name"] in methods else {})}
                saved = {**lane, "versions": lanes["versions"]}
                refuse_other(folder, saved, method.config, tables)

    def run(self, jobs: int, progress: bool, is_grid: bool = False) -> None:
        """Run what is not finished."""
        runs = [Runs(method, self.seeds, self.problem) for method in self.methods]
        found = run_all(self.out, runs, jobs, progress, is_grid=is_grid)
        for name, failures in found.items():
            self.failures[name] |= failures

    @_or_remove
    def conclude(self, budget: int, noun: str = "algorithms") -> Comparison:
        """Read the run folders and compare them."""
        entries, notes = {}, {}
        level, runs = self.measure_alike()
        for method in self.methods:
            finished = runs[method.name]
            failures = self.failures[method.name]
            lost = {
                s: failures.get(s, "it did not finish")
                for s in self.seeds
                if s not in finished
            }
            entry, found = entry_of(finished, method.config["algorithm"], lost)
            entries[method.name] = entry
            notes |= found
        problem = self.methods[0].config["problem"]
        return conclude(problem, budget, entries, notes, noun, level)

    def finished(self, method: Method) -> dict[int, RunFolder]:
        """A method's runs that are done, by seed."""
        runs = {s: RunFolder(folder_of(self.out, method, s)) for s in self.seeds}
        return {s: run for s, run in runs.items() if run.is_finished}

    def measure_alike(self) -> tuple[float, dict[str, dict[int, RunFolder]]]:
        """Measure all runs in one unit, from their lowest level; it, and the runs."""
        runs = {method.name: self.finished(method) for method in self.methods}
        every = [run for some in runs.values() for run in some.values()]
        lowest = min((run.quality_level for run in every), default=0.0)
        units = [run.behavior_units for run in every if run.behavior_units is not None]
        same = pooled_units(units) if units else None
        return lowest, {
            name: {
                s: measure_again(run, self.problem, lowest, same)
                for s, run in some.items()
            }
            for name, some in runs.items()
        }
