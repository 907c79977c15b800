"""Run an algorithm: one seed, several in one program, or lanes of settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, overload

import numpy as np

from softqd.experiment import checkpoint
from softqd.experiment.checkpoint import CheckpointError
from softqd.experiment.drive import Course, Limits, drive
from softqd.experiment.files.lock import locked
from softqd.experiment.loop import LogPoint, Loop, NonFiniteError
from softqd.experiment.program import Lanes, Program
from softqd.experiment.reporter import Reporter
from softqd.experiment.result import Result
from softqd.ops.checks import check_count
from softqd.types import Algorithm, Population


@overload
def run(
    algorithm: Algorithm,
    seed: int = ...,
    num_iterations: int | None = ...,
    log_every: int = ...,
    *,
    max_evaluations: int | None = ...,
    max_seconds: float | None = ...,
    solutions: Any = ...,
    checkpoint_dir: str | Path | None = ...,
    checkpoint_every: float = ...,
    resume: bool = ...,
    progress: bool | Reporter = ...,
    callback: Callable[[LogPoint], None] | None = ...,
    measure: Callable[[Population], dict[str, float]] | None = ...,
    config: dict[str, Any] | None = ...,
) -> Result: ...
@overload
def run(
    algorithm: Algorithm,
    seed: Sequence[int],
    num_iterations: int | None = ...,
    log_every: int = ...,
    *,
    max_evaluations: int | None = ...,
    max_seconds: float | None = ...,
    solutions: Any = ...,
    checkpoint_dir: str | Path | None = ...,
    checkpoint_every: float = ...,
    resume: bool = ...,
    progress: bool | Reporter = ...,
    callback: Callable[[LogPoint], None] | None = ...,
    measure: Callable[[Population], dict[str, float]] | None = ...,
    config: dict[str, Any] | None = ...,
) -> list[Result]: ...
def run(
    algorithm: Algorithm,
    seed: int | Sequence[int] = 0,
    num_iterations: int | None = 1000,
    log_every: int = 10,
    *,
    max_evaluations: int | None = None,
    max_seconds: float | None = None,
    solutions: Any = None,
    checkpoint_dir: str | Path | None = None,
    checkpoint_every: float = 10.0,
    resume: bool = False,
    progress: bool | Reporter = False,
    callback: Callable[[LogPoint], None] | None = None,
    measure: Callable[[Population], dict[str, float]] | None = None,
    config: dict[str, Any] | None = None,
) -> Result | list[Result]:
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
        InUseError: If another process runs into ``checkpoint_dir``.
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
    limits = Limits(num_iterations, max_evaluations, max_seconds)
    _check_arguments(seeds, limits, log_every)
    if callback is not None and is_many:
        raise ValueError("callback works with a single seed; got a sequence of seeds")
    folder = Path(checkpoint_dir) if checkpoint_dir is not None else None
    if folder and checkpoint.exists(folder) and not resume:
        raise CheckpointError(
            f"{folder} already holds a checkpoint; pass resume=True to continue it, or "
            "use another folder"
        )
    loop = Loop(
        Program(algorithm, Lanes(seeds, is_single=not is_many)), config, measure
    )
    held = locked(folder) if folder else nullcontext()
    with held, _reporter(progress) as reporter:
        course = Course(limits, log_every, folder, checkpoint_every, reporter, callback)
        drive(loop, course, solutions, resume)
    results = [result for result in loop.results() if isinstance(result, Result)]
    return results if is_many else results[0]


def run_lanes(
    algorithm: Algorithm,
    lanes: Lanes,
    course: Course,
    config: dict[str, Any],
    measure: Callable[[Population], dict[str, float]] | None = None,
) -> list[Result | NonFiniteError]:
    """Run lanes of one algorithm together, continuing what their folder holds.

    Args:
        algorithm: What to run; its ``init`` takes a key, and a row of the lanes'
            numbers where they have some.
        lanes: The runs.
        course: Limits and habits.
        config: Recorded, and compared before resuming.
        measure: Numbers of a population for the history.

    Returns:
        A `Result` or a `NonFiniteError` for each lane: one that fails leaves the others
        alone.
    """
    loop = Loop(Program(algorithm, lanes), config, measure, goes_on=True)
    drive(loop, course, resume=True)
    return loop.results()


@contextmanager
def _reporter(progress: bool | Reporter) -> Iterator[Reporter | None]:
    """The user's reporter, or a progress bar for the length of a run."""
    if progress is not True:
        yield progress or None
        return
    from softqd.experiment.progress import ProgressBar  # loads rich

    with ProgressBar() as bar:
        yield bar


def _check_arguments(seeds: list[int], limits: Limits, log_every: int) -> None:
    if not seeds:
        raise ValueError("seed is an empty sequence; give at least one seed")
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seed holds duplicates: {seeds}")
    check_count("log_every", log_every, 1)
    for name in ("num_iterations", "max_evaluations"):
        if getattr(limits, name) is not None:
            check_count(name, getattr(limits, name), 0)
    if limits.max_seconds is not None and not limits.max_seconds >= 0:
        raise ValueError(f"max_seconds must be at least 0; got {limits.max_seconds!r}")
    if limits == Limits():
        raise ValueError(
            "nothing ends this run: give num_iterations, max_evaluations or max_seconds"
        )
