"""Files that appear whole or not at all.

A file is written beside its place under a name that nobody can guess, flushed to disk
and renamed. What a killed process leaves behind is recognized by its name.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

# Ours, and what earlier versions left beside checkpoints.
_LEFTOVER = re.compile(r"\.[0-9a-f]{16}\.softqd-part|\.state\.npz\.\d+")


def write_whole(
    path: str | Path, content: str | bytes | Callable[[IO[bytes]], Any]
) -> Path:
    """Write a file so that it is never there in part; folders are made.

    Args:
        path: Its place. A link there is replaced, not followed.
        content: Text, bytes, or a function that writes to an open file.

    Raises:
        OSError: If it cannot be written, naming the file.
    """
    path = Path(path)
    temporary = path.with_name(f".{secrets.token_hex(8)}.softqd-part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    flags |= getattr(os, "O_BINARY", 0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(temporary, flags, 0o666), "wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    finally:
        with suppress(OSError):
            temporary.unlink()
    return path


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left in a folder and in those directly below it."""
    for pattern in (".*", "*/.*"):
        for path in folder.glob(pattern):
            if _LEFTOVER.fullmatch(path.name):
                with suppress(OSError):
                    path.unlink()
