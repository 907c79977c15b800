"""Figures by name, from folders: what ``softqd figure`` draws.

The functions that draw take arrays and are in `plots`, `fields`, `gallery` and
`comparisons`; here, folders are read and their arrays handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from softqd.experiment.many.comparison import COMPARED, Comparison, load_comparison
from softqd.experiment.many.plan import folder_name
from softqd.experiment.many.sweep import Sweep, load_sweep
from softqd.experiment.result import Result, load_history
from softqd.metrics import centroids_of
from softqd.registry import lookup
from softqd.report import comparisons, fields, gallery, plots
from softqd.report.reading import read_run
from softqd.report.style import save_figure
from softqd.report.words import label_of
from softqd.types import Population, Problem

_HISTORY = ("iteration", "evaluations", "mean_quality", "max_quality")


class Kind(NamedTuple):
    """A kind of figure: of what folders, and how it is drawn."""

    takes: str  # 'run', 'runs', 'comparison' (a sweep is one too) or 'sweep'
    about: str
    draw: Callable  # (folders, metric) -> figure


class RunArrays(NamedTuple):
    """What the figures of a run are drawn from."""

    result: Result
    population: Population  # occupied rows
    bounds: tuple[np.ndarray, np.ndarray]  # infinite where they are not known
    behavior_names: tuple[str, ...]
    problem: Problem | None  # None where it cannot be built again
    notes: tuple[str, ...]  # the last one says why not

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Quality and behavior."""
        return np.asarray(self.population.quality), np.asarray(self.population.behavior)


def draw_figure(
    kind: str, folders: Sequence[str | Path], metric: str | None = None
) -> Any:
    """Draw a figure of run folders, or of a comparison's or a sweep's.

    Args:
        kind: A name of `KINDS`.
        folders: What it is about.
        metric: For kinds that show one of many.

    Returns:
        A matplotlib figure.

    Raises:
        ValueError: If the kind is unknown, or cannot be drawn from these folders.
    """
    see = f"choose from {', '.join(KINDS)}"
    chosen: Kind = lookup("figure", kind, KINDS, see)
    paths = [Path(folder) for folder in folders]
    if not paths or (chosen.takes != "runs" and len(paths) > 1):
        raise ValueError(
            f"figure {kind!r} takes one {chosen.takes.rstrip('s')} folder; got "
            f"{len(paths)}; write softqd figure {kind} DIR --out FILE.pdf for each"
        )
    if metric is not None and kind not in _WITH_METRIC:
        raise ValueError(
            f"figure {kind!r} takes no metric; leave it out, or choose from "
            f"{', '.join(_WITH_METRIC)}"
        )
    command = "compare" if chosen.takes == "comparison" else "sweep"
    for path in paths if chosen.takes in ("comparison", "sweep") else []:
        if not (path / f"{chosen.takes}.json").exists():
            raise ValueError(
                f"{path} is not a {chosen.takes} folder: it has no "
                f"{chosen.takes}.json; give the --out of 'softqd {command}'"
            )
    return chosen.draw(paths if chosen.takes == "runs" else paths[0], metric)


def save_experiment_figures(folder: Path, each_run: bool = False) -> list[Path]:
    """Write the figures of a comparison's folder and return their paths.

    Args:
        folder: As ``softqd compare`` writes it; if no run finished, nothing is drawn.
        each_run: Also those of every run folder that has none yet.
    """
    entries = load_comparison(folder).algorithms.values()
    if not any(entry.seeds for entry in entries):
        return []
    kinds = ("curves", "distributions")
    paths = [
        save_figure(draw_figure(kind, [folder]), folder / "figures" / f"{kind}.png")
        for kind in kinds
    ]
    runs = sorted(path.parent for path in folder.glob("*/seed_*/metrics.json"))
    problem = None
    for place in runs if each_run else []:
        if (place / "figures").exists():
            continue
        run = load_run(place, problem)
        problem = run.problem
        if problem is not None:
            plots.save_run_figures(place / "figures", run.result, problem)
    return paths


def load_run(folder: str | Path, problem: Problem | None = None) -> RunArrays:
    """Read a run folder, to draw or to explore it.

    Args:
        folder: The run folder.
        problem: Its problem, if it is at hand; else built again where that is possible.

    Raises:
        ValueError: If it holds no run that can be read, or no solution.
    """
    found = read_run(folder, problem)
    population = found.result.population.compact()
    if not len(population.quality):
        raise ValueError(f"{folder} holds no solutions: there is nothing to draw")
    dim = population.behavior.shape[1]
    bounds = (np.full(dim, -np.inf), np.full(dim, np.inf))
    names = tuple(f"behavior {i + 1}" for i in range(dim))
    if found.problem is not None:
        bounds = found.problem.bounds(dim)
        names = gallery.behavior_names(found.problem, dim)
    return RunArrays(
        found.result, population, bounds, names, found.problem, found.notes
    )


def _runs(folders: Sequence[Path]) -> dict[str, RunArrays]:
    """Several runs of one problem, by the shortest names that differ."""
    runs = [load_run(folder) for folder in folders]
    problems = [run.result.config.get("problem") for run in runs]
    for folder, problem in zip(folders, problems, strict=True):
        if problem != problems[0]:
            raise ValueError(
                f"{folder} is a run of another problem than {folders[0]}; draw runs of "
                "one problem, or one figure for each"
            )
    names = [folder.name for folder in folders]
    if len(set(names)) < len(names):
        names = [f"{f.resolve().parent.name}/{f.name}" for f in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    if len(set(names)) < len(names):
        raise ValueError(f"a folder comes twice: {', '.join(names)}; give each once")
    return dict(zip(names, runs, strict=True))


def _scatter(folder: Path, _: Any) -> Any:
    run = load_run(folder)
    return plots.behavior_scatter(*run.arrays, run.bounds, run.behavior_names)


def _parallel(folder: Path, _: Any) -> Any:
    run = load_run(folder)
    return plots.parallel_coordinates(*run.arrays, run.bounds, run.behavior_names)


def _quality(folder: Path, _: Any) -> Any:
    return plots.quality_histogram(load_run(folder).arrays[0])


def _value_map(folders: Sequence[Path], _: Any) -> Any:
    runs = _runs(folders)
    bounds = next(iter(runs.values())).bounds
    if len(bounds[0]) < 2:
        raise ValueError(
            "figure 'value-map' needs two behaviors or more; this problem has one, "
            "draw 'scatter' instead"
        )
    level = min(run.result.quality_level for run in runs.values())
    lights = {
        name: (run.arrays[0] - level, run.arrays[1]) for name, run in runs.items()
    }
    return fields.value_maps(lights, bounds)


def _history(folders: Sequence[Path], _: Any) -> Any:
    runs = _runs(folders)
    if len(runs) == 1:
        (run,) = runs.values()
        return plots.history_curves(run.result.history)
    return plots.quality_histories(
        {
            name: {c: [run.result.history[c]] for c in _HISTORY}
            for name, run in runs.items()
        }
    )


def _bandwidth(folder: Path, _: Any) -> Any:
    history = load_run(folder).result.history
    if "overlap" not in history:
        raise ValueError(
            f"figure 'bandwidth' needs a run of SQUAD, which logs overlap; {folder} "
            f"logs {', '.join(history)}"
        )
    return plots.bandwidth_curves(history)


def _cells(folder: Path, _: Any) -> Any:
    run = load_run(folder)
    low, high = run.bounds
    if len(low) != 2 or not np.isfinite(run.bounds).all():
        raise ValueError(
            f"figure 'cells' needs two bounded behaviors; {folder} has {len(low)}"
            f"{'' if np.isfinite(run.bounds).all() else ', unbounded'}; draw 'scatter' "
            "or 'parallel' instead"
        )
    number = run.result.config.get("run", {}).get("cells", 512)
    unit, _origin = centroids_of(2, number)
    centroids = low + np.asarray(unit) * (high - low)
    names = run.behavior_names
    return fields.cell_picture(*run.arrays, centroids, run.bounds, names=names)


def _gallery(folder: Path, _: Any) -> Any:
    return gallery.gallery(*_rendering(folder))


def _table(folder: Path, _: Any) -> Any:
    return gallery.picture_table(*_rendering(folder))


def _representatives(folder: Path, _: Any) -> Any:
    problem, population = _rendering(folder)
    if not np.isfinite(problem.bounds(population.behavior.shape[1])).all():
        raise ValueError(
            f"figure 'representatives' needs a bounded behavior space; that of "
            f"{problem.name!r} is unbounded, draw 'gallery' instead"
        )
    level = load_run(folder).result.quality_level
    return gallery.representatives(problem, population, level=level)


def _rendering(folder: Path) -> tuple[Problem, Population]:
    run = load_run(folder)
    if run.problem is None:
        raise ValueError(f"{folder}: {run.notes[-1]}")
    if run.problem.render is None:
        raise ValueError(
            f"the problem of {folder} cannot render its solutions; draw 'scatter', or "
            "give softqd.Problem a render function"
        )
    return run.problem, run.population


def _curves(folder: Path, metric: str | None) -> Any:
    """Bands of a column of the histories."""
    comparison = load_comparison(folder)
    column = metric or "mean_quality"
    curves = {}
    for name, entry in comparison.algorithms.items():
        place = folder / folder_name(name)
        histories = [load_history(place / f"seed_{seed}") for seed in entry.seeds]
        for history in histories:
            lookup("column", column, history, f"{name} logs {', '.join(history)}")
        if histories:
            num = min(len(history[column]) for history in histories)
            rows = np.stack([history[column][:num] for history in histories])
            curves[name] = (histories[0]["evaluations"][:num], rows)
    if not curves:
        raise ValueError(f"no run of {folder} has finished: there is nothing to draw")
    return comparisons.curve_bands(curves, label_of(column))


def _distributions(folder: Path, metric: str | None) -> Any:
    comparison = load_comparison(folder)
    names = [metric] if metric else [n for n in COMPARED if comparison.statistics[n]]
    table = {
        label_of(name): {
            algorithm: _values(comparison, algorithm, name)
            for algorithm in comparison.algorithms
        }
        for name in names
    }
    return comparisons.distributions(table)


def _sweep(folder: Path, metric: str | None) -> Any:
    return sweep_figure(load_sweep(folder), metric)


def sweep_figure(sweep: Sweep, metric: str | None = None) -> Any:
    """A metric against the first setting of a sweep that has several values.

    A line for each combination of the others.
    """
    metric = metric or sweep.metric
    long = [name for name, values in sweep.grid.items() if len(values) > 1]
    name = long[0] if long else next(iter(sweep.grid))
    series: dict[str, tuple[list, list]] = {}
    for label, point in sweep.points.items():
        values = _values(sweep.comparison, label, metric)
        others = [f"{k}={v}" for k, v in point.items() if k in long and k != name]
        xs, ys = series.setdefault(", ".join(others), ([], []))
        if values:
            xs.append(point[name])
            ys.append(values)
    series = {key: value for key, value in series.items() if value[0]}
    return comparisons.setting_curves(series, name, label_of(metric))


def _tradeoff(folder: Path, _: Any) -> Any:
    comparison = load_comparison(folder)
    is_line = False
    if (folder / "sweep.json").exists():
        grid = load_sweep(folder).grid
        is_line = sum(len(values) > 1 for values in grid.values()) == 1
    points = {}
    for name in comparison.algorithms:
        x = _values(comparison, name, "vendi_score")
        y = _values(comparison, name, "mean_quality")
        if x and y:
            points[name] = (x, y)
    return comparisons.tradeoff(points, connect=is_line)


def _values(comparison: Comparison, name: str, metric: str) -> list[float]:
    """Finished values of a metric.

    Raises:
        ValueError: If the metric is unknown, or has no value in any run.
    """
    see = f"choose from {', '.join(COMPARED)}"
    lookup("metric", metric, dict.fromkeys(COMPARED), see)
    if comparison.statistics[metric] is None:
        why = comparison.notes.get(metric, "no run has a value")
        raise ValueError(f"metric {metric!r} has no value in these runs: {why}")
    return [v for v in comparison.algorithms[name].values[metric] if v is not None]


KINDS: dict[str, Kind] = {
    "scatter": Kind("run", "the population in behavior space", _scatter),
    "parallel": Kind("run", "every solution across all behaviors", _parallel),
    "value-map": Kind("runs", "the behavior value over two behaviors", _value_map),
    "cells": Kind("run", "an archive of two behaviors, lit by quality", _cells),
    "quality": Kind("run", "distribution of the qualities", _quality),
    "history": Kind("runs", "mean and best quality against evaluations", _history),
    "bandwidth": Kind("run", "SQUAD's bandwidth and overlap", _bandwidth),
    "gallery": Kind("run", "best solutions and the ends of behaviors", _gallery),
    "representatives": Kind("run", "the few that light most", _representatives),
    "table": Kind("run", "pictures from low to high in two behaviors", _table),
    "curves": Kind("comparison", "a logged number, with bands", _curves),
    "distributions": Kind("comparison", "every run of each metric", _distributions),
    "sweep": Kind("sweep", "a metric against a setting", _sweep),
    "tradeoff": Kind("comparison", "diversity against quality", _tradeoff),
}
_WITH_METRIC = ("curves", "distributions", "sweep")
