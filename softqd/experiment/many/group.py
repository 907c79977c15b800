"""Seeds of one algorithm, run together into a run folder each.

The checkpoint of seeds that advance together is one file, in
``<algorithm>/unfinished/<seeds>/``; it goes away once their run folders are written.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from softqd.experiment.checkpoint import CheckpointError
from softqd.experiment.folder import finish_folder, identity, write_whole
from softqd.experiment.many.measure import curve_values, measure_all
from softqd.experiment.many.plan import Method, folder_of, parse_seeds, seeds_text
from softqd.experiment.result import Result, versions
from softqd.experiment.run import run
from softqd.types import Problem

_ERROR_FILE = "error.txt"
# Seconds; the archives of ten seeds take gigabytes and some seconds to write.
_CHECKPOINT_EVERY = 30.0


class Event(NamedTuple):
    """Something that happened to some runs of one algorithm."""

    algorithm: str
    seeds: list[int]
    share: float  # of these runs that is done, from 0 to 1
    error: str = ""  # why they failed, if they did


Emit = Callable[[Event], None]


def is_finished(folder: Path) -> bool:
    """Whether a run folder is complete: its metrics are written last."""
    return (folder / "metrics.json").exists()


def groups_of(
    out: Path, method: Method, seeds: Sequence[int], num_parts: int = 1
) -> list[list[int]]:
    """Which unfinished seeds to run together.

    Seeds that were interrupted together continue together, seeds that failed are tried
    again alone, and the rest are split into ``num_parts``.
    """
    left = [s for s in seeds if not is_finished(folder_of(out, method, s))]
    groups = []
    for folder in sorted((out / method.folder_name / "unfinished").glob("*/")):
        group = parse_seeds(folder.name)
        if set(group) & set(left):
            groups.append(group)
            left = [s for s in left if s not in group]
    failed = [s for s in left if (folder_of(out, method, s) / _ERROR_FILE).exists()]
    fresh = [s for s in left if s not in failed]
    size = -(-len(fresh) // num_parts) or 1
    groups += [fresh[i : i + size] for i in range(0, len(fresh), size)]
    return groups + [[s] for s in failed]


def run_group(
    out: Path, method: Method, seeds: Sequence[int], problem: Problem, emit: Emit
) -> None:
    """Run seeds together; if that fails, in smaller groups, down to each alone.

    What happens is told to ``emit``; only Ctrl-C is raised. Where memory does not
    suffice the seeds are halved, where one fails each goes on alone.
    """
    try:
        _run_together(out, method, seeds, problem, emit)
    except Exception as error:
        if len(seeds) == 1 or isinstance(error, CheckpointError):
            fail(out, method, seeds, error, emit)
            return
        shutil.rmtree(_checkpoint(out, method, seeds), ignore_errors=True)
        emit(Event(method.name, list(seeds), 0.0))
        half = len(seeds) // 2 if is_memory(error) else 1
        for part in _parts(seeds, half):
            run_group(out, method, part, problem, emit)


def _run_together(
    out: Path, method: Method, seeds: Sequence[int], problem: Problem, emit: Emit
) -> None:
    assert method.algorithm is not None
    config, checkpoint = method.config, _checkpoint(out, method, seeds)
    checkpoint.mkdir(parents=True, exist_ok=True)
    # For whoever continues: what these seeds are run with.
    text = tomli_w.dumps({**config, "versions": versions()})
    write_whole(checkpoint / "config.toml", text)
    results = run(
        method.algorithm,
        seed=list(seeds),
        num_iterations=config["run"].get("iterations"),
        max_evaluations=config["run"].get("evaluations"),
        log_every=config["run"]["log_every"],
        checkpoint_dir=checkpoint,
        checkpoint_every=_CHECKPOINT_EVERY,
        resume=True,
        progress=_Share(method.name, list(seeds), emit),
        measure=_measure(method, problem),
        config=identity(config),
    )
    bounds = problem.bounds(results[0].population.behavior.shape[1])
    populations = [result.population for result in results]
    levels = [result.quality_level for result in results]
    found = measure_all(populations, bounds, config["run"]["cells"], levels)
    for seed, result, metrics in zip(seeds, results, found, strict=True):
        finish(out, method, seed, result, problem, emit, len(seeds), metrics)
    if not all(is_finished(folder_of(out, method, seed)) for seed in seeds):
        return
    shutil.rmtree(checkpoint)
    with suppress(OSError):  # other seeds may be there
        checkpoint.parent.rmdir()


def finish(
    out: Path,
    method: Method,
    seed: int,
    result: Result,
    problem: Problem,
    emit: Emit,
    num_together: int,
    found: dict[str, Any] | None = None,
) -> None:
    """Write the folder of a run that is done, unless it is there, and tell it.

    Args:
        out: Folder of the experiment.
        method: What was run.
        seed: Of the run.
        result: The run.
        problem: What it is about.
        emit: Told what became of it.
        num_together: Runs that advanced in one program and share its seconds.
        found: What `evaluate_population` says, where it is known already.
    """
    folder = folder_of(out, method, seed)
    full = {**method.config, "run": {**method.config["run"], "seed": seed}}
    try:
        if not is_finished(folder):
            finish_folder(
                folder, result, full, problem, num_together=num_together, found=found
            )
    except Exception as error:  # the run itself is done, and its state kept
        fail(out, method, [seed], error, emit)
    else:
        (folder / _ERROR_FILE).unlink(missing_ok=True)
        emit(Event(method.name, [seed], 1.0))


def _measure(method: Method, problem: Problem) -> Callable | None:
    if not method.curves:
        return None
    cells = method.config["run"]["cells"]
    return lambda population: curve_values(population, problem, cells)


class _Share:
    """Passes a run's progress on; its last bit is the metrics."""

    def __init__(self, algorithm: str, seeds: list[int], emit: Emit):
        self._algorithm, self._seeds, self._emit = algorithm, seeds, emit

    def announce(self, seconds: float) -> None:
        """The experiment's bar shows the time left."""

    def update(self, share: float, iteration: int, latest: dict[str, float]) -> None:
        """Tell the share that is done."""
        self._emit(Event(self._algorithm, self._seeds, min(share, 0.99)))


def _checkpoint(out: Path, method: Method, seeds: Sequence[int]) -> Path:
    return out / method.folder_name / "unfinished" / seeds_text(seeds)


def _parts(seeds: Sequence[int], size: int) -> Iterable[Sequence[int]]:
    return (seeds[i : i + size] for i in range(0, len(seeds), size))


def is_memory(error: Exception) -> bool:
    """Whether memory did not suffice."""
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


def fail(
    out: Path, method: Method, seeds: Sequence[int], error: Exception, emit: Emit
) -> None:
    """Leave the reason in the folders of these seeds, and tell it."""
    message = str(error) or repr(error)
    emit(Event(method.name, list(seeds), 1.0, message))
    with suppress(OSError):  # a full disk may be the reason
        for seed in seeds:
            folder = folder_of(out, method, seed)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / _ERROR_FILE).write_text(message + "\n")
