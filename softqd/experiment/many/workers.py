"""Groups of seeds in processes of their own, on the CPU.

A worker is a fresh Python that calls `main`: it reads what to run as JSON from
standard input and writes events, one JSON line each, to standard output. A crash of
one worker fails its own runs alone, and scripts and notebooks need no guard. Standard
input stays open as long as the parent lives: when it closes, the worker keeps its
checkpoint and ends.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO

from softqd.experiment import config as configs
from softqd.experiment.many.group import Emit, Event, Group, run_group
from softqd.experiment.many.plan import Method
from softqd.experiment.signals import handling, raise_interrupt


def run_tasks(out: Path, groups: Sequence[Group], jobs: int, emit: Emit) -> None:
    """Run groups, of one method each, in up to ``jobs`` processes at once.

    Ctrl-C is passed on to the workers, which keep their checkpoints, and raised when
    they have ended.
    """
    pool = _Pool(out, emit)
    with ThreadPoolExecutor(jobs) as threads:
        futures = [threads.submit(pool.work, group) for group in groups]
        try:
            with handling(raise_interrupt):
                for future in futures:
                    future.result()
        except KeyboardInterrupt:
            pool.stop()
            threads.shutdown(cancel_futures=True)
            raise


class _Pool:
    def __init__(self, out: Path, emit: Emit):
        self._out, self._emit = out, emit
        self._workers: list[subprocess.Popen] = []
        self._is_stopped = False

    def work(self, group: Group) -> None:
        """Run one group in a new process, passing its events on."""
        if self._is_stopped:
            return
        with tempfile.TemporaryFile("w+") as errors, self._start(errors) as worker:
            left = self._follow(worker, group)
            status = worker.wait()
            with suppress(BrokenPipeError):  # what it did not read
                worker.stdin.close()  # pyright: ignore[reportOptionalMemberAccess]
            errors.seek(0)
            lines = errors.read().strip().splitlines() or [""]
        if left and not self._is_stopped:
            message = f"its process ended with status {status} {lines[-1]}".strip()
            self._emit(Event(group.methods[0].name, sorted(left), 1.0, message))

    def _start(self, errors: IO[str]) -> subprocess.Popen:
        worker = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C reaches it through `stop`, once
        )
        self._workers.append(worker)
        return worker

    def _follow(self, worker: subprocess.Popen, group: Group) -> set[int]:
        """Tell the worker what to run, emit what it tells; the seeds it left open."""
        assert worker.stdin and worker.stdout  # noqa: PT018 (pipes, as asked for)
        (method,) = group.methods
        spec = {"out": str(self._out), "seeds": group.seeds}
        spec |= {"name": method.name, "config": method.config, "curves": method.curves}
        left = set(group.seeds)
        with suppress(BrokenPipeError):  # it ended already
            worker.stdin.write(json.dumps(spec) + "\n")
            worker.stdin.flush()
        for line in worker.stdout:
            event = Event(*json.loads(line))
            if event.share == 1.0:
                left -= set(event.seeds)
            self._emit(event)
        return left

    def stop(self) -> None:
        """Interrupt every worker, once."""
        self._is_stopped = True
        for worker in self._workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGINT)


def _end_with_parent() -> None:
    """Wait until the parent is gone, then do as after Ctrl-C."""
    while os.read(0, 1024):  # not sys.stdin, whose lock would outlive this thread
        pass
    os.kill(os.getpid(), signal.SIGINT)


def main() -> None:
    """The worker: run what standard input says."""
    # Programs started in the background ignore it, and so would we.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, raise_interrupt)
    spec = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    config = spec["config"]
    problem, algorithm = configs.build(config)
    method = Method(spec["name"], config, algorithm, curves=spec["curves"])
    channel, sys.stdout = sys.stdout, sys.stderr  # a user's print is not an event

    def emit(event: Event) -> None:
        with suppress(BrokenPipeError):  # no one listens any more
            channel.write(json.dumps(event) + "\n")
            channel.flush()

    try:
        run_group(Path(spec["out"]), Group([method], spec["seeds"], problem), emit)
    except KeyboardInterrupt:
        os._exit(130)  # an interrupted compilation may crash while Python ends
