"""The one loop: advance on the device, come back to log, checkpoint and check."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import PyTree

from softqd.experiment import checkpoint
from softqd.experiment.checkpoint import CheckpointError
from softqd.experiment.loop import LogPoint, Loop
from softqd.experiment.progress import ProgressBar, Reporter
from softqd.ops.checks import check_count
from softqd.types import Algorithm, Population


def run(
    algorithm: Algorithm,
    seed: int | Sequence[int] = 0,
    num_iterations: int | None = 1000,
    log_every: int = 10,
    *,
    max_evaluations: int | None = None,
    max_seconds: float | None = None,
    solutions: PyTree | None = None,
    checkpoint_dir: str | Path | None = None,
    checkpoint_every: float = 10.0,
    resume: bool = False,
    progress: bool | Reporter = False,
    callback: Callable[[LogPoint], None] | None = None,
    measure: Callable[[Population], dict[str, float]] | None = None,
    config: dict[str, Any] | None = None,
) -> Any:
    """Run an algorithm and return its `Result`.

    The run ends at whichever limit comes first. It is the same, bit for bit, whatever
    ``log_every`` is and however often it was interrupted and resumed; on a GPU, where
    compilers choose kernels by trying them out, as long as it stays in one process.

    Args:
        algorithm: What to run.
        seed: One seed, or several that advance together in one compiled program.
        num_iterations: Most iterations; None for no limit.
        log_every: Iterations between log points.
        max_evaluations: Most evaluations, initialization included: no iteration is
            begun that would exceed it.
        max_seconds: Most seconds, looked at about twice a second.
        solutions: First solutions, leading axis ``n``, instead of random ones.
        checkpoint_dir: Folder for the checkpoint; None for none.
        checkpoint_every: Least seconds between two checkpoints. The last state is
            always saved, after Ctrl-C too.
        resume: Continue from the checkpoint if there is one.
        progress: Show a progress bar, or tell this `Reporter` instead.
        callback: Called with a `LogPoint` at every log point (single seed only).
        measure: Numbers of a population, the same names every time, that the history
            gets as further columns.
        config: Recorded in the result, and compared before resuming.

    Returns:
        A `Result`, or a list of them if ``seed`` is a sequence.

    Raises:
        NonFiniteError: Naming iteration and solution; the last checkpoint is kept.
        CheckpointError: If the checkpoint is damaged, of another run, or there without
            ``resume``.
        ValueError: If an argument or the first population cannot be used.

    Examples:
        >>> import softqd
        >>> problem = softqd.problems.sphere(solution_dim=16)
        >>> algorithm = softqd.squad(problem, population_size=32)
        >>> result = softqd.run(algorithm, seed=1, num_iterations=20)
        >>> result.history["evaluations"][-1].item()  # 5 * 32 + 20 * (32 + 4)
        880
    """
    is_many = not isinstance(seed, (int, np.integer))
    seeds = [int(s) for s in seed] if is_many else [int(seed)]
    _check_arguments(seeds, num_iterations, log_every, max_evaluations, max_seconds)
    if callback is not None and is_many:
        raise ValueError("callback works with a single seed; got a sequence of seeds")
    loop = Loop(algorithm, seeds, is_many, config, measure=measure)
    folder = Path(checkpoint_dir) if checkpoint_dir is not None else None
    if folder and checkpoint.exists(folder) and not resume:
        raise CheckpointError(
            f"{folder} already holds a checkpoint; pass resume=True to continue it, or "
            "use another folder"
        )
    limits = _Limits(num_iterations, max_evaluations, max_seconds)
    own_bar = ProgressBar() if progress is True else None
    bar = own_bar or progress or None
    with own_bar or nullcontext(), _DeferredInterrupt() as interrupt:
        resume_from = folder if resume else None
        loop.start(solutions, resume_from, num_iterations, max_evaluations)
        options = (log_every, folder, checkpoint_every, bar, callback)
        _drive(loop, limits, interrupt, *options)
    return loop.results() if is_many else loop.results()[0]


def run_lanes(
    algorithm: Algorithm,
    seeds: Sequence[int],
    lanes: PyTree,
    *,
    max_evaluations: int,
    log_every: int,
    checkpoint_dir: Path,
    progress: Reporter,
    config: dict[str, Any],
) -> list[Any]:
    """Run lanes of one algorithm together, continuing what ``checkpoint_dir`` holds.

    Args:
        algorithm: Its ``init`` takes a key and a row of ``lanes``.
        seeds: One per lane.
        lanes: Leading axis: one row per lane.
        max_evaluations: Of each lane.
        log_every: Iterations between log points.
        checkpoint_dir: Folder for the checkpoint.
        progress: Told how far the lanes are.
        config: Compared before resuming.

    Returns:
        A `Result` or a `NonFiniteError` for each lane: one that fails leaves the others
        alone.
    """
    loop = Loop(algorithm, list(seeds), True, config, lanes=lanes)
    limits = _Limits(None, max_evaluations, None)
    with _DeferredInterrupt() as interrupt:
        loop.start(None, checkpoint_dir, max_evaluations=max_evaluations)
        options = (log_every, checkpoint_dir, 10.0, progress, None)
        _drive(loop, limits, interrupt, *options)
    return loop.results()


class _Limits(NamedTuple):
    num_iterations: int | None
    max_evaluations: int | None
    max_seconds: float | None

    def steps_left(self, loop: Loop) -> float:
        """Iterations that may still be begun."""
        if len(loop.failures) == len(loop.seeds):  # no lane is left
            return 0
        left = math.inf
        if self.num_iterations is not None:
            left = self.num_iterations - loop.iteration
        if self.max_evaluations is not None:
            spare = self.max_evaluations - loop.evaluations
            left = min(left, spare // max(1, loop.evaluations_per_step))
        if self.max_seconds is not None and loop.seconds >= self.max_seconds:
            return 0
        return left

    def seconds_left(self, loop: Loop) -> float:
        """About how long the run will go on."""
        seconds = self.steps_left(loop) * loop.seconds_per_step
        if self.max_seconds is not None:
            seconds = min(seconds, self.max_seconds - loop.seconds)
        return seconds

    def share_done(self, loop: Loop) -> float:
        """How far the run is towards its nearest limit, from 0 to 1."""
        spent = (loop.iteration, loop.evaluations, loop.seconds)
        return max(
            min(1.0, now / limit) if limit else 1.0
            for now, limit in zip(spent, self, strict=True)
            if limit is not None
        )


class _DeferredInterrupt:
    """Holds Ctrl-C back until the state is whole; a second one is immediate."""

    def __enter__(self):
        self.is_pending = False
        self._is_installed = threading.current_thread() is threading.main_thread()
        if self._is_installed:
            self._previous = signal.getsignal(signal.SIGINT)
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *exception):
        if self._is_installed:
            signal.signal(signal.SIGINT, self._previous)

    def _note(self, *_):
        self.is_pending = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def check(self) -> None:
        """Raise the interrupt that was held back."""
        if self.is_pending:
            raise KeyboardInterrupt


def _drive(loop, limits, interrupt, log_every, folder, checkpoint_every, bar, callback):
    """Advance until a limit, logging, checkpointing and reporting on the way."""
    last_save = time.perf_counter()
    with _keeping_last_state(loop, folder):
        while (left := limits.steps_left(loop)) > 0:
            interrupt.check()
            to_log = log_every - loop.iteration % log_every
            if limits.max_evaluations is not None and not loop.evaluations_per_step:
                loop.advance_within(limits.max_evaluations)
            else:
                loop.advance(int(min(left, to_log, loop.steps_per_chunk())))
            if loop.iteration % log_every == 0:
                loop.log()
                if callback is not None:
                    callback(loop.log_point())
                if folder and time.perf_counter() - last_save >= checkpoint_every:
                    loop.save(folder)
                    last_save = time.perf_counter()
            if bar is not None:
                # The first call of a program may take much longer than the next ones.
                if loop.num_chunks > 1:
                    bar.announce(limits.seconds_left(loop))
                bar.update(limits.share_done(loop), loop.iteration, loop.latest())
        loop.log()


@contextmanager
def _keeping_last_state(loop: Loop, folder: Path | None):
    """Save a checkpoint at the end, after Ctrl-C or a failing callback too."""
    try:
        yield
    finally:
        if folder and loop.is_sound:
            loop.save(folder)


def _check_arguments(seeds, num_iterations, log_every, max_evaluations, max_seconds):
    if not seeds:
        raise ValueError("seed is an empty sequence; give at least one seed")
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seed holds duplicates: {seeds}")
    check_count("log_every", log_every, 1)
    if num_iterations is not None:
        check_count("num_iterations", num_iterations, 0)
    if max_evaluations is not None:
        check_count("max_evaluations", max_evaluations, 0)
    if max_seconds is not None and not max_seconds >= 0:
        raise ValueError(f"max_seconds must be at least 0; got {max_seconds!r}")
    if num_iterations is None and max_evaluations is None and max_seconds is None:
        raise ValueError(
            "nothing ends this run: give num_iterations, max_evaluations or max_seconds"
        )
