"""Runs that advance together, each into a run folder of its own.

A group is seeds of one method, or of several that differ in numbers alone: its lanes.
Its checkpoint is one file, in ``unfinished/<digest>/`` of the experiment, beside a
``lanes.json`` that says whose it is; both go away once the run folders are written.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from softqd.experiment.checkpoint import CheckpointError
from softqd.experiment.drive import Course, Limits
from softqd.experiment.files.schema import COUNT, PLAIN, read_json
from softqd.experiment.files.whole import write_whole
from softqd.experiment.folder import finish_folder, identity
from softqd.experiment.many.measure import curve_values, measure_all
from softqd.experiment.many.plan import Method, folder_of
from softqd.experiment.many.stack import stack
from softqd.experiment.program import Lanes
from softqd.experiment.result import Result, versions
from softqd.experiment.run import run_lanes
from softqd.experiment.run_folder import RunFolder
from softqd.types import Problem

_ERROR_FILE = "error.txt"
LANES_FILE = "lanes.json"
_TABLE = {"...": PLAIN}
_METHOD = {"name": str, "problem": _TABLE, "algorithm": _TABLE, "run": _TABLE}
_LANES = {"methods": [{**_METHOD, "...": PLAIN}], "seeds": [COUNT], "versions": _TABLE}
# Seconds; the archives of ten seeds take gigabytes and some seconds to write.
_CHECKPOINT_EVERY = 30.0


class Event(NamedTuple):
    """Something that happened to some runs of one algorithm."""

    algorithm: str
    seeds: list[int]
    share: float  # of these runs that is done, from 0 to 1
    error: str = ""  # why they failed, if they did


Emit = Callable[[Event], None]


class Group(NamedTuple):
    """Seeds of methods that advance together.

    Attributes:
        methods: One, or several that differ in numbers alone.
        seeds: Of each.
        problem: What they are about.
    """

    methods: list[Method]
    seeds: list[int]
    problem: Problem

    def runs(self) -> list[tuple[Method, int]]:
        """Method and seed of every lane."""
        return [(method, seed) for method in self.methods for seed in self.seeds]

    def halves(self) -> tuple[Group, Group]:
        """Two smaller groups: of methods, or of the seeds of one."""
        name = "methods" if len(self.methods) > 1 else "seeds"
        members = getattr(self, name)
        half = len(members) // 2
        first, second = members[:half], members[half:]
        return self._replace(**{name: first}), self._replace(**{name: second})

    def members(self) -> list[Group]:
        """Smaller groups: each method by itself, or each seed of one."""
        if len(self.methods) > 1:
            return [self._replace(methods=[method]) for method in self.methods]
        return [self._replace(seeds=[seed]) for seed in self.seeds]

    def lanes(self) -> dict[str, Any]:
        """What a checkpoint must agree on to be continued, as JSON holds it."""
        methods = [{"name": method.name, **method.config} for method in self.methods]
        return {"methods": methods, "seeds": list(self.seeds)}


def is_finished(folder: Path) -> bool:
    """Whether a run folder is complete: no file is missing or empty."""
    return RunFolder(folder).is_finished


def unfinished(out: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Folders of groups that were interrupted, and what they say of their lanes."""
    for path in sorted((out / "unfinished").glob(f"*/{LANES_FILE}")):
        yield path.parent, read_json(path, _LANES)


def groups_of(
    out: Path, wanted: Mapping[str, Group], num_parts: int = 1
) -> list[Group]:
    """Which runs that are not finished go together.

    Runs that were interrupted together continue together, runs that failed are tried
    again alone, and the rest of a method's seeds are split into ``num_parts``.

    Args:
        out: Folder of the experiment.
        wanted: Name of a method to its group, of all its seeds.
        num_parts: Into how many.
    """
    left = {
        name: [s for s in seeds if not is_finished(folder_of(out, methods[0], s))]
        for name, (methods, seeds, _) in wanted.items()
    }
    groups = []
    for folder, lanes in unfinished(out):
        names = [lane["name"] for lane in lanes["methods"]]
        if not all(set(left.get(name, [])) & set(lanes["seeds"]) for name in names):
            continue  # another grid, or done since
        methods = [wanted[name].methods[0] for name in names]
        group = Group(methods, lanes["seeds"], wanted[names[0]].problem)
        if checkpoint_of(out, group) != folder:
            continue  # another version's, say: it begins anew
        groups.append(group)
        for name in names:
            left[name] = [s for s in left[name] if s not in lanes["seeds"]]
    for name, seeds in left.items():
        method = wanted[name].methods[0]
        failed = [
            s for s in seeds if (folder_of(out, method, s) / _ERROR_FILE).exists()
        ]
        fresh = [s for s in seeds if s not in failed]
        size = -(-len(fresh) // num_parts) or 1
        parts = [fresh[i : i + size] for i in range(0, len(fresh), size)]
        groups += [
            wanted[name]._replace(seeds=part)
            for part in [*parts, *([s] for s in failed)]
        ]
    return groups


def run_group(out: Path, group: Group, emit: Emit) -> None:
    """Run a group; if that fails, in smaller ones, down to each run alone.

    What happens is told to ``emit``; only Ctrl-C is raised. Where memory does not
    suffice a group is halved, where something else fails its members go on alone.
    """
    try:
        _run_together(out, group, emit)
    except Exception as error:
        if len(group.runs()) == 1 or isinstance(error, CheckpointError):
            for method, seed in group.runs():
                fail(out, method, seed, error, emit)
            return
        shutil.rmtree(checkpoint_of(out, group), ignore_errors=True)
        _tell(group, 0.0, emit)
        for part in group.halves() if is_memory(error) else group.members():
            run_group(out, part, emit)


def _run_together(out: Path, group: Group, emit: Emit) -> None:
    checkpoint = checkpoint_of(out, group)
    # For whoever continues: what these lanes are run with.
    text = json.dumps({**group.lanes(), "versions": versions()})
    write_whole(checkpoint / LANES_FILE, text)
    algorithm, lanes = _program_of(group)
    run = group.methods[0].config["run"]
    course = Course(
        Limits(run.get("iterations"), run.get("evaluations")),
        log_every=run["log_every"],
        folder=checkpoint,
        checkpoint_every=_CHECKPOINT_EVERY,
        reporter=_Share(group, emit),
    )
    config = {"lanes": [identity(method.config) for method in group.methods]}
    measure = _measure(group.methods[0], group.problem)
    results = run_lanes(algorithm, lanes, course, config, measure)
    if _finish_all(out, group, results, emit):
        shutil.rmtree(checkpoint)
        with suppress(OSError):  # others may be there
            checkpoint.parent.rmdir()


def _program_of(group: Group) -> tuple[Any, Lanes]:
    """One algorithm for all lanes, and what each lane has of its own."""
    if len(group.methods) == 1:
        return group.methods[0].algorithm, Lanes(list(group.seeds))
    part = stack(group.methods, group.problem)
    numbers = np.repeat(part.numbers, len(group.seeds), axis=0)
    return part.algorithm, Lanes([seed for _, seed in group.runs()], numbers)


def _finish_all(
    out: Path, group: Group, results: Sequence[Result | Exception], emit: Emit
) -> bool:
    """Write the folders of runs that are done; whether all could be written."""
    done = []
    for (method, seed), result in zip(group.runs(), results, strict=True):
        if isinstance(result, Result):
            done.append((method, seed, result))
        else:
            fail(out, method, seed, result, emit)
    found = _metrics(group, [result for *_, result in done])
    is_written = True
    for (method, seed, result), metrics in zip(done, found, strict=True):
        folder = folder_of(out, method, seed)
        full = {**method.config, "run": {**method.config["run"], "seed": seed}}
        together = {"num_together": len(results), "found": metrics}
        try:
            if not is_finished(folder):
                finish_folder(folder, result, full, group.problem, **together)
        except Exception as error:  # the run itself is done, and its state kept
            fail(out, method, seed, error, emit)
            is_written = False
        else:
            (folder / _ERROR_FILE).unlink(missing_ok=True)
            emit(Event(method.name, [seed], 1.0))
    return is_written


def _metrics(group: Group, results: Sequence[Result]) -> list[dict[str, Any] | None]:
    if not results:
        return []
    return measure_all(
        [result.population for result in results],
        group.problem.bounds(results[0].population.behavior.shape[1]),
        group.methods[0].config["run"]["cells"],
        [result.quality_level for result in results],
        [result.behavior_units for result in results],
    )


def _measure(method: Method, problem: Problem) -> Callable | None:
    if not method.curves:
        return None
    cells = method.config["run"]["cells"]
    return lambda population: curve_values(population, problem, cells)


class _Share:
    """Passes the progress of a group on; its last bit is the metrics."""

    def __init__(self, group: Group, emit: Emit):
        self._group, self._emit = group, emit

    def announce(self, seconds: float) -> None:
        """The experiment's bar shows the time left."""

    def update(self, share: float, iteration: int, latest: dict[str, float]) -> None:
        """Tell the share that is done."""
        _tell(self._group, min(share, 0.99), self._emit)


def _tell(group: Group, share: float, emit: Emit) -> None:
    for method in group.methods:
        emit(Event(method.name, list(group.seeds), share))


def checkpoint_of(out: Path, group: Group) -> Path:
    """The folder of a group's checkpoint."""
    text = json.dumps(group.lanes(), sort_keys=True)
    return out / "unfinished" / hashlib.sha256(text.encode()).hexdigest()[:16]


def is_memory(error: Exception) -> bool:
    """Whether memory did not suffice."""
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


def fail(out: Path, method: Method, seed: int, error: Exception, emit: Emit) -> None:
    """Leave the reason in the folder of a run, and tell it."""
    message = str(error) or repr(error)
    emit(Event(method.name, [seed], 1.0, message))
    with suppress(OSError):  # a full disk may be the reason
        write_whole(folder_of(out, method, seed) / _ERROR_FILE, message + "\n")
