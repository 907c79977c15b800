"""Population files of arrays: ours, a QDax repertoire's, or under names that are given.

QDax holds one row per cell and marks an empty one by a fitness of minus infinity or by
NaN; such rows are dropped, and counted in the origin.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from softqd.experiment.files.archive import opened
from softqd.experiment.files.parts import Parts, origin_text
from softqd.ops.names import unknown_message

Arrays = dict[str, np.ndarray]


def read_npz(path: Path, quality: str | None, behavior: list[str]) -> Parts:
    """Read the arrays that make a population.

    Args:
        path: The file.
        quality: Name of the array ``(n,)`` or ``(n, 1)``; if None, 'quality' or QDax'
            'fitnesses'.
        behavior: Names of arrays ``(n, d)`` or ``(n,)`` that are put side by side; if
            there are none, 'behavior' or QDax' 'descriptors'.

    Raises:
        ValueError: If the file is damaged or an array is missing or does not fit.
    """
    with opened(path) as archive:
        held = list(archive.headers)
        is_qdax = "quality" not in held and "fitnesses" in held
        default = ("fitnesses", "descriptors") if is_qdax else ("quality", "behavior")
        quality = _held(path, held, quality, default[0], "quality")
        columns = [
            _held(path, held, name, default[1], "behavior")
            for name in behavior or [None]
        ]
        leaves = _leaves(held, "solutions") or _leaves(held, "genotypes")
        arrays = {x: archive.read(x) for x in (quality, *columns, *leaves)}
    for name in (quality, *columns):  # solutions may be of any type
        arrays[name] = _floats(path, name, arrays[name])
    if arrays[quality].shape[1:] == (1,):  # QDax' fitnesses
        arrays[quality] = arrays[quality][:, 0]
    for name in behavior:
        if arrays[name].ndim == 1:
            arrays[name] = arrays[name][:, None]
    _check_shapes(path, arrays, quality, columns)
    kind = "npz of QDax" if is_qdax else "npz"
    origin = origin_text(kind, quality, columns, leaves)
    return _parts(arrays, quality, columns, leaves, origin)


def _parts(
    arrays: Arrays, quality: str, columns: list[str], leaves: list[str], origin: str
) -> Parts:
    """Put behaviors side by side and drop the empty slots of a repertoire."""
    f, b = arrays[quality], np.hstack([arrays[name] for name in columns])
    is_empty = np.zeros(len(f), dtype=bool)
    if quality == "fitnesses":
        is_empty = np.isneginf(f) | np.isnan(f) | np.isnan(b).any(1)
        origin += f"; {is_empty.sum()} empty slots dropped"
    rows = np.flatnonzero(~is_empty)
    solutions = {name.partition("/")[2]: arrays[name][rows] for name in leaves}
    return Parts(f[rows], b[rows], solutions, origin, lambda i: f"row {rows[i]}")


def _leaves(held: list[str], root: str) -> list[str]:
    return [name for name in held if name == root or name.startswith(f"{root}/")]


def _held(
    path: Path, held: list[str], name: str | None, default: str, option: str
) -> str:
    """The name of an array that the file holds: the one given, else the default."""
    wanted = default if name is None else name
    if wanted in held:
        return wanted
    listed = f"it holds {', '.join(held) or 'no arrays'}"
    if name is not None:
        raise ValueError(f"{path}: {unknown_message('array', name, held, listed)}")
    raise ValueError(
        f"{path} has no array {default!r}; {listed}; say which one is the {option} "
        f"({option}=, --{option} NAME)"
    )


def _floats(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "fiub":
        raise ValueError(
            f"{path}: array {name!r} has type {array.dtype}, expected numbers; save it "
            "as float32"
        )
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def _check_shapes(path: Path, arrays: Arrays, quality: str, columns: list[str]) -> None:
    f, *bs = (arrays[name] for name in (quality, *columns))
    if f.ndim != 1 or any(b.ndim != 2 or len(b) != len(f) for b in bs):
        shapes = ", ".join(str(b.shape) for b in bs)
        raise ValueError(
            f"{path}: {quality} must have shape (n,) and {', '.join(columns)} (n, d); "
            f"got {f.shape} and {shapes}"
        )
    for name, array in arrays.items():
        if array.shape[:1] != f.shape:
            raise ValueError(
                f"{path}: {name} has shape {array.shape}, but {quality} has {len(f)} "
                "rows"
            )
