"""A search for settings: one algorithm on a grid, several seeds each.

Every run has its folder, ``<out>/<setting>/seed_<n>``, as in a comparison, of which a
sweep is one: of settings instead of algorithms. Settings that differ in numbers alone
advance together in one program; `softqd.experiment.many.stack` says how.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from softqd.experiment.config import Config
from softqd.experiment.files.lock import locked
from softqd.experiment.files.schema import (
    PLAIN,
    Kind,
    file_error,
)
from softqd.experiment.files.whole import write_whole
from softqd.experiment.many.budget import with_budgets
from softqd.experiment.many.compare import Experiment
from softqd.experiment.many.comparison import (
    COMPARED,
    SCHEMA,
    Comparison,
    load_comparison,
    read_found,
)
from softqd.experiment.many.comparison import FILE_NAME as COMPARISON
from softqd.experiment.many.grid import (
    Grid,
    check_grid,
    complete_grid,
    edges,
    points_of,
)
from softqd.experiment.many.plan import (
    Factory,
    Method,
    check_seeds,
    grid_methods,
)
from softqd.experiment.many.preset import write_preset
from softqd.experiment.many.runs import check_jobs
from softqd.experiment.many.stack import skeleton
from softqd.ops.checks import check_count
from softqd.ops.names import lookup
from softqd.types import Problem

FILE_NAME = "sweep.json"
PRESET_FILE = "preset.toml"
_SWEEP = {
    "algorithm": str,
    "metric": Kind(f"one of {', '.join(COMPARED)}", COMPARED.__contains__),
    "grid": {"...": [PLAIN]},
    "points": {"...": {"...": PLAIN}},
    "best": str,
    "config": {"...": PLAIN},
    "warnings": [str],
}


@dataclass(frozen=True)
class Sweep:
    """Settings of one algorithm on one problem, several seeds each.

    Attributes:
        algorithm: Its name.
        metric: By whose mean the best was chosen.
        grid: Setting to values.
        points: Label of a setting to its values.
        best: Label of the best setting.
        config: Of a run with the best setting: what a preset file holds.
        comparison: The runs of every setting, by label, and their statistics.
        warnings: What to know before believing it.
    """

    algorithm: str
    metric: str
    grid: Grid
    points: dict[str, dict[str, Any]]
    best: str
    config: Config
    comparison: Comparison
    warnings: list[str]

    def save(self, directory: str | Path) -> Path:
        """Write ``sweep.json``, ``preset.toml`` and the files of the comparison.

        Raises:
            InUseError: If a process writes to the folder.
        """
        directory = Path(directory)
        with locked(directory):
            self.write(directory)
        return directory

    def write(self, directory: Path) -> None:
        """Write the files into a folder that the caller holds."""
        self.comparison.write(directory)
        data = {k: v for k, v in asdict(self).items() if k != "comparison"}
        text = json.dumps({"schema": SCHEMA, **data}, indent=1, allow_nan=False)
        write_whole(directory / FILE_NAME, text + "\n")
        seeds = len(self.comparison.algorithms[self.best].seeds)
        about = [
            f"{self.algorithm} tuned by softqd sweep: the best of {len(self.points)} "
            f"settings by mean {self.metric} over {seeds} seeds.",
            *(f"Grid: {name} = {values}" for name, values in self.grid.items()),
        ]
        write_preset(directory / PRESET_FILE, self.config, about)


def load_sweep(directory: str | Path) -> Sweep:
    """Read what `Sweep.save` wrote.

    Raises:
        ValueError: If it is not a sweep of this schema.
        FileNotFoundError: If there is none.
    """
    path = Path(directory)
    if not (path / FILE_NAME).exists():
        raise FileNotFoundError(f"there is no sweep {path / FILE_NAME}")
    return sweep_of(path)


def sweep_of(directory: Path, comparison: Comparison | None = None) -> Sweep:
    """`load_sweep`, where the comparison of its settings may have been read."""
    path = directory / FILE_NAME
    data = read_found(path, _SWEEP, "sweep")
    comparison = comparison or load_comparison(directory)
    labels, settings = set(comparison.algorithms), set(data["grid"])
    if data["best"] not in labels or set(data["points"]) != labels:
        raise file_error(path, f"points must be the algorithms of {COMPARISON}")
    if any(set(point) != settings for point in data["points"].values()):
        raise file_error(path, "points must have the settings of grid")
    return Sweep(comparison=comparison, **data)


def sweep(
    problem: Problem | str,
    algorithm: str | Factory,
    grid: Mapping[str, Sequence[Any]],
    seeds: int | Sequence[int] = 3,
    *,
    metric: str = "qvs",
    iterations: int | None = None,
    evaluations: int | None = None,
    settings: Sequence[str] = (),
    out: str | Path | None = None,
    jobs: int = 1,
    progress: bool = False,
) -> Sweep:
    """Run an algorithm with every combination of some settings, and find the best.

    Every run has the same budget of evaluations. Settings that differ in numbers alone
    advance together in one program. A setting that fails or is refused is reported and
    leaves the others alone.

    Args:
        problem: A name from ``softqd list``, ``module:factory``, or a `Problem`.
        algorithm: A name, ``module:factory`` for your own, or a function that takes
            the problem and the settings of the grid and returns an `Algorithm`.
        grid: Setting of the algorithm to the values to try.
        seeds: How many, from 0, or which.
        metric: What must be high: a name of `softqd.metrics.METRICS`.
        iterations: Of the setting whose iterations are cheapest: its evaluations are
            everyone's budget. By default the preset's.
        evaluations: Budget of every run instead, the first population included.
        settings: ``name=value`` for all runs, of the problem or the algorithm.
        out: Folder of the experiment, which can be continued; None keeps no run.
        jobs: Processes at once, on the CPU; then every setting runs by itself.
        progress: Show a progress bar over all runs.

    Returns:
        Numbers of all runs, the best setting, and warnings; in ``out`` also as files,
        among them ``preset.toml`` for `softqd.compare` and ``softqd run``.

    Raises:
        ValueError: If an argument cannot be used, no setting can run, or ``out`` holds
            runs of another problem, other settings or another budget.

    Examples:
        >>> import softqd
        >>> small = ["solution_dim=8", "population_size=32", "batch_size=32"]
        >>> found = softqd.sweep(
        ...     "sphere", "squad_published", {"gamma_sq": [0.01, 1.0]}, seeds=2,
        ...     evaluations=1000, settings=small)
        >>> found.best, found.config["algorithm"]["gamma_sq"]
        ('gamma_sq=0.01', 0.01)
    """
    wanted = check_seeds(seeds)
    is_named = isinstance(algorithm, str)
    values = complete_grid(algorithm, grid) if is_named else check_grid(grid)
    name = algorithm if isinstance(algorithm, str) else _name_of(algorithm)
    _check_arguments(metric, iterations, evaluations)
    check_jobs(jobs, problem, {name: algorithm})
    points = points_of(values)
    ready, methods = grid_methods(problem, algorithm, points, settings, iterations)
    budget, methods = with_budgets(methods, evaluations, _kind_of)
    place = tempfile.TemporaryDirectory() if out is None else nullcontext(str(out))
    with place as folder, locked(Path(folder)):
        experiment = Experiment(Path(folder), ready, methods, wanted)
        experiment.check_folder()
        experiment.run(jobs, progress, is_grid=True)
        comparison = experiment.conclude(budget, "settings")
        found = _conclude(name, metric, values, points, methods, comparison)
        if out is not None:
            found.write(Path(out))
    return found


def _name_of(factory: Factory) -> str:
    return getattr(factory, "__name__", "algorithm").strip("<>")


def _kind_of(method: Method) -> str:
    """Methods of one kind cost the same."""
    return method.name if method.factory else skeleton(method.config)


def _check_arguments(metric, iterations, evaluations):
    known = dict.fromkeys(COMPARED)
    lookup("metric", metric, known, f"choose from {', '.join(known)}")
    for name, value in (("iterations", iterations), ("evaluations", evaluations)):
        if value is not None:
            check_count(name, value, 1, np.inf)
    if iterations is not None and evaluations is not None:
        raise ValueError("give iterations or evaluations, not both")


def _conclude(
    algorithm: str,
    metric: str,
    grid: Grid,
    points: dict[str, dict[str, Any]],
    methods: Sequence[Method],
    comparison: Comparison,
) -> Sweep:
    """Choose the best of the settings that finished most seeds."""
    table = comparison.statistics[metric]
    if table is None:
        failures = "; ".join(comparison.warnings[:3])
        raise ValueError(f"no run has a {metric}: {failures}")
    rows = table["algorithms"]
    most = max(row["num"] for row in rows.values())
    whole = [label for label, row in rows.items() if row["num"] == most]
    best = max(whole, key=lambda label: rows[label]["mean"])
    configs = {method.name: method.config for method in methods}
    warnings = [*comparison.warnings, *edges(grid, points[best])]
    return Sweep(
        algorithm=algorithm,
        metric=metric,
        grid=grid,
        points=points,
        best=best,
        config=configs[best],
        comparison=comparison,
        warnings=warnings,
    )
