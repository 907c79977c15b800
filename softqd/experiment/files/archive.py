"""Archives of arrays (.npz), looked at before memory is taken.

The headers say how large every array is. An archive may take as much memory as it has
bytes on disk; one that is compressed may take more, up to a limit.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from softqd.experiment.files.schema import (
    FileError,
    file_error,
    max_bytes,
    open_regular,
    too_large,
)
from softqd.experiment.files.whole import write_whole

# Of a header: shape and type of one array take some hundred bytes.
_MAX_HEADER = 10_000
_MAX_ARRAYS = 100_000


class Header(NamedTuple):
    """What an archive says of an array."""

    shape: tuple[int, ...]
    dtype: np.dtype


class Archive:
    """An open archive: headers, and arrays when they are asked for.

    Attributes:
        headers: By the array's name.
    """

    def __init__(self, path: Path, file: Any):
        self._path = path
        self._zip, self.headers = self._guarded(_look, file)
        size = os.fstat(file.fileno()).st_size
        # The zip's own word, which an array that is read cannot exceed.
        declared = sum(entry.file_size for entry in self._zip.infolist())
        limit = max(max_bytes(), size)
        if declared > limit:
            raise file_error(path, too_large(declared, limit))

    def read(self, name: str) -> np.ndarray:
        """An array.

        Raises:
            FileError: If it is damaged or holds pickled objects.
        """
        dtype = self.headers[name].dtype
        if dtype.hasobject:
            raise FileError(no_pickle(self._path))
        return self._guarded(_array, self._zip, name)

    def _guarded(self, function: Callable, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:  # a damaged archive can fail in many ways
            reason = str(error) or type(error).__name__
            what = f"is not a readable file of arrays (.npz): {reason}"
            raise file_error(self._path, what) from None


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """Open an archive.

    Raises:
        FileError: If it is damaged, or takes more memory than it may.
    """
    with open_regular(path) as file:
        yield Archive(path, file)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an archive, by name.

    Raises:
        FileError: If it cannot be read.
    """
    with opened(path) as archive:
        return {name: archive.read(name) for name in archive.headers}


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write an archive, whole or not at all."""
    write_whole(path, as_archive(arrays))


def as_archive(arrays: Mapping[str, Any]) -> Callable[[IO[bytes]], None]:
    """What writes an archive to an open file."""
    # Arrays of types that NumPy does not know itself, such as bfloat16, are refused by
    # the reader; who writes them converts them.
    return lambda file: np.savez(file, **arrays)


def no_pickle(path: Path) -> str:
    """The line about a pickle, and how to convert it."""
    return str(
        file_error(
            path,
            "holds pickled objects, which are never loaded; where it was made, in "
            'pyribs: archive.data(return_type="pandas").to_csv("archive.csv"), in '
            'QDax: np.savez("repertoire.npz", genotypes=..., ...)',
        )
    )


def _look(file: Any) -> tuple[zipfile.ZipFile, dict[str, Header]]:
    archive = zipfile.ZipFile(file)
    entries = archive.infolist()
    if len(entries) > _MAX_ARRAYS:
        raise ValueError(f"it holds {len(entries)} entries")
    headers: dict[str, Header] = {}
    for entry in entries:
        name = entry.filename.removesuffix(".npy")
        if name == entry.filename or name in headers:
            raise ValueError(
                f"entry {entry.filename!r} is not an array, or comes twice"
            )
        with archive.open(entry) as stream:
            # No more: a header may say that it is as long as it likes.
            start = io.BytesIO(stream.read(_MAX_HEADER))
        header, begins = _header(start), start.tell()
        num_bytes = math.prod(header.shape) * header.dtype.itemsize
        if not header.dtype.hasobject and num_bytes + begins != entry.file_size:
            raise ValueError(
                f"array {name!r} of shape {header.shape} has {num_bytes} bytes, and "
                f"{entry.file_size - begins} are there"
            )
        headers[name] = header
    return archive, headers


def _header(stream: Any) -> Header:
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"an array has format {version}, expected 1.0 or 2.0")
    read = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
    shape, _, dtype = read(stream, max_header_size=_MAX_HEADER)
    if not all(isinstance(n, int) and 0 <= n < 2**63 for n in shape):
        raise ValueError(f"an array has shape {shape}")
    return Header(shape, dtype)


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    try:
        with archive.open(f"{name}.npy") as stream:
            array = np.lib.format.read_array(
                stream, allow_pickle=False, max_header_size=_MAX_HEADER
            )
            stream.read(1)  # at the end the checksum is compared
    except Exception as error:
        raise ValueError(f"array {name!r}: {error}") from None
    return array
