"""A run on its way: a state on the device, and a ledger of what it spent and found."""

from __future__ import annotations

import dataclasses
import json
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, PyTree

from softqd.experiment import checkpoint
from softqd.experiment.files.schema import (
    COUNT,
    FINITE,
    PLAIN,
    FileError,
    check,
)
from softqd.experiment.program import Program, Tally
from softqd.experiment.result import COUNTS, Result, plain_settings, versions
from softqd.experiment.run_folder import PYTHON
from softqd.experiment.warm import fitted
from softqd.experiment.watch import (
    narrow_words,
    num_outside,
    outside_words,
    refused_words,
    still_words,
    trouble,
)
from softqd.ops.checks import check_first_evaluation, check_solutions
from softqd.ops.level import level_of
from softqd.ops.units import Units, units_of
from softqd.types import Algorithm, Population

# Longest time between two returns to Python: how soon Ctrl-C and the bar react.
_MAX_CHUNK_SECONDS = 0.5


class NonFiniteError(FloatingPointError):
    """A run met a quality, behavior or gradient that is not finite."""


class LogPoint(NamedTuple):
    """What a callback is given at every log point."""

    iteration: int
    history: dict[str, list]
    population: Callable[[], Population]
    seed: int = 0


# Columns that every history has, most of them with an entry per lane.
_HISTORY = {
    "iteration": [COUNT],
    "seconds": [FINITE],
    **{name: [[COUNT]] for name in COUNTS},
    **{x: [[float]] for x in ("mean_quality", "max_quality", "clipped_behaviors")},
    "...": [(float, [float])],
}
_LEDGER = {
    "counts": {name: [COUNT] for name in COUNTS},
    "levels": [(FINITE, None)],
    "units": [([[FINITE]], None)],
    "failures": {"...": str},
    "iteration": COUNT,
    "seconds": FINITE,
    "evaluations_per_step": COUNT,
    "history": _HISTORY,
}


@dataclass
class Ledger:
    """What a run has spent and found: what a checkpoint keeps beside the state.

    Attributes:
        counts: What was spent, by `COUNTS`, per lane.
        history: Column to one entry per log point, a list where lanes differ.
        levels: From where quality is measured, per lane; None while nobody is there.
        units: In which behaviors are measured, likewise.
        failures: Lane to what became of it.
        iteration: Iterations done.
        seconds: Spent on them.
        evaluations_per_step: Of the dearest iteration so far.
    """

    counts: dict[str, list[int]]
    history: dict[str, list] = field(default_factory=dict)
    levels: list[float | None] = field(default_factory=list)
    units: list[Units | None] = field(default_factory=list)
    failures: dict[int, str] = field(default_factory=dict)
    iteration: int = 0
    seconds: float = 0.0
    evaluations_per_step: int = 0

    @classmethod
    def from_json(cls, data: dict[str, Any], place: Path) -> Ledger:
        """What was written as ``dataclasses.asdict``; JSON's keys are texts.

        Raises:
            CheckpointError: If it was not.
        """
        num_lanes = len(data["identity"]["seeds"])
        data = {"units": [None] * num_lanes, **data}
        try:
            check(place, data, {**_LEDGER, "...": PLAIN})
        except FileError as error:
            raise checkpoint.CheckpointError(str(error)) from None
        names = [entry.name for entry in dataclasses.fields(cls)]
        ledger = cls(**{name: data[name] for name in names})
        ledger.failures = {int(k): v for k, v in ledger.failures.items()}
        columns = list(ledger.history.values())
        lanes = [*ledger.counts.values(), ledger.levels, ledger.units]
        lanes += [v for column in columns for v in column if isinstance(v, list)]
        rows = {len(column) for column in columns}
        if len(rows) > 1 or {len(lane) for lane in lanes} != {num_lanes}:
            raise checkpoint.CheckpointError(f"{place}: its parts differ in length")
        return ledger

    @property
    def is_unmeasured(self) -> bool:
        """Whether a lane has not had anybody to find level and units among."""
        return None in self.levels or None in self.units

    @property
    def evaluations(self) -> int:
        """Spent so far, by the lane that spent most."""
        return max(self.counts["evaluations"])

    def enter(self, row: dict[str, Any]) -> None:
        """Add a row to the history."""
        for name, value in row.items():
            self.history.setdefault(name, []).append(value)

    def history_of(self, lane: int) -> dict[str, list]:
        """The history of one lane."""
        pick = lambda v: v[lane] if isinstance(v, list) else v  # noqa: E731
        return {name: [pick(v) for v in col] for name, col in self.history.items()}


class Loop:
    """A run on its way.

    Args:
        program: What runs on the device.
        config: Recorded in the result, and compared before resuming.
        measure: Numbers of a population for the history.
        goes_on: Whether lanes go on where one is not finite; its error then takes its
            result's place.
    """

    def __init__(
        self,
        program: Program,
        config: dict[str, Any] | None = None,
        measure: Callable[[Population], dict[str, float]] | None = None,
        goes_on: bool = False,
    ):
        self.program, self.measure, self.goes_on = program, measure, goes_on
        self.config = config or _describe(program.algorithm)
        seeds = program.lanes.seeds
        self.ledger = Ledger({name: [0] * len(seeds) for name in COUNTS})
        # None while an iteration has its buffers, and after one that failed.
        self.state: PyTree | None = None
        self.info: Any = None
        self.kept: PyTree | None = None  # before an iteration that keeps its buffers
        self.compile_seconds = 0.0
        self.seconds_per_step = 0.0  # of the last chunk; 0 before there was one
        self.is_warned = False

    # --- starting -----------------------------------------------------------------

    def start(
        self,
        solutions: PyTree | None,
        resume_from: Path | None,
        num_iterations: int | None = None,
        max_evaluations: int | None = None,
    ) -> None:
        """Begin, or continue from a checkpoint, towards these limits."""
        began = time.perf_counter()
        program, problem = self.program, self.program.algorithm.problem
        if solutions is not None and problem is not None:
            solutions = check_solutions(problem, solutions)
        if resume_from is not None and not checkpoint.exists(resume_from):
            resume_from = None
        spent_before = 0
        if solutions is not None:
            solutions, spent_before = fitted(
                program.algorithm,
                solutions,
                program.lanes.seeds[0],
                resume_from is not None,
            )
        if resume_from is not None:
            template = program.shape_of_state(solutions)
            state, meta = checkpoint.load(resume_from, template, self.identity())
            self.ledger = Ledger.from_json(meta, resume_from / checkpoint.FILE_NAME)
            state = program.go_on(state)
            self._find_measures(state)
        else:
            state = self.begun(program.begin(solutions), spent_before)
        self.head_for(state, num_iterations, max_evaluations)
        self.compile_seconds = time.perf_counter() - began

    def begun(self, state: PyTree, spent_before: int = 0) -> PyTree:
        """Count what a first state cost, and look whether it can be gone on from."""
        for name in COUNTS:
            spent = np.asarray(getattr(state, f"init_{name}", 0))
            every = np.broadcast_to(spent, (len(self.program.lanes.seeds),))
            before = spent_before if name == "evaluations" else 0
            self.ledger.counts[name] = (every + before).tolist()
        self._check_start(state)
        self._find_measures(state)
        return state

    def head_for(
        self, state: PyTree, num_iterations: int | None, max_evaluations: int | None
    ) -> None:
        """Set out from a state towards these limits."""
        plan = self.program.algorithm.plan
        if plan is not None:
            state = plan(state, num_iterations, max_evaluations)
        self.info, self.state = self.program.info_shape(state), state
        if not self.ledger.history:
            self.log()

    def _check_start(self, state: PyTree) -> None:
        """Refuse a first population that is not finite or out of bounds."""
        problem = self.program.algorithm.problem
        if problem is None:
            return
        places = self.program.places(state)
        behavior = places[0][1]
        if words := narrow_words(problem, behavior.shape[1], behavior.dtype):
            warnings.warn(words, stacklevel=2)
        for place in places:
            check_first_evaluation(problem, *place)

    def _find_measures(self, state: PyTree) -> None:
        """Find levels and units among the first there are; archives may start empty."""
        problem, ledger = self.program.algorithm.problem, self.ledger
        places = self.program.places(state)
        nobody = [None] * len(places)
        ledger.levels = [
            level_of(problem, quality) if level is None else level
            for (quality, _), level in zip(places, ledger.levels or nobody, strict=True)
        ]
        ledger.units = [
            units_of(problem, behavior) if units is None else units
            for (_, behavior), units in zip(places, ledger.units or nobody, strict=True)
        ]

    # --- advancing ----------------------------------------------------------------

    def advance(self, num_steps: int) -> None:
        """Run some iterations on the device and count what they cost."""
        if self.ledger.is_unmeasured:
            num_steps = 1
        before = self.places_at_start()
        began = time.perf_counter()
        state, self.state = self.state, None
        self.kept = state if self.program.keeps_state else None
        found = jax.block_until_ready(self.program.advance(state, num_steps))
        self.kept = None
        self.advanced(found, num_steps, time.perf_counter() - began, before)

    def regain(self) -> bool:
        """Go back to before an iteration that was cut short; whether that is known."""
        self.state, self.kept = self.state if self.kept is None else self.kept, None
        if self.state is not None:
            self.log()
        return self.state is not None

    def places_at_start(self) -> list[tuple[np.ndarray, np.ndarray]] | None:
        """Where everyone is, before the first iteration."""
        return None if self.ledger.iteration else self.program.places(self.state)

    def advanced(
        self,
        found: tuple[PyTree, Tally, Any],
        num_steps: int,
        seconds: float,
        before: list[tuple[np.ndarray, np.ndarray]] | None,
    ) -> None:
        """Go on from what some iterations found, and count what they cost."""
        ledger, (state, tally, self.info) = self.ledger, found
        counts = np.asarray(tally.counts).reshape(-1, len(COUNTS))
        self._note_failures(np.asarray(tally.first_bad).reshape(-1, 2))
        self.state = state
        ledger.iteration += num_steps
        ledger.counts = {
            name: (np.asarray(ledger.counts[name]) + counts[:, i]).tolist()
            for i, name in enumerate(COUNTS)
        }
        # A method may spend less later on, and never more than in its first iteration.
        per_step, per_gradient, _ = (counts.max(0) // num_steps).tolist()
        ledger.evaluations_per_step = max(ledger.evaluations_per_step, per_step)
        ledger.seconds += seconds
        self.seconds_per_step = seconds / num_steps
        if ledger.is_unmeasured:
            self._find_measures(state)
        # Where every member has a gradient; of fewer, all children may be rejected.
        if before and per_gradient >= len(before[0][0]) > 1:
            self._warn_if_still(before)

    def _warn_if_still(self, before: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """Say so if gradients moved nothing."""
        if all(
            np.array_equal(*pair)
            for places in zip(before, self.program.places(self.state), strict=True)
            for pair in zip(*places, strict=True)
        ):
            words = still_words(before[0][0])
            text = f"after iteration {self.ledger.iteration} {words}"
            warnings.warn(text, stacklevel=2)

    def advance_within(self, max_evaluations: int) -> None:
        """Take the first iteration, and take it back if it cost too much.

        What an iteration costs is not known before; from then on it is.
        """
        before, info = dataclasses.replace(self.ledger), self.info
        state = jax.tree.map(jnp.copy, self.state)
        self.advance(1)
        if self.ledger.evaluations > max_evaluations:
            before.evaluations_per_step = self.ledger.evaluations_per_step
            self.ledger, self.info, self.state = before, info, state

    def steps_per_chunk(self) -> float:
        """Iterations that take about half a second."""
        if not self.seconds_per_step:
            return 1
        return max(1, _MAX_CHUNK_SECONDS // self.seconds_per_step)

    def _note_failures(self, first_bad: Int[np.ndarray, "lanes 2"]) -> None:
        which = np.flatnonzero(first_bad[:, 0] >= 0)
        first = sorted(which.tolist(), key=lambda lane: first_bad[lane, 0])
        new = {lane: self._nonfinite(lane, *first_bad[lane].tolist()) for lane in first}
        if new and not self.goes_on:
            raise NonFiniteError(new[first[0]])
        self.ledger.failures = new | self.ledger.failures  # the first of each counts

    def _nonfinite(self, lane: int, step: int, row: int) -> str:
        return (
            f"iteration {self.ledger.iteration + step + 1}: quality, behavior or "
            f"gradient of solution {row}{self.program.lanes.words(lane)} is not "
            "finite. Lower the learning rate, clip the gradient "
            "(optax.clip_by_global_norm), or make evaluate safe there; an earlier "
            "checkpoint, if any, is kept"
        )

    # --- logging ------------------------------------------------------------------

    def log(self) -> None:
        """Add the current figures to the history, once per iteration."""
        ledger = self.ledger
        if ledger.history and ledger.history["iteration"][-1] == ledger.iteration:
            return
        row: dict[str, Any] = {"iteration": ledger.iteration, **ledger.counts}
        row["seconds"] = ledger.seconds
        places = self.program.places(self.state)
        problem = self.program.algorithm.problem
        for name, best in (("mean_quality", np.mean), ("max_quality", np.max)):
            row[name] = [float(best(q)) if q.size else math.nan for q, _ in places]
        row["clipped_behaviors"] = [num_outside(problem, b) for _, b in places]
        ledger.enter(row | self._scalars() | self._measured())
        if ledger.iteration and not self.is_warned:
            self._warn_of_trouble(places)

    def warn_of_outside(self) -> None:
        """Say so, of the first lane that it is true of, if behaviors are outside."""
        column = self.ledger.history["clipped_behaviors"]
        for lane, num in enumerate(column[-1]):
            if num and lane not in self.ledger.failures:
                problem = self.program.algorithm.problem
                which = self.program.lanes.words(lane)
                warnings.warn(outside_words(num, problem, which), stacklevel=2)
                return

    def warn_of_refused(self) -> None:
        """Say so, of the first lane that it is true of, if all or many were refused."""
        ledger = self.ledger
        if not ledger.iteration or "rejected" not in ledger.history:
            return
        for lane, num_there in enumerate(self._num_there()):
            history = ledger.history_of(lane)
            # Nothing was refused yet where there was no iteration.
            refused = [x for x in history["rejected"] if not math.isnan(x)]
            evaluations, gradients = (
                (history[name][-1] - history[name][0]) / ledger.iteration
                for name in COUNTS[:2]
            )
            words = refused_words(num_there, refused, evaluations, gradients)
            if words and lane not in ledger.failures:
                which = self.program.lanes.words(lane)
                text = f"after iteration {ledger.iteration}{which}, {words}"
                warnings.warn(text, stacklevel=2)
                return

    def _num_there(self) -> list[int]:
        return [len(quality) for quality, _ in self.program.places(self.state)]

    def _warn_of_trouble(self, places: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """Say so, once, if a population cannot spread."""
        for lane, place in enumerate(places):
            # Who has no light to tell of does not need any.
            level = self.ledger.levels[lane] if hasattr(self.info, "lit") else None
            found = trouble(*place, level)
            if found and lane not in self.ledger.failures:
                which = self.program.lanes.words(lane)
                text = f"after iteration {self.ledger.iteration}{which}, {found}"
                warnings.warn(text, stacklevel=2)
                self.is_warned = True
                return

    def _scalars(self) -> dict[str, list[float]]:
        """Single numbers in the algorithm's info, beyond the counters, per lane."""
        ndim = 0 if self.program.lanes.is_single else 1
        scalars = {}
        for name, leaf in self.info._asdict().items():
            if name in COUNTS or leaf.ndim != ndim:
                continue
            is_known = not isinstance(leaf, jax.ShapeDtypeStruct)
            values = np.asarray(leaf) if is_known else np.full(leaf.shape, np.nan)
            scalars[name] = [float(v) for v in values.reshape(-1)]
        return scalars

    def _measured(self) -> dict[str, list[float]]:
        """What ``measure`` says of the population, per lane."""
        if self.measure is None:
            return {}
        found = [self.measure(p) for p in self.program.populations(self.state)]
        return {name: [float(row[name]) for row in found] for name in found[0]}

    def latest(self) -> dict[str, float]:
        """The newest figures, first lane, for the progress bar."""
        newest = {name: col[-1] for name, col in self.ledger.history_of(0).items()}
        rate = self.ledger.evaluations_per_step / max(self.seconds_per_step, 1e-9)
        return {**newest, "rate": rate * len(self.program.lanes.seeds)}

    def log_points(self) -> list[LogPoint]:
        """What a callback sees of every lane."""
        return [
            LogPoint(
                self.ledger.iteration,
                self.ledger.history_of(lane),
                lambda lane=lane: self.program.populations(self.state)[lane],
                seed,
            )
            for lane, seed in enumerate(self.program.lanes.seeds)
        ]

    # --- keeping ------------------------------------------------------------------

    def identity(self) -> dict[str, Any]:
        """What must be equal for a checkpoint to be resumed."""
        config = json.loads(json.dumps(self.config, default=repr))
        return {"seeds": self.program.lanes.seeds, "config": config}

    def save(self, folder: Path) -> None:
        """Write a checkpoint."""
        meta = {"identity": self.identity(), **dataclasses.asdict(self.ledger)}
        checkpoint.save(folder, self.state, meta, self.program.spread.is_writer)
        self.program.saved()

    def results(self, interrupted: bool = False) -> list[Result | NonFiniteError]:
        """One `Result` per lane, on the host; the error where a lane failed."""
        ledger, populations = self.ledger, self.program.populations(self.state)
        return [
            NonFiniteError(ledger.failures[lane])
            if lane in ledger.failures
            else Result(
                population=self.program.presented(population),
                history={k: np.asarray(v) for k, v in ledger.history_of(lane).items()},
                config=self.config,
                seed=self.program.lanes.seeds[lane],
                versions=versions(),
                timings={"compile": self.compile_seconds, "run": ledger.seconds},
                quality_level=ledger.levels[lane] or 0.0,
                behavior_units=ledger.units[lane],
                interrupted=interrupted,
                problem=self.program.algorithm.problem,
            )
            for lane, population in enumerate(populations)
        ]


def _describe(algorithm: Algorithm) -> dict[str, Any]:
    """What is known of an algorithm that was not built from a configuration."""
    problem = algorithm.problem.name if algorithm.problem is not None else "unknown"
    table = {"name": algorithm.name, **plain_settings(algorithm)}
    return {"origin": PYTHON, "problem": {"name": problem}, "algorithm": table}
