"""Problems that are plain Python on NumPy arrays: simulators, processes, clusters."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, PyTree

from softqd.experiment.files.archive import write_arrays
from softqd.interop._executors import (
    Crew,
    LostError,
    RaisedError,
    check_sendable,
    is_executor,
    processes,
)
from softqd.interop._journal import Journal
from softqd.interop._problem import drawn_by, one_drawn, outside_problem, stated_dim
from softqd.ops.checks import check_count
from softqd.ops.outside import Door, door_of
from softqd.types import Problem, named_leaves

__all__ = ["EvaluationError", "executing", "problem", "processes"]

# What problems without an executor of their own use, the last one first.
_default: list[Any] = []


class EvaluationError(Exception):
    """An evaluation that raised, or that no worker came back from.

    Attributes:
        solution: The one that was evaluated.
        path: Where it is saved, as an ``.npz`` file.
    """

    def __init__(self, message: str, solution: PyTree, path: Path):
        super().__init__(message)
        self.solution, self.path = solution, path


def problem(
    evaluate: Callable[..., Any],
    sample: Callable[[np.random.Generator], Any] | None = None,
    behavior_bounds: Any = None,
    executor: Any = None,
    timeout: float | None = None,
    retries: int = 1,
    *,
    behavior_dim: int | None = None,
    is_differentiable: bool | None = None,
    name: str | None = None,
    **fields: Any,
) -> Problem:
    """A problem whose ``evaluate`` is plain Python on NumPy arrays.

    Every algorithm that does without gradients runs on it, with checkpoints, several
    seeds and comparisons. Evaluations that were made since the last checkpoint are kept
    in a journal beside it, so that none is made twice after the process was killed.

    Args:
        evaluate: One solution to ``(quality, behavior)``, a number and an array
            ``(d,)``; NaN where it failed. A stochastic one takes a
            `numpy.random.Generator` too.
        sample: Draws one solution, any pytree of arrays. None: runs are given theirs.
        behavior_bounds: As in `softqd.Problem`.
        executor: Where evaluations are made, whole batches at once: a
            `concurrent.futures.Executor`, such as `processes` opens, or a
            `dask.distributed.Client`. None: here, one after the other.
        timeout: Longest seconds that one evaluation may take; looked at where nothing
            has come back for so long. Needs an executor.
        retries: How often a solution is handed out again whose worker died or hung.
        behavior_dim: Number of behavior dimensions. None: as bounds with one value per
            dimension say, else one solution is evaluated to find it out.
        is_differentiable: False: `softqd.squad` goes on with children alone without
            saying so.
        name: Of the problem; by default that of ``evaluate``.
        **fields: Others of `softqd.Problem`.

    Raises:
        ValueError: If an argument cannot be used.

    Examples:
        >>> import numpy as np, softqd
        >>> def evaluate(x):
        ...     return 10 - float(np.sum(x**2)), np.tanh(x[:2])
        >>> problem = softqd.interop.host.problem(
        ...     evaluate, lambda rng: rng.normal(size=3), behavior_bounds=(-1, 1))
        >>> algorithm = softqd.dns(problem, population_size=16, batch_size=8)
        >>> result = softqd.run(algorithm, num_iterations=5)
        >>> result.history["evaluations"][-1].item()
        56
    """
    _check_arguments(evaluate, executor, timeout, retries, is_differentiable)
    is_stochastic = _num_required(evaluate) >= 2
    door = _HostDoor(evaluate, executor, timeout, retries)
    door.behavior_dim = stated_dim(
        behavior_dim, behavior_bounds, lambda: door.first_dim(sample, is_stochastic)
    )
    if sample is not None:
        door.sample = drawn_by(sample)
    return outside_problem(
        door,
        None if sample is None else one_drawn(sample),
        door.behavior_dim,
        name=name or getattr(evaluate, "__name__", "problem"),
        is_stochastic=is_stochastic,
        behavior_bounds=behavior_bounds,
        is_differentiable=is_differentiable,
        **fields,
    )


@contextmanager
def executing(executor: Any) -> Iterator[None]:
    """Have problems without an executor of their own use this one.

    Args:
        executor: As `problem` takes it.
    """
    _default.append(executor)
    try:
        yield
    finally:
        _default.pop()


def takes_workers(problem: Problem) -> bool:
    """Whether a problem is evaluated as `executing` says."""
    door = door_of(problem)
    return isinstance(door, _HostDoor) and door.executor is None


class _HostDoor(Door):
    """Evaluates solutions as NumPy arrays, here or by workers."""

    def __init__(
        self, function: Callable, executor: Any, timeout: float | None, retries: int
    ):
        super().__init__(self._evaluate)
        self._function, self.executor = function, executor
        self._limits = timeout, retries
        self._crew: tuple[Any, Crew] | None = None
        self._folder: Path | None = None
        self._journal: Journal | None = None
        self.behavior_dim: Callable[[], int]

    def first_dim(self, sample: Callable | None, is_stochastic: bool) -> int:
        """The number of behavior dimensions, by evaluating one solution."""
        if sample is None:
            raise ValueError(
                "how many behavior dimensions there are is not known without sample=; "
                "give behavior_dim="
            )
        generators = (np.random.default_rng(0),) if is_stochastic else ()
        found: list[Any] = []
        task = (one_drawn(sample), *generators)
        self._run([task], None, lambda _, value: found.append(value))
        return len(found[0][1])

    def remember(self, folder: Path | None, is_resumed: bool = False) -> None:
        """Keep a journal in a folder from now on; None: nowhere."""
        self._folder = folder
        self._journal = None if folder is None else Journal(folder, is_resumed)

    def saved(self) -> None:
        """A checkpoint was written: the journal begins anew."""
        if self._journal is not None:
            self._journal.clear()

    def _evaluate(
        self, solutions: PyTree, words: tuple
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n d"]]:
        leaves, structure = jax.tree.flatten(solutions)
        rows = list(zip(*map(np.array, (*leaves, *words)), strict=True))
        quality, dim = np.full(len(rows), np.nan), self.behavior_dim()
        behavior = np.full((len(rows), dim), np.nan)
        missing = []
        for i, row in enumerate(rows):
            known = self._journal.take(row) if self._journal else None
            if known is None:
                missing.append(i)
            else:
                quality[i], behavior[i] = known

        def task(row: tuple[np.ndarray, ...]) -> tuple:
            solution = jax.tree.unflatten(structure, row[: len(leaves)])
            seeds = [word.tolist() for word in row[len(leaves) :]]
            return (solution, *map(np.random.default_rng, seeds))

        def enter(k: int, value: Any) -> None:
            i = missing[k]
            quality[i], behavior[i] = value
            if self._journal is not None:
                self._journal.write(rows[i], float(quality[i]), behavior[i])

        self._run([task(rows[i]) for i in missing], dim, enter)
        return quality, behavior

    def _run(self, tasks: list[tuple], dim: int | None, on_done: Callable) -> None:
        """Call the function for every task, here or by workers."""

        def checked(i: int, value: Any) -> None:
            try:
                found = _checked(value, dim)
            except ValueError as error:
                raise RaisedError(i) from error
            on_done(i, found)

        try:
            executor = self.executor or (_default[-1] if _default else None)
            if executor is None:
                self._run_here(tasks, checked)
                return
            if self._crew is None or self._crew[0] is not executor:
                check_sendable(executor, self._function)
                self._crew = executor, Crew(executor, *self._limits)
            self._crew[1].run(self._function, tasks, checked)
        except RaisedError as error:
            cause = error.__cause__
            text = f"evaluate failed with {type(cause).__name__}: {cause}"
            raise self._failure(text, tasks[error.index]) from cause
        except LostError as error:
            text = f"evaluate {error}, {1 + self._limits[1]} times and alone"
            raise self._failure(text, tasks[error.index]) from None

    def _run_here(self, tasks: list[tuple], on_done: Callable) -> None:
        for i, task in enumerate(tasks):
            try:
                value = self._function(*task)
            except Exception as error:
                raise RaisedError(i) from error
            on_done(i, value)

    def _failure(self, text: str, task: tuple) -> EvaluationError:
        folder = self._folder or Path(tempfile.mkdtemp(prefix="softqd-"))
        path = folder / "failed_solution.npz"
        write_arrays(path, dict(named_leaves(task[0], "solution")))
        return EvaluationError(f"{text}; its solution is in {path}", task[0], path)


def _checked(value: Any, dim: int | None) -> tuple[float, np.ndarray]:
    """What evaluate returned, if it can be used.

    Raises:
        ValueError: If it cannot.
    """
    wanted = f"(quality, behavior), a number and an array ({dim or 'd'},)"
    try:
        quality, behavior = value
        quality, behavior = np.asarray(quality, float), np.asarray(behavior, float)
    except (TypeError, ValueError):
        raise ValueError(
            f"evaluate must return {wanted}; got {type(value).__name__}"
        ) from None
    fits = behavior.ndim == 1 and behavior.size and dim in (None, behavior.size)
    if quality.ndim or not fits:
        raise ValueError(
            f"evaluate must return {wanted}; got shapes {quality.shape} and "
            f"{behavior.shape}"
        )
    return float(quality), behavior


def _num_required(function: Callable) -> int:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    return sum(p.kind in kinds and p.default is p.empty for p in parameters)


def _check_arguments(
    evaluate: Any, executor: Any, timeout: Any, retries: Any, is_differentiable: Any
) -> None:
    if not callable(evaluate):
        raise ValueError(
            "evaluate must be a function of one solution that returns (quality, "
            f"behavior); got {type(evaluate).__name__}"
        )
    if executor is not None and not is_executor(executor):
        raise ValueError(
            "executor must be a concurrent.futures.Executor or a "
            f"dask.distributed.Client; got {type(executor).__name__}. "
            "softqd.interop.host.processes(8) opens eight worker processes"
        )
    check_count("retries", retries, 0)
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout must be a positive number of seconds; got {timeout}")
    if timeout is not None and executor is None and not _default:
        raise ValueError(
            "timeout needs an executor: what runs here cannot be stopped. Pass "
            "executor=softqd.interop.host.processes(1)"
        )
    if is_differentiable:
        raise ValueError(
            "a function of NumPy arrays has no gradient; leave is_differentiable=True "
            "out, or use softqd.interop.torch.problem or AskTell"
        )
