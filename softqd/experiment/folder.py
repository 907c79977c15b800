"""Run folders: from a configuration to files on disk, in a straight line."""

from __future__ import annotations

import dataclasses
import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w
from rich.console import Console

from softqd.experiment import checkpoint
from softqd.experiment.config import Config, ConfigError, build, from_file
from softqd.experiment.files.readers import load_population
from softqd.experiment.live import LivePanel
from softqd.experiment.result import COUNTS, Result, load, versions
from softqd.experiment.run import run
from softqd.metrics import DEFAULT_CELLS, METRICS, evaluate_population
from softqd.ops.units import Units
from softqd.types import Problem


class Outcome(NamedTuple):
    """What a finished run folder holds, and the problem it is about."""

    result: Result
    metrics: dict[str, Any]
    problem: Problem


def run_into_folder(
    config: Config,
    folder: Path,
    *,
    resume: bool = False,
    progress: bool = False,
    live: bool = False,
) -> Outcome:
    """Run a configuration and write its folder.

    Args:
        config: As `softqd.experiment.config` completes it.
        folder: Must not hold a run yet, unless ``resume``.
        resume: Continue from the folder's checkpoint, if there is one.
        progress: Show a progress bar.
        live: Draw the population instead, where standard error is a terminal.

    Raises:
        ConfigError: If the folder is taken or cannot be written, or a setting or the
            start is refused.
        NonFiniteError, CheckpointError: As `softqd.run` raises them.
    """
    problem, algorithm = build(config)
    limits = config["run"]
    solutions = _solutions(limits.get("init"))
    _prepare(folder, config, resume)
    full = {**config, "versions": versions()}
    (folder / "config.toml").write_text(tomli_w.dumps(full))
    is_seen = live and Console(stderr=True).is_terminal
    panel = LivePanel(problem) if is_seen else None
    with panel or nullcontext():
        result = run(
            algorithm,
            seed=limits["seed"],
            num_iterations=limits.get("iterations"),
            log_every=limits["log_every"],
            max_evaluations=limits.get("evaluations"),
            max_seconds=limits.get("max_seconds"),
            solutions=solutions,
            checkpoint_dir=folder / "checkpoint",
            resume=resume,
            progress=panel or progress,
            callback=panel.look if panel else None,
            config=identity(config),
        )
    if result.interrupted:
        raise KeyboardInterrupt
    return finish_folder(folder, result, config, problem)


def identity(config: Config) -> Config:
    """What a checkpoint must agree on: not how long the run lasts."""
    return {
        "problem": config["problem"],
        "algorithm": config["algorithm"],
        "run": {"init": config["run"].get("init", "")},
    }


def finish_folder(
    folder: Path,
    result: Result,
    config: Config,
    problem: Problem,
    *,
    num_together: int = 1,
    found: dict[str, Any] | None = None,
) -> Outcome:
    """Write a finished run and its metrics; ``metrics.json`` comes last.

    Args:
        folder: The run folder.
        result: The run.
        config: What it was started with.
        problem: What it is about.
        num_together: Seeds that advanced in one program and share its seconds.
        found: What `evaluate_population` says, where it is known already.
    """
    full = {**config, "versions": result.versions}
    result = dataclasses.replace(result, config=full)
    result.save(folder)
    if found is None:
        bounds = problem.bounds(result.population.behavior.shape[1])
        found = evaluate_population(
            result.population,
            bounds,
            cells=config["run"]["cells"],
            level=result.quality_level,
            units=result.behavior_units,
        )
    notes = dict(found["notes"])
    if num_together > 1:
        notes["seconds"] = f"of {num_together} runs that advanced together"
    metrics = {name: found[name] for name in METRICS}
    metrics |= {name: int(result.history[name][-1]) for name in COUNTS}
    metrics |= {"seconds": result.timings["run"], "settings": found["settings"]}
    metrics |= {"seeds_together": num_together, "notes": notes}
    write_whole(folder / "metrics.json", json.dumps(metrics, indent=1) + "\n")
    return Outcome(result, metrics, problem)


def measure_again(
    folder: Path, problem: Problem, level: float, units: Units | None
) -> None:
    """Rewrite the metrics of a finished run, where level or units are others."""
    path = folder / "metrics.json"
    metrics = read_json(path)
    settings = metrics["settings"]
    is_same = settings.get("quality_level", 0.0) == level
    # Without units of its own it is measured in declared bounds.
    if is_same and settings.get("behavior_units", units) == units:
        return
    population = load(folder).population
    found = evaluate_population(
        population,
        problem.bounds(population.behavior.shape[1]),
        cells=settings.get("cells", DEFAULT_CELLS),
        level=level,
        units=units,
    )
    metrics |= {name: found[name] for name in METRICS}
    metrics |= {"settings": found["settings"]}
    metrics["notes"] = {**found["notes"], **metrics["notes"]}
    write_whole(path, json.dumps(metrics, indent=1) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """A file of a run folder.

    Raises:
        ValueError: If it cannot be read, with what to do.
    """
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path} cannot be read ({error}); remove the folder {path.parent} to run "
            "it again"
        ) from None


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is never there in part."""
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(text, "utf-8")
    os.replace(temporary, path)


def _prepare(folder: Path, config: Config, resume: bool) -> None:
    """Make the folder ready to be written, or refuse it."""
    has_run = checkpoint.exists(folder / "checkpoint")
    has_run |= (folder / "population.npz").exists()
    if has_run and not resume:
        raise ConfigError(
            f"{folder} already holds a run; add --resume to continue it, or --out with "
            "another folder"
        )
    if has_run and (folder / "config.toml").exists():
        _refuse_other_run(folder, config)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_writable = os.access(folder, os.W_OK)
    except OSError:
        is_writable = False
    if not is_writable:
        raise ConfigError(f"cannot write to {folder}; choose another folder with --out")


def _refuse_other_run(folder: Path, config: Config) -> None:
    """Refuse to resume under other settings, before anything is overwritten."""
    saved = from_file(folder / "config.toml")
    for table in ("problem", "algorithm", "run"):
        keys = ("seed", "init") if table == "run" else saved[table] | config[table]
        for key in keys:
            before, now = saved[table].get(key), config[table].get(key)
            if before != now:
                raise ConfigError(
                    f"{folder} holds a run with {table} {key}={before!r}, this one has "
                    f"{now!r}; resume it with 'softqd run {folder}/config.toml --out "
                    f"{folder} --resume', or use another folder"
                )


def _solutions(path: str | None) -> Any:
    if not path:
        return None
    try:
        population = load_population(path)
    except (FileNotFoundError, ValueError) as error:
        raise ConfigError(f"init: {error}") from None
    if isinstance(population.solutions, dict) and not population.solutions:
        raise ConfigError(f"init: {path} holds no solutions")
    return population.solutions
