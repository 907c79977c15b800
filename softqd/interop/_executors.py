"""Hand evaluations to the workers of an executor, and outlive those that fail."""

from __future__ import annotations

import functools
import queue
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
)
from multiprocessing import get_context
from multiprocessing.reduction import ForkingPickler
from typing import Any

# Raised by what runs evaluations, not by them; Dask's own errors are another kind.
# Ctrl-C in a terminal reaches worker processes too.
_LOST = (BrokenExecutor, CancelledError, KeyboardInterrupt)


def processes(workers: int) -> ProcessPoolExecutor:
    """A pool of worker processes that is safe beside JAX, which has threads.

    Ctrl-C is for the run: workers finish what they are at.

    Args:
        workers: How many.
    """
    return ProcessPoolExecutor(
        workers,
        mp_context=get_context("forkserver"),
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_IGN),
    )


def check_sendable(executor: Any, function: Callable) -> None:
    """Refuse a function that worker processes cannot be handed.

    Raises:
        ValueError: If they could not find it.
    """
    if not isinstance(executor, ProcessPoolExecutor):
        return  # threads share it, and Dask sends the code
    why = "it is not in a file that they can import"
    try:
        ForkingPickler.dumps(function)
        while isinstance(function, functools.partial):
            function = function.func
        is_typed = getattr(function, "__module__", "") == "__main__" and not hasattr(
            sys.modules["__main__"], "__file__"
        )
        if not is_typed or _context(executor).get_start_method() == "fork":
            return
    except Exception as error:  # of any kind, as functions are
        why = str(error)
    raise ValueError(
        f"evaluate cannot be handed to worker processes: {why}. Define it at the top "
        "of a module and import it, or use threads or Dask"
    )


def _context(pool: ProcessPoolExecutor) -> Any:
    return vars(pool)["_mp_context"]


class LostError(Exception):
    """A task that no worker came back from."""

    def __init__(self, index: int, why: str):
        super().__init__(why)
        self.index = index


class RaisedError(Exception):
    """A task that raised; its cause is what it raised."""

    def __init__(self, index: int):
        super().__init__(index)
        self.index = index


class Crew:
    """Workers of an executor.

    Args:
        executor: As in `concurrent.futures`, or a `dask.distributed.Client`.
        timeout: Longest seconds for one task; None for any time.
        retries: How often tasks are handed out again whose worker died or hung.
    """

    def __init__(self, executor: Any, timeout: float | None, retries: int):
        # A Client's own way to look like an executor; equal tasks are not one.
        is_client = hasattr(executor, "get_executor")
        self._executor = executor.get_executor(pure=False) if is_client else executor
        self._timeout, self._retries = timeout, retries
        self._why = ""  # the last one was lost

    def run(
        self, function: Callable, tasks: Sequence[tuple], on_done: Callable
    ) -> None:
        """Call a function for every task, all at once.

        Args:
            function: To call.
            tasks: Its arguments.
            on_done: Called with a task's index and value as soon as it is there.

        Raises:
            RaisedError: If the function does.
            LostError: Naming a task that workers die of or hang in.
        """
        left: Sequence[int] = range(len(tasks))
        for _ in range(self._retries + 1):
            left = self._hand_out(function, tasks, left, on_done)
            if not left:
                return
        # Who is to blame is seen when nobody else is there.
        for i in left:
            if self._hand_out(function, tasks, [i], on_done):
                raise LostError(i, self._why)

    def _hand_out(
        self,
        function: Callable,
        tasks: Sequence[tuple],
        indices: Sequence[int],
        on_done: Callable,
    ) -> list[int]:
        """Those that got lost, in order."""
        done: queue.SimpleQueue[Future] = queue.SimpleQueue()
        waiting: dict[Future, int] = {}
        lost = set(indices)
        try:
            for i in indices:
                future = self._executor.submit(function, *tasks[i])
                waiting[future] = i
                future.add_done_callback(done.put)
        except BrokenExecutor as error:
            self._why = _words(error)
        try:
            while waiting:
                future = done.get(timeout=self._timeout)
                i = waiting.pop(future)
                error = _error_of(future)
                if error is None:
                    on_done(i, future.result())
                    lost.remove(i)
                elif _is_lost(error):
                    self._why = _words(error)
                else:
                    raise RaisedError(i) from error
        except queue.Empty:
            self._why = f"did not return within {self._timeout:g} seconds"
        finally:
            for future in waiting:
                future.cancel()
        if lost and isinstance(self._executor, ProcessPoolExecutor):
            self._executor = _reopened(self._executor)  # others mend themselves
        return sorted(lost)


def _reopened(pool: ProcessPoolExecutor) -> ProcessPoolExecutor:
    """A new pool in place of one that is broken or hangs; its workers are ended."""
    how = vars(pool)
    workers = list((how["_processes"] or {}).values())
    new = ProcessPoolExecutor(
        how["_max_workers"],
        *(how[name] for name in ("_mp_context", "_initializer", "_initargs")),
        max_tasks_per_child=how["_max_tasks_per_child"],
    )
    for process in workers:
        process.kill()
    pool.shutdown(wait=False, cancel_futures=True)
    return new


def _words(error: BaseException) -> str:
    return f"ended its worker ({type(error).__name__}: {error})"


def _error_of(future: Future) -> BaseException | None:
    try:
        return future.exception()
    except CancelledError as error:
        return error


def _is_lost(error: BaseException) -> bool:
    is_dask = type(error).__module__.split(".")[0] == "distributed"
    return is_dask or isinstance(error, _LOST)


def is_executor(found: Any) -> bool:
    """Whether this can run evaluations."""
    return isinstance(found, Executor) or any(
        callable(getattr(found, name, None)) for name in ("get_executor", "submit")
    )
