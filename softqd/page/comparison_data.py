"""What the report page knows of several runs: statistics, curves, distributions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from softqd.experiment.many.comparison import Comparison, conclude, entry_of
from softqd.experiment.many.experiment_folder import ExperimentFolder
from softqd.experiment.result import COUNTS, result_of
from softqd.experiment.run_folder import POPULATION, RunFolder
from softqd.experiment.same import first_difference
from softqd.experiment.words import LEGEND, label_of
from softqd.page.run_data import (
    as_json,
    finite,
    name_of,
    problem_name,
    run_data,
    thinned,
)

_NOT_CURVES = {"iteration", *COUNTS, "seconds"}


class Gathered(NamedTuple):
    """Runs of one problem, by algorithm."""

    comparison: Comparison
    runs: dict[str, dict[int, RunFolder]]  # by seed, in order
    problem: str
    notes: list[str]


def gather(folders: Sequence[ExperimentFolder]) -> Gathered:
    """Read runs to compare: one comparison as it is, or runs and comparisons together.

    Raises:
        ValueError: If a folder holds no run, runs are of different problems, or a seed
            of one algorithm comes twice.
    """
    if len(folders) == 1:
        return _saved(folders[0])
    runs = list(itertools.chain(*map(_runs_in, folders)))
    _refuse_mixed(runs)
    groups = _grouped(runs)
    entries, notes = {}, {}
    for label, seeds in groups.items():
        settings = _table(seeds[min(seeds)], "algorithm")
        entries[label], found = entry_of(seeds, settings, {})
        notes |= found
    spent = [x for e in entries.values() for x in e.values["evaluations"] if x]
    budget = int(max(spent, default=0))
    compared = conclude(_table(runs[0], "problem"), budget, entries, notes)
    name = problem_name(runs[0].config)
    return Gathered(compared, groups, name, _budget_notes(spent))


def _grouped(runs: Sequence[RunFolder]) -> dict[str, dict[int, RunFolder]]:
    """Runs by algorithm and seed, in the order of seeds."""
    groups: dict[str, dict[int, RunFolder]] = {}
    for label, run in zip(_labels(runs), runs, strict=True):
        if not run.metrics:
            raise ValueError(
                f"{run.path} has no metrics.json, which a comparison needs; make the "
                "run with 'softqd run', or give this folder alone"
            )
        seeds = groups.setdefault(label, {})
        if run.seed in seeds:
            raise ValueError(
                f"{seeds[run.seed].path} and {run.path} are both {label} with seed "
                f"{run.seed}; give every run once"
            )
        seeds[run.seed] = run
    return {label: dict(sorted(seeds.items())) for label, seeds in groups.items()}


def comparison_data(
    gathered: Gathered, pictures: int
) -> tuple[dict[str, Any], list[dict[str, Any]], list[list[str]]]:
    """The page's dictionary of a comparison, one run per algorithm, their pictures."""
    share = pictures // max(1, len(gathered.runs))
    shown = []
    for label, seeds in gathered.runs.items():
        data, drawn = run_data(result_of(seeds[min(seeds)]), share)
        shown.append(({**data, "label": f"{label}, seed {data['seed']}"}, drawn))
    compared = as_json(asdict(gathered.comparison))
    compared["legend"] = LEGEND
    compared["labels"] = {name: label_of(name) for name in compared["statistics"]}
    compared["curves"] = {
        label: curves([run.history for run in seeds.values()])
        for label, seeds in gathered.runs.items()
    }
    return compared, [data for data, _ in shown], [drawn for _, drawn in shown]


def curves(histories: Sequence[dict[str, np.ndarray]]) -> dict[str, Any]:
    """Mean and standard error over seeds against evaluations, column by column.

    Seeds that logged at different evaluations are interpolated to those they share.

    Examples:
        >>> a = {"evaluations": np.array([0, 2]), "mean_quality": np.array([1.0, 3.0])}
        >>> b = {"evaluations": np.array([0, 2]), "mean_quality": np.array([3.0, 5.0])}
        >>> curves([a, b])["columns"]["mean_quality"]
        {'mean': [2.0, 4.0], 'stderr': [1.0, 1.0]}
    """
    first = histories[0]["evaluations"]
    if all(np.array_equal(h["evaluations"], first) for h in histories):
        x = first[thinned(len(first))]
    else:
        low = max(h["evaluations"][0] for h in histories)
        high = min(h["evaluations"][-1] for h in histories)
        x = np.linspace(low, high, 200)
    shared = [
        name
        for name in histories[0]
        if name not in _NOT_CURVES and all(name in h for h in histories)
    ]
    columns = {}
    for name in shared:
        table = np.array([np.interp(x, h["evaluations"], h[name]) for h in histories])
        spread = np.zeros(len(x))
        if len(table) > 1:
            with np.errstate(over="ignore", invalid="ignore"):  # nan, inf, as in files
                spread = table.std(0, ddof=1) / np.sqrt(len(table))
        columns[name] = {
            "mean": [finite(v) for v in table.mean(0).tolist()],
            "stderr": [finite(v) for v in spread.tolist()],
        }
    return {"evaluations": [finite(v) for v in x.tolist()], "columns": columns}


def _saved(folder: ExperimentFolder) -> Gathered:
    """A comparison as it was concluded, with those of its runs that are still there."""
    compared, notes = folder.comparison, []
    groups: dict[str, dict[int, RunFolder]] = {}
    for name, seeds in folder.runs.items():
        for seed, run in seeds.items():
            if (run.path / POPULATION).exists():
                groups.setdefault(name, {})[seed] = run
            else:
                notes.append(f"{run.path} is not there: its run is in the table only.")
    title = str(compared.problem.get("name", "unknown"))
    for seeds in groups.values():
        title = problem_name(seeds[min(seeds)].config)
    return Gathered(compared, groups, title, notes)


def _runs_in(folder: ExperimentFolder) -> list[RunFolder]:
    if folder.is_comparison:
        return folder.finished
    run = RunFolder(folder.path)
    run.check_there()
    return [run]


def _refuse_mixed(runs: Sequence[RunFolder]) -> None:
    for run in runs[1:]:
        tables = (_table(one, "problem") for one in (runs[0], run))
        if found := first_difference(*tables):
            raise ValueError(
                f"runs of different problems cannot be compared: {runs[0].path} has "
                f"problem {found.place}={found.before}, {run.path} has "
                f"{found.now}; make a report for each problem"
            )


def _table(run: RunFolder, name: str) -> dict[str, Any]:
    return run.config.get(name, {})


def _labels(runs: Sequence[RunFolder]) -> list[str]:
    """An algorithm's name, with the settings in which runs of that name differ."""
    tables = [_table(run, "algorithm") for run in runs]
    labels = []
    for run, table in zip(runs, tables, strict=True):
        alike = [t for t in tables if t.get("name") == table.get("name")]
        keys = sorted({key for t in alike for key in t})
        varied = [k for k in keys if any(t.get(k) != alike[0].get(k) for t in alike)]
        settings = [f"{key}={table.get(key)}" for key in varied]
        labels.append(", ".join([name_of(run.config, "algorithm"), *settings]))
    return labels


def _budget_notes(spent: list[float]) -> list[str]:
    if not spent or max(spent) <= 1.1 * min(spent):
        return []
    return [
        f"The runs spent between {min(spent):,.0f} and {max(spent):,.0f} evaluations: "
        "their budgets differ."
    ]
