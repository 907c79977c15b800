"""Run folders: from a configuration to files on disk, in a straight line."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softqd.experiment import checkpoint
from softqd.experiment.config import Config, ConfigError, build
from softqd.experiment.files.lock import locked
from softqd.experiment.files.readers import load_population
from softqd.experiment.result import Result, versions
from softqd.experiment.run import run
from softqd.experiment.run_folder import CHECKPOINT, POPULATION, RunFolder
from softqd.experiment.same import first_difference
from softqd.experiment.spread import Spread, mesh_of
from softqd.metrics import DEFAULT_CELLS, METRICS, evaluate_population
from softqd.ops.seeds import check_seed
from softqd.ops.units import Units
from softqd.types import Problem

if TYPE_CHECKING:
    from softqd.experiment.live import LivePanel


@contextmanager
def _holding(folder: Path) -> Iterator[None]:
    """Hold a folder from its first file to its last.

    Raises:
        InUseError: If another process holds it.
        ConfigError: If it cannot be written.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder))
        except OSError as error:
            raise ConfigError(
                f"cannot write to {folder} ({error.strerror}); choose another folder "
                "with --out"
            ) from None
        yield


def run_into_folder(
    config: Config,
    folder: Path,
    *,
    resume: bool = False,
    progress: bool = False,
    live: bool = False,
    mesh: Any = None,
    then: Callable[[Result], None] = lambda result: None,
) -> Result:
    """Run a configuration and write its folder.

    Args:
        config: As `softqd.experiment.config` completes it.
        folder: Must not hold a run yet, unless ``resume``.
        resume: Continue from the folder's checkpoint, if there is one.
        progress: Show a progress bar.
        live: Draw the population instead, where standard error is a terminal.
        mesh: As `softqd.run` takes it. Of several processes, the first one writes.
        then: What else is written, while the folder is still held.

    Raises:
        InUseError: If another process writes to the folder.
        ConfigError: If the folder is taken or cannot be written, or a setting or the
            start is refused.
        NonFiniteError, CheckpointError: As `softqd.run` raises them.
    """
    limits = config["run"]
    check_seed(limits["seed"])
    problem, algorithm = build(config)
    solutions = _solutions(limits.get("init"))
    is_writer = Spread(mesh_of(mesh)).is_writer
    with _holding(folder) if is_writer else nullcontext():
        _refuse_taken(folder, config, resume)
        if is_writer:
            RunFolder(folder).write_config({**config, "versions": versions()})
        panel = _panel(problem) if live and is_writer else None
        with panel or nullcontext():
            result = run(
                algorithm,
                seed=limits["seed"],
                num_iterations=limits.get("iterations"),
                log_every=limits["log_every"],
                max_evaluations=limits.get("evaluations"),
                max_seconds=limits.get("max_seconds"),
                solutions=solutions,
                checkpoint_dir=folder / CHECKPOINT,
                resume=resume,
                progress=panel or progress,
                callback=panel.look if panel else None,
                mesh=mesh,
                config=identity(config),
            )
        if result.interrupted:
            raise KeyboardInterrupt
        if not is_writer:
            return result
        result = finish_folder(folder, result, config, problem)
        then(result)
    return result


def _panel(problem: Problem) -> LivePanel | None:
    """What draws the population, where there is a terminal."""
    from rich.console import Console

    from softqd.experiment.live import LivePanel  # loads rich

    return LivePanel(problem) if Console(stderr=True).is_terminal else None


def identity(config: Config) -> Config:
    """What a checkpoint must agree on: not how long the run lasts."""
    return {
        "problem": config.get("problem", {}),
        "algorithm": config.get("algorithm", {}),
        "run": {"init": config.get("run", {}).get("init", "")},
    }


def finish_folder(
    folder: Path,
    result: Result,
    config: Config,
    problem: Problem,
    *,
    num_together: int = 1,
    found: dict[str, Any] | None = None,
) -> Result:
    """Write a finished run, its metrics and pictures; ``metrics.json`` comes last.

    Args:
        folder: The run folder.
        result: The run.
        config: What it was started with.
        problem: What it is about.
        num_together: Seeds that advanced in one program and share its seconds.
        found: What `evaluate_population` says, where it is known already.
    """
    full = {**config, "versions": result.versions}
    result = dataclasses.replace(result, config=full, problem=problem)
    result = result.completed(config["run"]["cells"], found)
    if num_together > 1:
        together = f"of {num_together} runs that advanced together"
        notes = {**result.metrics["notes"], "seconds": together}
        more = {"seeds_together": num_together, "notes": notes}
        result = dataclasses.replace(result, metrics={**result.metrics, **more})
    result.write(folder)
    return result


def measure_again(
    run: RunFolder, problem: Problem, level: float, units: Units | None
) -> RunFolder:
    """A finished run with metrics from another level or units, which are written."""
    settings = run.metrics.get("settings", {})
    is_same = settings.get("quality_level", 0.0) == level
    # Without units of its own it is measured in declared bounds.
    if is_same and settings.get("behavior_units", units) == units:
        return run
    population = run.population
    found = evaluate_population(
        population,
        problem.bounds(population.behavior.shape[1]),
        cells=settings.get("cells", DEFAULT_CELLS),
        level=level,
        units=units,
    )
    notes = {**found["notes"], **run.metrics.get("notes", {})}
    values = {name: found[name] for name in METRICS}
    more = {**values, "settings": found["settings"], "notes": notes}
    run.write_metrics({**run.metrics, **more})
    return RunFolder(run.path)


def _refuse_taken(folder: Path, config: Config, resume: bool) -> None:
    """Refuse a folder that holds another run, or is not to be continued."""
    has_state = checkpoint.exists(folder / CHECKPOINT)
    if not has_state and not (folder / POPULATION).exists():
        return
    if not resume:
        raise ConfigError(
            f"{folder} already holds a run; add --resume to continue it, or --out with "
            "another folder"
        )
    # The checkpoint knows best; a run without one is begun anew.
    if has_state:
        saved = checkpoint.saved_identity(folder / CHECKPOINT)
    else:
        saved = _full_identity(RunFolder(folder).config)
    if found := first_difference(saved, _full_identity(config)):
        place = found.place.removeprefix("config ")
        raise ConfigError(
            f"{folder} holds a run with {place}={found.before}, this one has "
            f"{found.now}; resume it with 'softqd run {folder}/config.toml --out "
            f"{folder} --resume', or use another folder"
        )


def _full_identity(config: Config) -> dict[str, Any]:
    """As a checkpoint holds it."""
    seed = config.get("run", {}).get("seed", 0)
    return {"seeds": [seed], "config": identity(config)}


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
