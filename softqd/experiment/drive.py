"""From a start to a limit: log, checkpoint, report and stop on the way."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from softqd.experiment.loop import LogPoint, Loop
from softqd.experiment.reporter import Reporter
from softqd.experiment.signals import Deferred


class Limits(NamedTuple):
    """What ends a run, whichever comes first."""

    num_iterations: int | None = None
    max_evaluations: int | None = None
    max_seconds: float | None = None

    def steps_left(self, loop: Loop) -> float:
        """Iterations that may still be begun."""
        ledger = loop.ledger
        if len(ledger.failures) == len(loop.program.lanes.seeds):  # no lane is left
            return 0
        left = math.inf
        if self.num_iterations is not None:
            left = self.num_iterations - ledger.iteration
        if self.max_evaluations is not None:
            spare = self.max_evaluations - ledger.evaluations
            left = min(left, spare // max(1, ledger.evaluations_per_step))
        if self.max_seconds is not None and ledger.seconds >= self.max_seconds:
            return 0
        return left

    def seconds_left(self, loop: Loop) -> float:
        """About how long the run will go on."""
        seconds = self.steps_left(loop) * loop.seconds_per_step
        if self.max_seconds is not None:
            seconds = min(seconds, self.max_seconds - loop.ledger.seconds)
        return seconds

    def share_done(self, loop: Loop) -> float:
        """How far the run is towards its nearest limit, from 0 to 1."""
        ledger = loop.ledger
        spent = (ledger.iteration, ledger.evaluations, ledger.seconds)
        shares = (
            min(1.0, now / limit) if limit else 1.0
            for now, limit in zip(spent, self, strict=True)
            if limit is not None
        )
        return max(shares, default=0.0)


class Course(NamedTuple):
    """How far a run goes, and what happens on the way.

    Attributes:
        limits: What ends it.
        log_every: Iterations between log points.
        folder: For checkpoints; None for none.
        checkpoint_every: Least seconds between two of them.
        reporter: Told how far the run is.
        callback: Called at every log point, for each lane; ends the run by answering
            True for all of them.
        stop_when: Asked at the start and at every log point, after the callback; ends
            the run where it holds for all lanes.
    """

    limits: Limits
    log_every: int
    folder: Path | None = None
    checkpoint_every: float = 10.0
    reporter: Reporter | None = None
    callback: Callable[[LogPoint], Any] | None = None
    stop_when: Callable[[LogPoint], bool] | None = None

    def is_over(self, loop: Loop) -> bool:
        """Whether the condition holds for every lane."""
        return self.stop_when is not None and all(
            map(self.stop_when, loop.log_points())
        )

    def is_stopped(self, loop: Loop) -> bool:
        """Tell the callback; whether it has every lane stopped."""
        if self.callback is None:
            return False
        answers = [self.callback(point) for point in loop.log_points()]
        return all(map(_is_true, answers))


def drive(
    loop: Loop, course: Course, solutions: PyTree | None = None, resume: bool = False
) -> int:
    """Begin or continue a run, and advance it until a limit.

    Returns:
        The signal that ended it before, SIGINT or SIGTERM; 0 if none did.
    """
    limits, log_every = course.limits, course.log_every
    with Deferred() as interrupt, _remembering(loop, course.folder, resume):
        resume_from = course.folder if resume else None
        loop.start(solutions, resume_from, *limits[:2])
        last_save, is_first_chunk = time.perf_counter(), True
        with _keeping_last_state(loop, course.folder):
            agreed = loop.program.spread.agreed  # clocks and signals differ
            is_done = agreed(course.is_over(loop))
            while not is_done and (left := agreed(float(limits.steps_left(loop)))) > 0:
                if agreed(interrupt.pending):
                    break
                if limits.max_evaluations and not loop.ledger.evaluations_per_step:
                    loop.advance_within(limits.max_evaluations)
                else:
                    to_log = log_every - loop.ledger.iteration % log_every
                    steps = min(left, to_log, loop.steps_per_chunk())
                    loop.advance(agreed(int(steps)))
                if loop.ledger.iteration % log_every == 0:
                    loop.log()
                    is_done = course.is_stopped(loop) | course.is_over(loop)
                    is_done = agreed(is_done)
                    last_save = _save_if_due(loop, course, last_save)
                if course.reporter is not None:
                    _report(loop, course.reporter, limits, is_first_chunk)
                is_first_chunk = False
            else:
                loop.log()
        # Not kept: what continues logs where it would have logged anyway.
        loop.log()
        loop.warn_of_outside()
        loop.warn_of_refused()
        return interrupt.pending


def _is_true(answer: Any) -> bool:
    # Callbacks may return anything, the number of characters written, say.
    return isinstance(answer, (bool, np.bool_, jax.Array)) and bool(answer)


def _save_if_due(loop: Loop, course: Course, last_save: float) -> float:
    """Save if it is time; when it was saved last."""
    is_due = time.perf_counter() - last_save >= course.checkpoint_every
    if course.folder and loop.program.spread.agreed(is_due):
        loop.save(course.folder)
        return time.perf_counter()
    return last_save


def _report(loop: Loop, reporter: Reporter, limits: Limits, is_first: bool) -> None:
    # The first call of a program may take much longer than the next ones.
    if not is_first:
        reporter.announce(limits.seconds_left(loop))
    reporter.update(limits.share_done(loop), loop.ledger.iteration, loop.latest())


@contextmanager
def _remembering(loop: Loop, folder: Path | None, resume: bool):
    """Have what is evaluated outside of JAX kept beside the checkpoint."""
    loop.program.remember(folder, resume)
    try:
        yield
    finally:
        loop.program.remember(None)


@contextmanager
def _keeping_last_state(loop: Loop, folder: Path | None):
    """Save a checkpoint at the end, after Ctrl-C or a failing callback too."""
    try:
        yield
    finally:
        if folder and loop.state is not None:
            loop.save(folder)
