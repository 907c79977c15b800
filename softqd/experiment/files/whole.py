"""Files that appear whole or not at all.

A file is written beside its place under a name that nobody can guess, flushed to disk
and renamed. What a killed process leaves behind is recognized by its name.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

Content = str | bytes | Callable[[IO[bytes]], Any]
# Ours, and what earlier versions left beside checkpoints.
_LEFTOVER = re.compile(r"\.[0-9a-f]{16}\.softqd-part|\.state\.npz\.\d+")


def write_whole(path: str | Path, content: Content) -> Path:
    """Write a file so that it is never there in part; folders are made.

    Args:
        path: Its place. A link there is replaced, not followed.
        content: Text, bytes, or a function that writes to an open file.

    Raises:
        OSError: If it cannot be written, naming the file.
    """
    path = Path(path)
    write_together({path: content})
    return path


def write_together(
    files: Mapping[Path, Content], outdated: Iterable[Path] = ()
) -> None:
    """Write files that belong together: none is there before all are on disk.

    Args:
        files: Places to contents, in the order in which they appear.
        outdated: What is removed before the first of them appears.

    Raises:
        OSError: If one cannot be written, naming it; then all is as it was.
    """
    parts = {path: _part_beside(path) for path in files}
    try:
        for path, content in files.items():
            with _naming(path):
                _write(parts[path], content)
        for path in outdated:
            path.unlink(missing_ok=True)
        for path, part in parts.items():
            with _naming(path):
                os.replace(part, path)
    finally:
        for part in parts.values():
            with suppress(OSError):
                part.unlink()


def _part_beside(path: Path) -> Path:
    return path.with_name(f".{secrets.token_hex(8)}.softqd-part")


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def _write(part: Path, content: Content) -> None:
    """Write a new file to the disk; its folder is made."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    flags |= getattr(os, "O_BINARY", 0)
    part.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(part, flags, 0o666), "wb") as file:
        if callable(content):
            content(file)
        else:
            file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left in a folder, and in its runs if it has some."""
    for pattern in (".*", "*/.*", "*/seed_*/.*", "*/seed_*/*/.*", "unfinished/*/.*"):
        for path in folder.glob(pattern):
            if _LEFTOVER.fullmatch(path.name):
                with suppress(OSError):
                    path.unlink()
