"""Metrics of many populations: beside a GPU, in processes of the CPU.

The metrics of a large population take longer than its run on a GPU, and keep one core
busy. A worker is a fresh Python that calls `main`, as in `workers`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

from softqd.metrics import (
    centroids_of,
    evaluate_population,
    qd_score,
    quality_vendi_score,
    to_unit,
)
from softqd.ops.level import declared_level
from softqd.ops.units import Units
from softqd.types import Population, Problem

# Metrics of the whole population that can be followed over a run.
CURVES = ("qd_score", "qvs")


def curve_values(
    population: Population, problem: Problem, cells: int
) -> dict[str, float]:
    """QD score and QVS of a population.

    Raises:
        ValueError: If the behavior space is unbounded.
    """
    kept = population.compact()
    quality, behavior = np.asarray(kept.quality), np.asarray(kept.behavior)
    unit = to_unit(problem.bounds(behavior.shape[1]), behavior)
    if unit is None:
        raise ValueError("curves need a bounded behavior space")
    if not len(quality):
        return dict.fromkeys(CURVES, 0.0)
    centroids = centroids_of(unit.shape[1], cells)[0]
    level = declared_level(problem) or 0.0
    # In the order of CURVES.
    values = (
        qd_score(quality, unit, centroids, level),
        quality_vendi_score(quality, unit, level=level),
    )
    return dict(zip(CURVES, map(float, values), strict=True))


def measure_all(
    populations: Sequence[Population],
    bounds: Any,
    cells: int,
    levels: Sequence[float],
    units: Sequence[Units | None],
    num_processes: int | None = None,
) -> list[dict[str, Any] | None]:
    """What `evaluate_population` says of each.

    Args:
        populations: Populations of one behavior space.
        bounds: ``(low, high)`` of that space.
        cells: Size of the tessellation.
        levels: From where quality is measured, of each.
        units: In which behaviors are measured where there are no bounds, of each.
        num_processes: How many at once; by default one per core beside a GPU, and none
            on the CPU, where the caller computes them when they are needed.

    Returns:
        Metrics; None where they were not computed here.
    """
    if num_processes is None:
        is_cpu = jax.default_backend() == "cpu"
        num_processes = 0 if is_cpu else min(len(populations), os.cpu_count() or 1)
    if not num_processes:
        return [None] * len(populations)
    # Every process would use all cores.
    threads = str(max(1, (os.cpu_count() or 1) // num_processes))
    with ThreadPoolExecutor(num_processes) as pool:
        return list(
            pool.map(
                lambda *run: _in_process(run, bounds, cells, threads),
                populations,
                levels,
                units,
            )
        )


def _in_process(run, bounds, cells, threads) -> dict[str, Any] | None:
    """The metrics of one population from a new process; None if it fails."""
    population, level, units = run
    kept = population.compact()
    low, high = (np.asarray(side, float).tolist() for side in bounds)
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    limits = {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "population.npz"
        np.savez(file, quality=kept.quality, behavior=kept.behavior)
        worker = subprocess.run(
            [sys.executable, "-c", f"from {__name__} import main; main()"],
            input=json.dumps([str(file), low, high, cells, level, units]),
            capture_output=True,
            text=True,
            env={**os.environ, **paths, **limits, "JAX_PLATFORMS": "cpu"},
            check=False,
        )
    return json.loads(worker.stdout) if worker.returncode == 0 else None


def main() -> None:
    """The worker: measure the population that standard input names."""
    file, low, high, cells, level, units = json.load(sys.stdin)
    with np.load(file, allow_pickle=False) as arrays:
        quality, behavior = arrays["quality"], arrays["behavior"]
    nothing = np.zeros((len(quality), 0))
    population = Population(nothing, quality, behavior, np.ones(len(quality), bool))
    how = {"cells": cells, "level": level, "units": units}
    found = evaluate_population(population, (low, high), **how)
    json.dump(found, sys.stdout)
