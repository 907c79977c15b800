"""Population files: our .npz, CSV of any tool, a pyribs data frame, a QDax repertoire.

What a file is, is decided by its content. The reader says in one sentence what it took
from where, and refuses what no metric can use. No pickle is ever loaded.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from softqd.experiment.files.archive import no_pickle
from softqd.experiment.files.csv_file import read_csv
from softqd.experiment.files.npz_file import read_npz
from softqd.experiment.files.parts import not_readable, to_population
from softqd.experiment.files.schema import (
    FileError,
    file_error,
    max_bytes,
    one_line,
    open_regular,
    too_large,
)
from softqd.ops.structure import as_like, solution_like
from softqd.types import Population

_PICKLE_SUFFIXES = (".pkl", ".pickle", ".p", ".joblib", ".pt", ".pth")


class Reading(NamedTuple):
    """A population, and a sentence on what was taken from where."""

    population: Population
    origin: str


def load_population(
    path: str | Path,
    *,
    quality: str | None = None,
    behavior: Sequence[str] | str | None = None,
    like: Any = None,
) -> Population:
    r"""Read a population file, ours or another tool's.

    Our ``.npz``; the arrays of a QDax repertoire saved with ``np.savez``, whose empty
    slots are dropped; a CSV file, such as those made from a pyribs archive's
    ``data(return_type="pandas")`` or from `Population.to_pandas`. Solutions of a pytree
    come back as nested dictionaries of arrays.

    Args:
        path: The file.
        quality: Column or array that holds the quality; guessed if None.
        behavior: Columns or arrays that hold the behavior, in order; guessed if None.
        like: A `Problem`, or one solution: solutions are put into its structure, by the
            names of their leaves.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is damaged, empty, holds pickled objects or values that
            are not finite, or if a part is missing or does not fit the others.

    Examples:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "archive.csv"
        >>> _ = path.write_text("objective,measures_0,measures_1\n3.5,0.1,0.9\n")
        >>> load_population(path).behavior
        array([[0.1, 0.9]])
    """
    return read_population(path, quality=quality, behavior=behavior, like=like)[0]


def read_population(
    path: str | Path,
    *,
    quality: str | None = None,
    behavior: Sequence[str] | str | None = None,
    like: Any = None,
) -> Reading:
    """`load_population`, with a sentence on what was taken from where."""
    path = Path(path)
    names = [behavior] if isinstance(behavior, str) else list(behavior or [])
    if len(set(names)) < len(names) or quality in names:
        raise ValueError(
            f"quality and behavior must be different columns; got quality={quality!r}, "
            f"behavior={names}"
        )
    try:
        read = read_npz if _is_npz(path) else read_csv
        parts = read(path, quality, names)
        population = to_population(path, parts)
    except ValueError as error:
        raise FileError(one_line(str(error))) from None
    one = None if like is None else solution_like(like)
    if one is not None:
        solutions = _restored(path, population.solutions, one)
        population = dataclasses.replace(population, solutions=solutions)
    return Reading(population, parts.origin)


def _restored(path: Path, solutions: Any, one: Any) -> Any:
    """Solutions in the structure, and the types, of one of them."""
    try:
        found = as_like(solutions, one)
    except ValueError as error:
        raise file_error(path, f"does not fit: {error}") from None
    return jax.tree.map(lambda x, leaf: x.astype(leaf.dtype), found, one)


def _is_npz(path: Path) -> bool:
    """Whether a file is an .npz or else, as far as its first bytes say, a CSV."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.is_dir():
        raise file_error(path, "is a folder; give the population.npz in it")
    with open_regular(path) as file:
        start, size = file.read(6), os.fstat(file.fileno()).st_size
    if not start:
        raise file_error(path, "is empty: it has no bytes at all")
    if start[0] == 0x80 or path.suffix.lower() in _PICKLE_SUFFIXES:
        raise ValueError(no_pickle(path))
    if start.startswith(b"PK"):
        return True
    if start == b"\x93NUMPY":
        raise file_error(
            path,
            "holds a single array; save quality and behavior together: "
            'np.savez("population.npz", quality=..., behavior=..., solutions=...)',
        )
    if path.suffix.lower() == ".npz":
        raise ValueError(not_readable(path, "it is not an .npz archive"))
    if size > max_bytes():
        raise file_error(path, too_large(size, max_bytes()))
    return False
