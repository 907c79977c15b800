"""One process at a time in a folder.

The lock is a file that says whose it is: process, host, time. Its owner touches it
every 15 seconds. A lock is stale if its process is gone, where that can be seen, and
else if nobody touched it for two minutes: after a crash, or on another host.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from softqd.experiment.files.schema import PLAIN, FileError, read_json
from softqd.experiment.files.whole import remove_leftovers

LOCK_FILE = ".softqd-lock"
BEAT_SECONDS = 15.0
STALE_SECONDS = 120.0
_OWNER = {"process": int, "began": str, "place": str, "host": str, "since": str}


class InUseError(ValueError):
    """A folder that another process writes to."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder, which is made; leftovers of those who were killed are removed.

    Raises:
        InUseError: If another process, or this one, holds it.
        OSError: If it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, me = folder / LOCK_FILE, _me()
    with _alone(folder):
        _take(path, me)
    done = threading.Event()
    beat = threading.Thread(target=_beat, args=(path, done), daemon=True)
    beat.start()
    try:
        remove_leftovers(folder)
        yield
    finally:
        done.set()
        beat.join()
        if _owner(path) == me:
            path.unlink(missing_ok=True)


def _take(path: Path, me: dict[str, Any]) -> None:
    if path.is_symlink() or path.exists():
        owner = _owner(path)
        if not _is_stale(path, owner):
            who = owner or {"process": "?", "host": "?", "since": "?"}
            raise InUseError(
                f"{path.parent} is in use by process {who['process']} on "
                f"{who['host']} since {who['since']}; wait for it or use another "
                f"folder. If that process is gone, remove {path}"
            )
        path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        handle = os.open(path, flags, 0o666)
    except FileExistsError:
        raise InUseError(
            f"{path.parent} was taken by another process just now; use another folder"
        ) from None
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(me, file)
    except OSError as error:  # an empty lock would look like that of another
        path.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep others on this machine from looking at a lock while it is taken.

    Two that find the same stale lock would both replace it.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # not every file system can
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _beat(path: Path, done: threading.Event) -> None:
    while not done.wait(BEAT_SECONDS):
        with suppress(OSError):
            os.utime(path)


def _me() -> dict[str, Any]:
    return {
        "process": os.getpid(),
        "began": _began(os.getpid()) or "",
        "place": _place(),
        "host": socket.gethostname(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def _owner(path: Path) -> dict[str, Any] | None:
    """Whose a lock is; None where that is not written, or not yet."""
    try:
        return read_json(path, {**_OWNER, "...": PLAIN})
    except FileError:
        return None


def _is_stale(path: Path, owner: dict[str, Any] | None) -> bool:
    if owner and owner["place"] == _place() and owner["began"]:
        return _began(owner["process"]) != owner["began"]
    return _age(path) > STALE_SECONDS


def _age(path: Path) -> float:
    """Seconds since a lock was touched, by the clock of its file system."""
    with tempfile.TemporaryFile(dir=path.parent) as probe:
        now = os.fstat(probe.fileno()).st_mtime
    try:
        return now - path.lstat().st_mtime
    except FileNotFoundError:  # it was given back just now
        return STALE_SECONDS + 1


def _place() -> str:
    """Where process numbers mean the same: this start of this machine, this container.

    Empty where that cannot be told.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _began(process: int) -> str | None:
    """When a process was started; None if it is gone."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    # The name of the program is in brackets and may hold anything.
    state, *rest = stat.rpartition(")")[2].split()
    return None if state in "ZX" else rest[18]
