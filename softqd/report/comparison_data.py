"""What the report page knows of several runs: statistics, curves, distributions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from softqd.experiment.comparison import (
    Comparison,
    conclude,
    entry_of,
    load_comparison,
)
from softqd.experiment.result import COUNTS
from softqd.report.run_data import (
    Run,
    finite,
    label_of,
    name_of,
    problem_name,
    read_run,
    run_data,
    thinned,
)

_NOT_CURVES = {"iteration", *COUNTS, "seconds"}


class Gathered(NamedTuple):
    """Runs of one problem: algorithm to seed to run, and what compares them."""

    comparison: Comparison
    runs: dict[str, dict[int, Run]]
    problem: str
    notes: list[str]


def is_comparison(folder: Path) -> bool:
    """Whether ``softqd compare`` has finished there."""
    return (folder / "comparison.json").exists()


def gather(folders: Sequence[Path]) -> Gathered:
    """Read runs to compare: one comparison as it is, or runs and comparisons together.

    Raises:
        ValueError: If a folder holds no run, runs are of different problems, or a seed
            of one algorithm comes twice.
    """
    if len(folders) == 1:
        return _saved(folders[0])
    places = list(itertools.chain(*(_run_folders(folder) for folder in folders)))
    runs: dict[Path, Run] = {}
    problem = None
    for place in places:  # one problem serves all
        runs[place] = read_run(place, problem)
        problem = problem or runs[place].problem
    _refuse_mixed(runs)
    groups: dict[str, dict[int, Path]] = {}
    labels = _labels(runs)
    for place, run in runs.items():
        _refuse_without_metrics(place)
        seeds = groups.setdefault(labels[place], {})
        seed = run.result.seed
        if seed in seeds:
            raise ValueError(
                f"{seeds[seed]} and {place} are both {labels[place]} with seed {seed}; "
                "give every run once"
            )
        seeds[seed] = place
    entries, notes = {}, {}
    for label, seeds in groups.items():
        settings = runs[next(iter(seeds.values()))].result.config.get("algorithm", {})
        entries[label], found = entry_of(dict(sorted(seeds.items())), settings, {})
        notes |= found
    spent = [x for e in entries.values() for x in e.values["evaluations"] if x]
    config = next(iter(runs.values())).result.config
    compared = conclude(config["problem"], int(max(spent)), entries, notes)
    grouped = {
        label: {seed: runs[place] for seed, place in sorted(seeds.items())}
        for label, seeds in groups.items()
    }
    return Gathered(compared, grouped, problem_name(config), _budget_notes(spent))


def comparison_data(
    gathered: Gathered, pictures: int
) -> tuple[dict[str, Any], list[dict[str, Any]], list[list[str]]]:
    """The page's dictionary of a comparison, one run per algorithm, their pictures."""
    share = pictures // max(1, len(gathered.runs))
    shown = []
    for label, seeds in gathered.runs.items():
        run = seeds[min(seeds)]
        data, drawn = run_data(run, share)
        shown.append(({**data, "label": f"{label}, seed {min(seeds)}"}, drawn))
    compared = asdict(gathered.comparison)
    compared["labels"] = {name: label_of(name) for name in compared["statistics"]}
    compared["curves"] = {
        label: curves([run.result.history for run in seeds.values()])
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
            spread = table.std(0, ddof=1) / np.sqrt(len(table))
        columns[name] = {
            "mean": [finite(v) for v in table.mean(0).tolist()],
            "stderr": [finite(v) for v in spread.tolist()],
        }
    return {"evaluations": [finite(v) for v in x.tolist()], "columns": columns}


def _saved(folder: Path) -> Gathered:
    """A comparison as it was concluded, with those of its runs that are still there."""
    compared = load_comparison(folder)
    runs: dict[str, dict[int, Run]] = {}
    problem, notes = None, []
    for name, entry in compared.algorithms.items():
        for seed in entry.seeds:
            place = folder / name.replace(":", ".") / f"seed_{seed}"
            if not (place / "population.npz").exists():
                notes.append(f"{place} is not there: its run is in the table only.")
                continue
            run = read_run(place, problem)
            problem = problem or run.problem
            runs.setdefault(name, {})[seed] = run
    shown = next((r for seeds in runs.values() for r in seeds.values()), None)
    title = compared.problem.get("name", "unknown")
    if shown is not None:
        title = problem_name(shown.result.config)
    return Gathered(compared, runs, str(title), notes)


def _run_folders(folder: Path) -> list[Path]:
    if not is_comparison(folder):
        return [folder]
    return sorted(path.parent for path in folder.glob("*/seed_*/metrics.json"))


def _refuse_mixed(runs: dict[Path, Run]) -> None:
    (first, one), *rest = runs.items()
    for place, run in rest:
        tables = [_table(r.result.config, "problem") for r in (one, run)]
        for key in sorted(tables[0] | tables[1], key=lambda k: (k != "name", k)):
            before, now = (table.get(key) for table in tables)
            if before != now:
                raise ValueError(
                    f"runs of different problems cannot be compared: {first} has "
                    f"problem {key}={before!r}, {place} has {now!r}; make a report for "
                    "each problem"
                )


def _table(config: dict[str, Any], name: str) -> dict[str, Any]:
    found = config.get(name, {})
    return found if isinstance(found, dict) else {"name": found}


def _refuse_without_metrics(folder: Path) -> None:
    if not (folder / "metrics.json").exists():
        raise ValueError(
            f"{folder} has no metrics.json, which a comparison needs; make the run "
            "with 'softqd run', or give this folder alone"
        )


def _labels(runs: dict[Path, Run]) -> dict[Path, str]:
    """An algorithm's name, with the settings in which runs of that name differ."""
    tables = {p: _table(r.result.config, "algorithm") for p, r in runs.items()}
    labels = {}
    for place, table in tables.items():
        alike = [t for t in tables.values() if t.get("name") == table.get("name")]
        keys = sorted({key for t in alike for key in t})
        varied = [k for k in keys if any(t.get(k) != alike[0].get(k) for t in alike)]
        settings = [f"{key}={table.get(key)}" for key in varied]
        name = name_of(runs[place].result.config, "algorithm")
        labels[place] = ", ".join([name, *settings])
    return labels


def _budget_notes(spent: list[float]) -> list[str]:
    if max(spent) <= 1.1 * min(spent):
        return []
    return [
        f"The runs spent between {min(spent):,.0f} and {max(spent):,.0f} evaluations: "
        "their budgets differ."
    ]
