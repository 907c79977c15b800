"""Figures by name, from folders: what ``softqd figure`` draws.

`softqd.plot` draws; here, folders are read and handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from softqd import plot
from softqd.experiment.many.comparison import load_comparison
from softqd.experiment.many.plan import folder_name
from softqd.experiment.many.sweep import load_sweep
from softqd.experiment.result import Result, load_history
from softqd.ops.names import lookup
from softqd.page.reading import Run, read_run
from softqd.types import Problem


class Kind(NamedTuple):
    """A kind of figure: of what folders, and how it is drawn."""

    takes: str  # 'run', 'runs', 'comparison' (a sweep is one too) or 'sweep'
    about: str
    draw: Callable  # (folders, metric) -> figure


def draw_figure(
    kind: str, folders: Sequence[str | Path], metric: str | None = None
) -> plot.Figure:
    """Draw a figure of run folders, or of a comparison's or a sweep's.

    Args:
        kind: A name of `KINDS`.
        folders: What it is about.
        metric: For kinds that show one of many.

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


def save_run_figures(directory: Path, result: Result, problem: Problem) -> list[Path]:
    """Write the figures of a run folder and return their paths."""
    if not np.any(result.population.occupied):
        return []
    figures = {
        "behavior": plot.scatter(result, problem),
        "quality": plot.quality_histogram(result),
        "history": plot.history(result),
    }
    dim = result.population.behavior.shape[1]
    if "overlap" in result.history:
        figures["bandwidth"] = plot.bandwidth(result)
    if dim > 1:
        figures["value_map"] = plot.value_map(result, problem)
    if problem.render is not None:
        figures["gallery"] = plot.gallery(result, problem)
        if np.isfinite(problem.bounds(dim)).all():
            figures["representatives"] = plot.representatives(result, problem)
        if dim == 2:
            figures["table"] = plot.picture_table(result, problem)
    return [
        plot.save_figure(figure, directory / f"{name}.png")
        for name, figure in figures.items()
    ]


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
        plot.save_figure(
            draw_figure(kind, [folder]), folder / "figures" / f"{kind}.png"
        )
        for kind in kinds
    ]
    runs = sorted(path.parent for path in folder.glob("*/seed_*/metrics.json"))
    problem = None
    for place in runs if each_run else []:
        if (place / "figures").exists():
            continue
        run = read_run(place, problem)
        problem = run.problem
        if problem is not None:
            save_run_figures(place / "figures", run.result, problem)
    return paths


def _runs(folders: Sequence[Path]) -> dict[str, Run]:
    """Several runs of one problem, by the shortest names that differ."""
    runs = [read_run(folder) for folder in folders]
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


def _of_run(draw: Callable) -> Callable:
    """A figure of a run and its problem, which may not be known."""

    def draw_run(folder: Path, _: Any) -> plot.Figure:
        run = read_run(folder)
        return draw(run.result, run.problem)

    return draw_run


def _of_history(draw: Callable) -> Callable:
    """A figure of how a run went, or of what it found without its space."""
    return lambda folder, _: draw(read_run(folder).result)


def _of_pictures(draw: Callable) -> Callable:
    """A figure that needs the problem, to render solutions."""

    def draw_pictures(folder: Path, _: Any) -> plot.Figure:
        run = read_run(folder)
        if run.problem is None:
            raise ValueError(f"{folder}: {run.notes[-1]}")
        return draw(run.result, run.problem)

    return draw_pictures


def _value_map(folders: Sequence[Path], _: Any) -> plot.Figure:
    runs = _runs(folders)
    problem = next(iter(runs.values())).problem
    return plot.value_maps({name: run.result for name, run in runs.items()}, problem)


def _history(folders: Sequence[Path], _: Any) -> plot.Figure:
    runs = _runs(folders)
    if len(runs) == 1:
        (run,) = runs.values()
        return plot.history(run.result)
    return plot.histories({name: [run.result] for name, run in runs.items()})


def _cells(folder: Path, _: Any) -> plot.Figure:
    run = read_run(folder)
    settings = run.result.config.get("run", {})
    number = {"num_cells": settings["cells"]} if "cells" in settings else {}
    return plot.cells(run.result, run.problem, **number)


def _curves(folder: Path, metric: str | None) -> plot.Figure:
    """Bands of a column of the histories."""
    runs = {
        name: [
            load_history(folder / folder_name(name) / f"seed_{seed}")
            for seed in entry.seeds
        ]
        for name, entry in load_comparison(folder).algorithms.items()
    }
    return plot.curves(runs, metric or "mean_quality")


def _tradeoff(folder: Path, _: Any) -> plot.Figure:
    is_sweep = (folder / "sweep.json").exists()
    return plot.tradeoff(load_sweep(folder) if is_sweep else load_comparison(folder))


KINDS: dict[str, Kind] = {
    "scatter": Kind("run", "the population in behavior space", _of_run(plot.scatter)),
    "parallel": Kind(
        "run", "every solution across all behaviors", _of_run(plot.parallel_coordinates)
    ),
    "value-map": Kind("runs", "the behavior value over two behaviors", _value_map),
    "cells": Kind("run", "an archive of two behaviors, lit by quality", _cells),
    "quality": Kind(
        "run", "distribution of the qualities", _of_history(plot.quality_histogram)
    ),
    "history": Kind("runs", "mean and best quality against evaluations", _history),
    "bandwidth": Kind(
        "run", "SQUAD's bandwidth and overlap", _of_history(plot.bandwidth)
    ),
    "gallery": Kind(
        "run", "best solutions and the ends of behaviors", _of_pictures(plot.gallery)
    ),
    "representatives": Kind(
        "run", "the few that light most", _of_pictures(plot.representatives)
    ),
    "table": Kind(
        "run",
        "pictures from low to high in two behaviors",
        _of_pictures(plot.picture_table),
    ),
    "curves": Kind("comparison", "a logged number, with bands", _curves),
    "distributions": Kind(
        "comparison",
        "every run of each metric",
        lambda folder, metric: plot.distributions(load_comparison(folder), metric),
    ),
    "sweep": Kind(
        "sweep",
        "a metric against a setting",
        lambda folder, metric: plot.setting_curves(load_sweep(folder), metric),
    ),
    "tradeoff": Kind("comparison", "diversity against quality", _tradeoff),
}
_WITH_METRIC = ("curves", "distributions", "sweep")
