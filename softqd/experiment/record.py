"""Small, lasting records of runs over several seeds: ``results/*.json``.

A record holds settings, versions and metrics of every seed, and a thinned history, but
no population. `docs/results.md` is generated from these files and from nothing else.

Schema 1: ``schema``, ``name``, ``preset``, ``variant``, ``config`` (problem, algorithm,
run), ``seeds``, ``metrics`` (name to one number per seed, or null), ``history`` (column
to one list per seed, for up to ten seeds; null where a population was empty),
``seconds`` (all seeds together),
``compile_seconds``, ``versions``.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from softqd.experiment import config as configs
from softqd.experiment.result import COUNTS, Result
from softqd.experiment.run import run
from softqd.metrics import (
    METRICS,
    centroids_of,
    evaluate_population,
    qd_score,
    quality_vendi_score,
    to_unit,
)
from softqd.types import Algorithm, Population, lift_arrays

SCHEMA = 1
_HISTORY_POINTS = 26
_HISTORY_SEEDS = 10
_HISTORY_COLUMNS = ("iteration", "evaluations", "mean_quality", "max_quality")
# Metrics of the whole population that can be followed over a run.
_CURVES = ("qd_score", "qvs")


def record(
    preset: str,
    algorithm: str = "squad",
    seeds: Sequence[int] = tuple(range(2001, 2011)),
    settings: Sequence[str] = (),
    variant: str = "published",
    num_iterations: int | None = None,
    curves: bool = False,
    progress: bool = False,
) -> dict[str, Any]:
    """Run a preset over several seeds and return its record.

    The seeds advance together in one program, or one after the other with ``curves``.

    Args:
        preset: A name of `softqd list`.
        algorithm: An algorithm's name.
        seeds: Seeds; the published runs used 2001 to 2010.
        settings: ``name=value`` texts that depart from the preset.
        variant: What to call these settings.
        num_iterations: Instead of the preset's.
        curves: Also follow QD score and QVS over the run.
        progress: Show a progress bar.
    """
    config = configs.with_settings(configs.from_name(preset, algorithm), list(settings))
    iterations = num_iterations or config["run"]["iterations"]
    config["run"] |= {"iterations": iterations}
    problem, built = configs.build(config)
    options = {
        "num_iterations": iterations,
        "log_every": max(1, iterations // (_HISTORY_POINTS - 1)),
        "progress": progress,
    }
    cells, bounds = config["run"]["cells"], problem.bounds(problem.behavior_dim)
    if curves:
        follow = functools.partial(_measures, bounds=bounds, cells=cells)
        results = [_run_following(built, seed, options, follow) for seed in seeds]
    else:
        results = run(built, seed=list(seeds), **options)
    evaluated = [
        evaluate_population(r.population, bounds, cells=cells) for r in results
    ]
    metrics = {name: [e[name] for e in evaluated] for name in METRICS}
    metrics |= {name: [int(r.history[name][-1]) for r in results] for name in COUNTS}
    run_table = {k: v for k, v in config["run"].items() if k != "seed"}
    return {
        "schema": SCHEMA,
        "name": f"{preset}_{algorithm}_{variant}",
        "preset": preset,
        "variant": variant,
        "config": {**config, "run": run_table},
        "seeds": list(seeds),
        "metrics": metrics,
        "history": _thin_history(results),
        "seconds": sum(r.timings["run"] for r in (results if curves else results[:1])),
        "compile_seconds": results[0].timings["compile"],
        "versions": results[0].versions,
    }


def _run_following(
    algorithm: Algorithm, seed: int, options: dict[str, Any], follow: Callable
) -> Result:
    """Run one seed; its history also holds what ``follow`` says of the population."""
    init = jax.jit(lambda init, key: init(key))
    state = init(lift_arrays(algorithm.init), jax.random.key(seed))
    start = algorithm.population(state)
    rows = [follow(start)]
    result = run(
        algorithm,
        seed=seed,
        callback=lambda point: rows.append(follow(point.population())),
        **options,
    )
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return dataclasses.replace(result, history={**result.history, **columns})


def _measures(population: Population, bounds: Any, cells: int) -> dict[str, float]:
    kept = population.compact()
    quality, behavior = np.asarray(kept.quality), np.asarray(kept.behavior)
    unit = to_unit(bounds, behavior)
    if unit is None:
        raise ValueError("curves need a bounded behavior space")
    centroids = centroids_of(unit.shape[1], cells)[0]
    values = (qd_score(quality, unit, centroids), quality_vendi_score(quality, unit))
    return dict(zip(_CURVES, map(float, values), strict=True))


def save(entry: dict[str, Any], directory: str | Path) -> Path:
    """Write a record as ``<name>.json``."""
    check(entry)
    path = Path(directory) / f"{entry['name']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(entry, indent=1, allow_nan=False) + "\n")
    return path


def load_all(directory: str | Path) -> list[dict[str, Any]]:
    """Read and check every record of a folder, sorted by name."""
    paths = sorted(Path(directory).glob("*.json"))
    return [check(json.loads(path.read_text())) for path in paths]


def check(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a record, or refuse it.

    Raises:
        ValueError: If it is not of this schema.
    """
    needed = {"schema", "name", "preset", "variant", "config", "seeds", "metrics"}
    needed |= {"history", "seconds", "compile_seconds", "versions"}
    name = entry.get("name", "record")
    if entry.get("schema") != SCHEMA or set(entry) != needed:
        difference = sorted(set(entry) ^ needed)
        raise ValueError(
            f"{name}: not a record of schema {SCHEMA} (schema {entry.get('schema')!r}, "
            f"keys that differ: {difference})"
        )
    num_seeds = len(entry["seeds"])
    for metric, values in entry["metrics"].items():
        if len(values) != num_seeds:
            raise ValueError(
                f"{name}: metric {metric} has {len(values)} values for "
                f"{num_seeds} seeds"
            )
    return entry


def _thin_history(results: list[Result]) -> dict[str, list[list[float | None]]]:
    return {
        name: [_plain(r.history[name]) for r in results[:_HISTORY_SEEDS]]
        for name in (*_HISTORY_COLUMNS, *_CURVES)
        if name in results[0].history
    }


def _plain(column: np.ndarray) -> list[float | None]:
    """Rounded numbers; None where there is none, as in an archive still empty."""
    return [round(x, 4) if math.isfinite(x) else None for x in column.tolist()]
