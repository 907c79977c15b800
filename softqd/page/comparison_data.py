"""What the report page knows of several runs: statistics, curves, distributions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from softqd.experiment.many.comparison import (
    Comparison,
    conclude,
    entry_of,
    load_comparison,
)
from softqd.experiment.result import COUNTS
from softqd.experiment.words import LEGEND, label_of
from softqd.page.reading import Header, Run, read_header, read_run
from softqd.page.run_data import (
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
    shown: dict[str, Run]  # the one with the lowest seed
    histories: dict[str, list[dict[str, np.ndarray]]]  # of all seeds
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
    headers = {place: read_header(place) for place in places}
    _refuse_mixed(headers)
    groups = _grouped(headers)
    entries, notes = {}, {}
    for label, seeds in groups.items():
        settings = _table(headers[seeds[min(seeds)]].config, "algorithm")
        entries[label], found = entry_of(seeds, settings, {})
        notes |= found
    spent = [x for e in entries.values() for x in e.values["evaluations"] if x]
    config = headers[places[0]].config
    budget = int(max(spent, default=0))
    compared = conclude(_table(config, "problem"), budget, entries, notes)
    histories = {
        label: [headers[place].history for place in seeds.values()]
        for label, seeds in groups.items()
    }
    shown = _shown(groups)
    return Gathered(
        compared, shown, histories, problem_name(config), _budget_notes(spent)
    )


def _grouped(headers: dict[Path, Header]) -> dict[str, dict[int, Path]]:
    """Run folders by algorithm and seed, in the order of seeds."""
    groups: dict[str, dict[int, Path]] = {}
    for place, label in _labels(headers).items():
        if not (place / "metrics.json").exists():
            raise ValueError(
                f"{place} has no metrics.json, which a comparison needs; make the run "
                "with 'softqd run', or give this folder alone"
            )
        seeds = groups.setdefault(label, {})
        seed = headers[place].seed
        if seed in seeds:
            raise ValueError(
                f"{seeds[seed]} and {place} are both {label} with seed {seed}; give "
                "every run once"
            )
        seeds[seed] = place
    return {label: dict(sorted(seeds.items())) for label, seeds in groups.items()}


def _shown(groups: dict[str, dict[int, Path]]) -> dict[str, Run]:
    """One run of each algorithm; the first one's problem serves all."""
    shown: dict[str, Run] = {}
    problem = None
    for label, seeds in groups.items():
        shown[label] = read_run(seeds[min(seeds)], problem)
        problem = problem or shown[label].problem
    return shown


def comparison_data(
    gathered: Gathered, pictures: int
) -> tuple[dict[str, Any], list[dict[str, Any]], list[list[str]]]:
    """The page's dictionary of a comparison, one run per algorithm, their pictures."""
    share = pictures // max(1, len(gathered.shown))
    shown = []
    for label, run in gathered.shown.items():
        data, drawn = run_data(run, share)
        shown.append(({**data, "label": f"{label}, seed {data['seed']}"}, drawn))
    compared = asdict(gathered.comparison)
    compared["legend"] = LEGEND
    compared["labels"] = {name: label_of(name) for name in compared["statistics"]}
    compared["curves"] = {
        label: curves(histories) for label, histories in gathered.histories.items()
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
    groups: dict[str, dict[int, Path]] = {}
    notes = []
    for name, entry in compared.algorithms.items():
        for seed in entry.seeds:
            place = folder / name.replace(":", ".") / f"seed_{seed}"
            if (place / "population.npz").exists():
                groups.setdefault(name, {})[seed] = place
            else:
                notes.append(f"{place} is not there: its run is in the table only.")
    histories = {
        name: [read_header(place).history for place in seeds.values()]
        for name, seeds in groups.items()
    }
    shown = _shown(groups)
    title = str(compared.problem.get("name", "unknown"))
    for run in shown.values():
        title = problem_name(run.result.config)
    return Gathered(compared, shown, histories, title, notes)


def _run_folders(folder: Path) -> list[Path]:
    if not is_comparison(folder):
        return [folder]
    return sorted(path.parent for path in folder.glob("*/seed_*/metrics.json"))


def _refuse_mixed(headers: dict[Path, Header]) -> None:
    (first, one), *rest = headers.items()
    for place, header in rest:
        tables = [_table(h.config, "problem") for h in (one, header)]
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


def _labels(headers: dict[Path, Header]) -> dict[Path, str]:
    """An algorithm's name, with the settings in which runs of that name differ."""
    tables = {p: _table(h.config, "algorithm") for p, h in headers.items()}
    labels = {}
    for place, table in tables.items():
        alike = [t for t in tables.values() if t.get("name") == table.get("name")]
        keys = sorted({key for t in alike for key in t})
        varied = [k for k in keys if any(t.get(k) != alike[0].get(k) for t in alike)]
        settings = [f"{key}={table.get(key)}" for key in varied]
        name = name_of(headers[place].config, "algorithm")
        labels[place] = ", ".join([name, *settings])
    return labels


def _budget_notes(spent: list[float]) -> list[str]:
    if not spent or max(spent) <= 1.1 * min(spent):
        return []
    return [
        f"The runs spent between {min(spent):,.0f} and {max(spent):,.0f} evaluations: "
        "their budgets differ."
    ]
