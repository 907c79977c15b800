"""Run an algorithm: one seed, several in one program, or lanes of settings."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal, overload

import jax
import numpy as np
from jax.sharding import Mesh

from softqd.experiment import checkpoint
from softqd.experiment.checkpoint import CheckpointError
from softqd.experiment.drive import Course, Limits, drive
from softqd.experiment.files.lock import locked
from softqd.experiment.loop import LogPoint, Loop, NonFiniteError
from softqd.experiment.program import Lanes, program_of
from softqd.experiment.reporter import Reporter
from softqd.experiment.result import Result
from softqd.experiment.signals import raise_interrupt, signal_of
from softqd.experiment.spread import mesh_of
from softqd.ops.checks import check_count
from softqd.ops.seeds import check_seed, check_seeds
from softqd.types import Algorithm, Population

# Of a run that nothing else ends.
DEFAULT_ITERATIONS = 1000


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a run; what it found so far comes along.

    Attributes:
        result: The `Result`, or a list of them if the run had several seeds.
        signal: SIGINT; SIGTERM where a program handles that like Ctrl-C.
    """

    def __init__(
        self,
        result: Result | list[Result],
        iteration: int,
        number: int = signal.SIGINT,
    ):
        super().__init__(
            f"the run was interrupted after iteration {iteration}; its result so far "
            "is the attribute 'result' of this exception"
        )
        self.result, self.signal = result, number


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
    callback: Callable[[LogPoint], Any] | None = ...,
    stop_when: Callable[[LogPoint], bool] | None = ...,
    measure: Callable[[Population], dict[str, float]] | None = ...,
    mesh: Mesh | Literal["all"] | None = ...,
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
    callback: Callable[[LogPoint], Any] | None = ...,
    stop_when: Callable[[LogPoint], bool] | None = ...,
    measure: Callable[[Population], dict[str, float]] | None = ...,
    mesh: Mesh | Literal["all"] | None = ...,
    config: dict[str, Any] | None = ...,
) -> list[Result]: ...
def run(
    algorithm: Algorithm,
    seed: int | Sequence[int] = 0,
    num_iterations: int | None = None,
    log_every: int = 10,
    *,
    max_evaluations: int | None = None,
    max_seconds: float | None = None,
    solutions: Any = None,
    checkpoint_dir: str | Path | None = None,
    checkpoint_every: float = 10.0,
    resume: bool = False,
    progress: bool | Reporter = False,
    callback: Callable[[LogPoint], Any] | None = None,
    stop_when: Callable[[LogPoint], bool] | None = None,
    measure: Callable[[Population], dict[str, float]] | None = None,
    mesh: Mesh | Literal["all"] | None = None,
    config: dict[str, Any] | None = None,
) -> Result | list[Result]:
    """Run an algorithm and return its `Result`.

    The run ends at whichever limit comes first, after 1000 iterations where nothing
    ends it. It is the same, bit for bit, whatever ``log_every`` is and however often it
    was interrupted and resumed; on a GPU, where compilers choose kernels by trying them
    out, as long as it stays in one process.

    Ctrl-C ends a run when its iteration is done, a second one at once. In a notebook or
    at a prompt its result so far is returned, and says ``interrupted``; a script gets
    `Interrupted`.

    Args:
        algorithm: What to run.
        seed: One seed, or several that advance together in one compiled program:
            whole numbers from 0 to 2**64 - 1, no two of which are the same run.
        num_iterations: Most iterations.
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
        callback: Called with a `LogPoint` at every log point, of several seeds once
            for each. The run stops where it returns True, for every seed.
        stop_when: Asked with a `LogPoint` at the start, also of a run that is resumed,
            and at every log point. The run stops where it is true, for every seed.
            `softqd.stop` has conditions.
        measure: Numbers of a population, the same names every time, that the history
            gets as further columns.
        mesh: Devices over which the rows of the population are spread: "all", or a
            `jax.sharding.Mesh`; None for one device. The population is the same up to
            rounding. Its size must be a multiple of their number.
        config: Recorded in the result, and compared before resuming.

    Returns:
        A `Result`, or a list of them if ``seed`` is a sequence.

    Raises:
        Interrupted: After Ctrl-C, with the result so far; not in a notebook.
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
    is_many = np.ndim(seed) > 0
    wanted: Any = seed
    seeds = check_seeds(list(wanted), "seed") if is_many else [check_seed(seed)]
    limits = Limits(num_iterations, max_evaluations, max_seconds)
    _check_arguments(limits, log_every)
    if limits == Limits() and stop_when is None:
        limits = Limits(num_iterations=DEFAULT_ITERATIONS)
    folder = Path(checkpoint_dir) if checkpoint_dir is not None else None
    if folder and checkpoint.exists(folder) and not resume:
        raise CheckpointError(
            f"{folder} already holds a checkpoint; pass resume=True to continue it, or "
            "use another folder"
        )
    devices, lanes = mesh_of(mesh), Lanes(seeds, is_single=not is_many)
    program = program_of(algorithm, lanes, devices)
    loop = Loop(program, config, measure)
    is_writer = program.spread.is_writer
    held = locked(folder) if folder and is_writer else nullcontext()
    in_use = nullcontext() if devices is None else jax.set_mesh(devices)
    with held, in_use, _reporter(progress if is_writer else False) as reporter:
        course = Course(
            *(limits, log_every, folder, checkpoint_every),
            *(reporter, callback, stop_when),
        )
        try:
            stopped_by = drive(loop, course, solutions, resume)
        except KeyboardInterrupt as error:  # the second one, amid an iteration
            if not loop.regain():
                raise
            stopped_by = signal_of(error)
        found = loop.results(bool(stopped_by))
    results = [result for result in found if isinstance(result, Result)]
    result = results if is_many else results[0]
    # Where statements are typed one by one, Python has prompts, and IPython too.
    if stopped_by and not hasattr(sys, "ps1"):
        raise Interrupted(result, loop.ledger.iteration, stopped_by)
    return result


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
    loop = Loop(program_of(algorithm, lanes), config, measure, goes_on=True)
    if number := drive(loop, course, resume=True):
        raise_interrupt(number)
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


def _check_arguments(limits: Limits, log_every: int) -> None:
    check_count("log_every", log_every, 1)
    for name in ("num_iterations", "max_evaluations"):
        if getattr(limits, name) is not None:
            check_count(name, getattr(limits, name), 0, np.inf)
    if limits.max_seconds is not None and not limits.max_seconds >= 0:
        raise ValueError(f"max_seconds must be at least 0; got {limits.max_seconds!r}")
