"""Figures by name, from folders: what ``softqd figure`` draws.

`softqd.plot` draws; here, folders are read and handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from softqd import plot
from softqd.experiment.many.experiment_folder import ExperimentFolder
from softqd.experiment.result import Result, load, result_of
from softqd.experiment.same import first_difference
from softqd.ops.names import lookup


class Kind(NamedTuple):
    """A kind of figure: of what folders, and how it is drawn."""

    takes: str  # 'run', 'runs', 'comparison' (a sweep is one too) or 'sweep'
    about: str
    draw: Callable  # (folders, metric) -> figure


def draw_figure(
    kind: str,
    folders: Sequence[str | Path | ExperimentFolder],
    metric: str | None = None,
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
    places = [
        folder if isinstance(folder, ExperimentFolder) else ExperimentFolder(folder)
        for folder in folders
    ]
    if not places or (chosen.takes != "runs" and len(places) > 1):
        raise ValueError(
            f"figure {kind!r} takes one {chosen.takes.rstrip('s')} folder; got "
            f"{len(places)}; write softqd figure {kind} DIR --out FILE.pdf for each"
        )
    if metric is not None and kind not in _WITH_METRIC:
        raise ValueError(
            f"figure {kind!r} takes no metric; leave it out, or choose from "
            f"{', '.join(_WITH_METRIC)}"
        )
    command = "compare" if chosen.takes == "comparison" else "sweep"
    for place in places if chosen.takes in ("comparison", "sweep") else []:
        if not getattr(place, f"is_{chosen.takes}"):
            raise ValueError(
                f"{place.path} is not a {chosen.takes} folder: it has no "
                f"{chosen.takes}.json; give the --out of 'softqd {command}'"
            )
    return chosen.draw(places if chosen.takes == "runs" else places[0], metric)


def save_run_figures(directory: Path, result: Result) -> list[Path]:
    """Write the figures of a run folder and return their paths."""
    if not np.any(result.population.occupied):
        return []
    figures = {
        "behavior": plot.scatter(result),
        "quality": plot.quality_histogram(result),
        "history": plot.history(result),
    }
    dim = result.population.behavior.shape[1]
    if "overlap" in result.history:
        figures["bandwidth"] = plot.bandwidth(result)
    if dim > 1:
        figures["value_map"] = plot.value_map(result)
    if result.pictures is not None:
        figures["gallery"] = plot.gallery(result)
        if result.problem and np.isfinite(result.problem.bounds(dim)).all():
            figures["representatives"] = plot.representatives(result)
        if dim == 2:
            figures["table"] = plot.picture_table(result)
    return [
        plot.save_figure(figure, directory / f"{name}.png")
        for name, figure in figures.items()
    ]


def save_experiment_figures(
    folder: ExperimentFolder, each_run: bool = False
) -> list[Path]:
    """Write the figures of a comparison's folder and return their paths.

    Args:
        folder: As ``softqd compare`` writes it; if no run finished, nothing is drawn.
        each_run: Also those of every run folder that has none yet.
    """
    if not any(entry.seeds for entry in folder.comparison.algorithms.values()):
        return []
    kinds = ("curves", "distributions")
    paths = [
        plot.save_figure(
            draw_figure(kind, [folder]), folder.path / "figures" / f"{kind}.png"
        )
        for kind in kinds
    ]
    for run in folder.finished if each_run else []:
        if not (run.path / "figures").exists():
            save_run_figures(run.path / "figures", result_of(run))
    return paths


def _runs(folders: Sequence[ExperimentFolder]) -> dict[str, Result]:
    """Several runs of one problem, by the shortest names that differ."""
    paths = [folder.path for folder in folders]
    runs = [load(path) for path in paths]
    for path, run in zip(paths, runs, strict=True):
        tables = (one.config.get("problem", {}) for one in (runs[0], run))
        if first_difference(*tables):
            raise ValueError(
                f"{path} is a run of another problem than {paths[0]}; draw runs of one "
                "problem, or one figure for each"
            )
    names = [path.name for path in paths]
    if len(set(names)) < len(names):
        names = [f"{path.resolve().parent.name}/{path.name}" for path in paths]
    if len(set(names)) < len(names):
        names = [str(path) for path in paths]
    if len(set(names)) < len(names):
        raise ValueError(f"a folder comes twice: {', '.join(names)}; give each once")
    return dict(zip(names, runs, strict=True))


def _of_run(draw: Callable) -> Callable:
    """A figure of one run."""
    return lambda folder, _: draw(load(folder.path))


def _of_pictures(draw: Callable) -> Callable:
    """A figure of pictures that were drawn when the run ended."""

    def draw_pictures(folder: ExperimentFolder, _: Any) -> plot.Figure:
        run = load(folder.path)
        if run.pictures is None:
            why = " ".join(run.notes) or "its problem cannot render"
            raise ValueError(f"{folder.path} has no pictures ({why}); draw 'scatter'")
        return draw(run)

    return draw_pictures


def _value_map(folders: Sequence[ExperimentFolder], _: Any) -> plot.Figure:
    return plot.value_maps(_runs(folders))


def _history(folders: Sequence[ExperimentFolder], _: Any) -> plot.Figure:
    runs = _runs(folders)
    if len(runs) == 1:
        (run,) = runs.values()
        return plot.history(run)
    return plot.histories({name: [run] for name, run in runs.items()})


def _cells(folder: ExperimentFolder, _: Any) -> plot.Figure:
    run = load(folder.path)
    settings = run.config.get("run", {})
    number = {"num_cells": settings["cells"]} if "cells" in settings else {}
    return plot.cells(run, **number)


def _curves(folder: ExperimentFolder, metric: str | None) -> plot.Figure:
    """Bands of a column of the histories."""
    runs = {
        name: [run.history for run in seeds.values()]
        for name, seeds in folder.runs.items()
    }
    return plot.curves(runs, metric or "mean_quality")


KINDS: dict[str, Kind] = {
    "scatter": Kind("run", "the population in behavior space", _of_run(plot.scatter)),
    "parallel": Kind(
        "run", "every solution across all behaviors", _of_run(plot.parallel_coordinates)
    ),
    "value-map": Kind("runs", "the behavior value over two behaviors", _value_map),
    "cells": Kind(
        "run", "an archive of two behaviors, in the quality of its cells", _cells
    ),
    "quality": Kind(
        "run", "distribution of the qualities", _of_run(plot.quality_histogram)
    ),
    "history": Kind("runs", "mean and best quality against evaluations", _history),
    "bandwidth": Kind("run", "SQUAD's bandwidth and overlap", _of_run(plot.bandwidth)),
    "gallery": Kind(
        "run", "best solutions and the ends of behaviors", _of_pictures(plot.gallery)
    ),
    "representatives": Kind(
        "run",
        "the few that keep most of the Soft QD Score",
        _of_pictures(plot.representatives),
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
        lambda folder, metric: plot.distributions(folder.comparison, metric),
    ),
    "sweep": Kind(
        "sweep",
        "a metric against a setting",
        lambda folder, metric: plot.setting_curves(folder.sweep, metric),
    ),
    "tradeoff": Kind(
        "comparison",
        "diversity against quality",
        lambda folder, _: plot.tradeoff(
            folder.sweep if folder.is_sweep else folder.comparison
        ),
    ),
}
_WITH_METRIC = ("curves", "distributions", "sweep")
