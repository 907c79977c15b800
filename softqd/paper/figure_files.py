"""Writes the figures of a reproduction as PDF and PNG."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from softqd import plot
from softqd.experiment import config as configs
from softqd.experiment.files.readers import load_population
from softqd.metrics import centroids_of, to_unit
from softqd.paper.cases import METHODS, Case
from softqd.paper.catalog import Reproduction
from softqd.paper.figures import draw
from softqd.paper.record import Record, is_quick
from softqd.paper.tables import QUICK, found_cases

# Whose solutions the paper shows.
_SHOWN = ("squad_published", "cma_maega", "cma_mega")


def write_figures(
    name: str,
    spec: Reproduction,
    records: Mapping[str, Record],
    folder: Path,
    runs: Path | None = None,
) -> list[Path]:
    """Draw what a reproduction shows.

    Args:
        name: Its name, for the files.
        spec: What it is.
        records: What was found.
        folder: Where to write; created if need be.
        runs: Where the run folders are, for pictures of solutions.

    Returns:
        The files written.
    """
    figures = {}
    if spec.figure:
        figures[name] = draw(spec, records)
    if spec.pictures and runs is not None:
        figures |= _pictures(name, spec, records, runs)
    mark = f"_{QUICK}" if any(map(is_quick, records.values())) else ""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for title, figure in figures.items():
        for kind in ("pdf", "png"):
            paths.append(folder / f"{title}{mark}.{kind}")
            figure.savefig(paths[-1])
    return paths


def _pictures(
    name: str, spec: Reproduction, records: Mapping[str, Record], runs: Path
) -> dict[str, plot.Figure]:
    """Galleries of solutions, and archives where there are two behaviors."""
    figures: dict[str, plot.Figure] = {}
    archives: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
    for case, record in found_cases(spec, records):
        folder = runs / record["name"] / f"seed_{record['seeds'][0]}"
        if case.algorithm not in _SHOWN or not (folder / "population.npz").exists():
            continue
        population = load_population(folder / "population.npz")
        problem = configs.build_problem(record["config"])
        title = f"{case.preset}_{case.algorithm}_gallery"
        figures[title] = plot.gallery(population, problem)
        figures[title].suptitle(_title(case, record), fontsize=10)
        unit = to_unit(
            problem.bounds(population.behavior.shape[1]), population.behavior
        )
        if unit is not None and unit.shape[1] == 2:
            shown = archives.setdefault(case.preset, {})
            shown[METHODS[case.algorithm]] = (np.asarray(population.quality), unit)
    for preset, shown in archives.items():
        record = next(r for r in records.values() if r["preset"] == preset)
        centroids = centroids_of(2, record["config"]["run"]["cells"])[0]
        mark = f" ({QUICK})" if is_quick(record) else ""
        title = f"{preset}, seed {record['seeds'][0]}{mark}"
        drawn = figures[f"{preset}_archives"] = plot.archives(shown, centroids)
        drawn.suptitle(title, fontsize=10)
    return figures


def _title(case: Case, record: Record) -> str:
    mark = f" ({QUICK})" if is_quick(record) else ""
    return f"{case.label} on {case.preset}, seed {record['seeds'][0]}{mark}"
