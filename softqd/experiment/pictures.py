"""Pictures of some members of a population, drawn when a run ends.

Drawing needs the problem's code, looking does not: so that a run folder can be looked
at anywhere, it holds small pictures of many members, for the page, and larger ones of
the few that figures show.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, PyTree

from softqd.experiment.files.archive import read_arrays
from softqd.experiment.files.schema import file_error
from softqd.metrics import select, to_unit
from softqd.ops.evaluation import render
from softqd.ops.structure import as_like, solution_like
from softqd.types import Population, Problem

# Members that are drawn, at most: about 2 MB of small pictures, which cost about as
# much as so many evaluations.
MAX_PICTURES = 1000
# Longest sides, in pixels, and JPEG's qualities: small ones take about 2 kB.
SMALL, _SMALL_QUALITY = 96, 82
LARGE, _LARGE_QUALITY = 512, 95
# Behaviors whose ends a gallery shows; more would not be looked at.
MAX_ROWS = 8
_SHARES = {"low": 0.0, "middle": 0.5, "high": 1.0}
# How many a figure of representatives shows, and the side of a table.
FEW = 5
_PARTS = ("members", "sizes", "jpeg")
# Solutions drawn at once; full-size pictures of all would not fit in memory.
_CHUNK = 16


class Pictures(NamedTuple):
    """Pictures by row of the population, as JPEG.

    Attributes:
        small: Best first.
        large: Of those that figures show.
        target: What the problem shows beside them, numbers from 0 to 255.
    """

    small: dict[int, bytes]
    large: dict[int, bytes]
    target: np.ndarray | None = None

    def image(self, member: int) -> Float[np.ndarray, "h w 3"]:
        """The larger picture of a member; gray where there is none.

        Raises:
            ValueError: If it is damaged.
        """
        data = self.large.get(member, self.small.get(member))
        return np.full((8, 8, 3), 0.5) if data is None else _decoded(data, member)


def draw_pictures(problem: Problem, population: Population, level: float) -> Pictures:
    """Draw members of a population.

    Args:
        problem: A problem with ``render``.
        population: Occupied rows only.
        level: From where quality is measured.

    Raises:
        ValueError: If the solutions are not those of the problem.
    """
    quality, behavior = map(np.asarray, (population.quality, population.behavior))
    solutions, one = population.solutions, solution_like(problem)
    if one is not None:
        solutions = as_like(solutions, one)
    shown = members_in_figures(quality, behavior, problem, level)
    listed = members_to_draw(quality, MAX_PICTURES)
    small, large = dict.fromkeys(listed.tolist(), b""), {}
    for member, picture in _drawn(problem, solutions, np.union1d(listed, shown)):
        if member in small:
            small[member] = encoded(picture, SMALL, _SMALL_QUALITY)
        if member in shown:
            large[member] = encoded(picture, LARGE, _LARGE_QUALITY)
    target = None if problem.target is None else _pixels(problem.target)
    return Pictures(small, large, target)


def members_to_draw(
    quality: Float[np.ndarray, " n"], most: int
) -> Int[np.ndarray, " m"]:
    """Rows to draw, best first: all of them, or even steps from best to worst.

    Examples:
        >>> members_to_draw(np.array([0.1, 0.9, 0.5, 0.7, 0.3]), 3).tolist()
        [1, 2, 0]
    """
    order = np.argsort(-quality, kind="stable")
    if len(order) <= most:
        return order
    return order[np.linspace(0, len(order) - 1, most).round().astype(int)]


def members_in_figures(
    quality: Float[np.ndarray, " n"],
    behavior: Float[np.ndarray, "n d"],
    problem: Problem,
    level: float,
) -> Int[np.ndarray, " m"]:
    """Rows that the figures of a run folder show."""
    if not len(quality):
        return np.zeros(0, int)
    dim = behavior.shape[1]
    some = [np.array([quality.argmax()])]
    some += [low_middle_high(behavior[:, k]) for k in range(min(dim, MAX_ROWS))]
    unit = to_unit(problem.bounds(dim), behavior)
    if unit is not None:
        light = np.maximum(quality - level, 0)
        some.append(select(light, unit, min(FEW, len(quality))))
    if dim == 2:
        some.append(best_of_cells(quality, behavior, FEW).ravel())
    members = np.unique(np.concatenate(some))
    return members[members >= 0]


def best_of_cells(
    quality: Float[np.ndarray, " n"], behavior: Float[np.ndarray, "n 2"], size: int
) -> Int[np.ndarray, "size size"]:
    """The best member of each cell, -1 where there is none.

    The cells divide what 98% of the population reach.

    Returns:
        Indices; rows are cells of the second behavior, columns of the first.

    Examples:
        >>> behavior = np.array([[0.0, 0.0], [1.0, 1.0], [0.9, 0.9]])
        >>> best_of_cells(np.array([1.0, 2.0, 3.0]), behavior, 2).tolist()
        [[0, -1], [-1, 2]]
    """
    low, high = np.percentile(behavior, [1, 99], axis=0)
    width = np.where(high > low, high - low, 1.0)
    places = np.clip((behavior - low) / width * size, 0, size - 1).astype(int)
    best = np.full((size, size), -1)
    order = np.argsort(quality, kind="stable")  # the best is written last
    for member, (column, row) in zip(order, places[order], strict=True):
        best[row, column] = member
    return best


def low_middle_high(values: Float[np.ndarray, " n"]) -> Int[np.ndarray, " 3"]:
    """Indices of the smallest, the median and the largest value.

    Examples:
        >>> low_middle_high(np.array([5.0, 1.0, 3.0])).tolist()
        [1, 2, 0]
    """
    order = np.argsort(values, kind="stable")
    places = [round(share * (len(order) - 1)) for share in _SHARES.values()]
    return order[places]


def encoded(picture: Any, side: int = SMALL, quality: int = _SMALL_QUALITY) -> bytes:
    """A picture, in [0, 1] or from 0 to 255, as a JPEG no larger than a side."""
    from PIL import Image

    image = Image.fromarray(_pixels(picture))
    image.thumbnail((side, side))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality, optimize=True)
    return file.getvalue()


def picture_arrays(pictures: Pictures) -> dict[str, np.ndarray]:
    """Pictures as arrays, as `read_pictures` takes them."""
    arrays = {}
    for name in ("small", "large"):
        found: dict[int, bytes] = getattr(pictures, name)
        arrays[f"{name}/members"] = np.array(list(found), np.int64)
        arrays[f"{name}/sizes"] = np.array([len(x) for x in found.values()], np.int64)
        arrays[f"{name}/jpeg"] = np.frombuffer(b"".join(found.values()), np.uint8)
    if pictures.target is not None:
        arrays["target"] = pictures.target
    return arrays


def read_pictures(path: Path, num: int) -> Pictures:
    """Read pictures of a population of so many.

    Raises:
        FileError: If they cannot be read.
    """
    arrays = read_arrays(path)
    small, large = (_split(path, arrays, name, num) for name in ("small", "large"))
    target = arrays.get("target")
    if target is not None and (
        target.dtype != np.uint8 or target.ndim != 3 or target.shape[2] != 3
    ):
        raise file_error(
            path, f"target must be bytes (h, w, 3); got {target.dtype}{target.shape}"
        )
    return Pictures(small, large, target if target is None or target.size else None)


def _split(path: Path, arrays: dict, name: str, num: int) -> dict[int, bytes]:
    nothing = np.zeros(())
    parts = [arrays.get(f"{name}/{part}", nothing) for part in _PARTS]
    if any(part.ndim != 1 or part.dtype.kind not in "iu" for part in parts):
        raise file_error(path, f"must hold lists {name}/{', '.join(_PARTS)} of numbers")
    members, sizes, data = parts
    is_sound = len(members) == len(sizes) == len(np.unique(members))
    is_sound &= bool(((members >= 0) & (members < num)).all() and (sizes >= 0).all())
    ends = np.cumsum(sizes, dtype=object)  # numbers that do not overflow
    if not is_sound or (ends[-1] if len(ends) else 0) != len(data):
        raise file_error(path, f"{name}/... do not fit each other, or {num} solutions")
    pictures = np.split(data.astype(np.uint8), ends[:-1].astype(np.int64))
    found = (picture.tobytes() for picture in pictures)
    return dict(zip(members.tolist(), found, strict=False))


def _drawn(
    problem: Problem, solutions: PyTree, members: Int[np.ndarray, " m"]
) -> Iterator[tuple[int, np.ndarray]]:
    for start in range(0, len(members), _CHUNK):
        some = members[start : start + _CHUNK]
        # Always as many, so that one compiled program serves all.
        padded = np.resize(some, min(_CHUNK, len(members)))
        yield from zip(some.tolist(), render(problem, solutions, padded), strict=False)


def _pixels(picture: Any) -> np.ndarray:
    picture = np.asarray(picture)
    if picture.dtype == np.uint8:
        return picture
    shades = np.clip(np.nan_to_num(picture.astype(np.float32)), 0.0, 1.0)
    return (shades * 255).round().astype(np.uint8)


def _decoded(data: bytes, member: int) -> Float[np.ndarray, "h w 3"]:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=["JPEG"]) as image:
            if max(image.size) > LARGE:  # before any memory is taken for it
                raise ValueError(f"it has {image.size} pixels")
            return np.asarray(image.convert("RGB"), np.float32) / 255
    except Exception as error:  # what a damaged picture raises is of many kinds
        what = f"the picture of solution {member} is damaged: {error}"
        raise ValueError(what) from None
