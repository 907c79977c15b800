"""Pictures of solutions: the best, the ends of behaviors, a table of two."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from softqd.experiment.result import Result
from softqd.metrics import select, to_unit
from softqd.ops.evaluation import render
from softqd.plot._found import View, view
from softqd.plot._style import Figure, drawing, plain
from softqd.types import Population, Problem

# Behaviors that get a row; more would not be looked at.
MAX_ROWS = 8
_SHARES = {"low": 0.0, "middle": 0.5, "high": 1.0}


def gallery(found: Result | Population, problem: Problem) -> Figure:
    """Target and best solution, then each behavior at its low, middle and high end.

    Every picture says its behavior's value and its quality.

    Args:
        found: What a run found, or a population.
        problem: A problem with ``render``; its ``target`` is shown where it has one.

    Raises:
        ValueError: If the problem cannot render or the population is empty.
    """
    one = _rendering(found, problem)
    quality, behavior = one.quality, one.behavior
    dim = min(behavior.shape[1], MAX_ROWS)
    rows = [low_middle_high(behavior[:, k]) for k in range(dim)]
    best = int(quality.argmax())
    pictures = render(problem, one.solutions, np.concatenate([[best], *rows]))
    with drawing(6.2, 2.05 * (dim + 1), font_size=8) as figure:
        grid = figure.subplots(dim + 1, 3)
        for axes in grid.ravel():
            axes.set_axis_off()
        if problem.target is not None:
            _show(grid[0, 0], problem.target, "target")
        _show(grid[0, 1], pictures[0], f"best: quality {quality[best]:.4g}")
        for k, members in enumerate(rows):
            for column, (end, member) in enumerate(zip(_SHARES, members, strict=True)):
                title = f"{plain(one.names[k])}, {end}: {behavior[member, k]:.3g}"
                title += f"\nquality {quality[member]:.4g}"
                _show(grid[k + 1, column], pictures[1 + 3 * k + column], title)
    return figure


def representatives(
    found: Result | Population,
    problem: Problem,
    *,
    size: int = 5,
    level: float | None = None,
) -> Figure:
    """The few members that light most of the behavior space, side by side.

    Args:
        found: What a run found, or a population.
        problem: A problem with ``render`` and a bounded behavior space.
        size: How many to show, at most.
        level: From where quality is measured, as for `softqd.plot.value_map`.

    Raises:
        ValueError: If the problem cannot render or is unbounded, or the population is
            empty.
    """
    one = _rendering(found, problem, level)
    behavior = to_unit(one.bounds, one.behavior)
    if behavior is None:
        raise ValueError(
            "figure 'representatives' needs a bounded behavior space; that of "
            f"{problem.name!r} is unbounded, draw 'gallery' instead"
        )
    chosen = select(one.light, behavior, min(size, len(one.quality)))
    pictures = render(problem, one.solutions, chosen)
    with drawing(1.9 * len(chosen), 2.2, font_size=8) as figure:
        grid = figure.subplots(1, len(chosen), squeeze=False)[0]
        for axes, picture, member in zip(grid, pictures, chosen, strict=True):
            axes.set_axis_off()
            _show(axes, picture, f"quality {one.quality[member]:.4g}")
    return figure


def picture_table(
    found: Result | Population, problem: Problem, *, size: int = 5
) -> Figure:
    """Two behaviors from low to high: the best solution of each of their cells.

    The cells divide what 98% of the population reach, so that stragglers do not empty
    the table. The first behavior goes from left to right, the second upwards.

    Args:
        found: What a run found, or a population.
        problem: A problem with ``render`` and two behaviors.
        size: Cells of each behavior.

    Raises:
        ValueError: If the problem cannot render or has not two behaviors, or the
            population is empty.
    """
    one = _rendering(found, problem)
    behavior, quality = one.behavior, one.quality
    if behavior.shape[1] != 2:
        raise ValueError(
            f"a table of pictures wants two behaviors; {problem.name!r} has "
            f"{behavior.shape[1]} behaviors; draw 'gallery' instead"
        )
    best = best_of_cells(quality, behavior, size)
    filled = np.argwhere(best >= 0)
    pictures = render(problem, one.solutions, best[best >= 0])
    names = [plain(name) for name in one.names]
    with drawing(1.45 * size, 1.75 * size + 0.3, font_size=7) as figure:
        grid = figure.subplots(size, size, squeeze=False)
        for axes in grid.ravel():
            axes.set_axis_off()
        for (row, column), picture in zip(filled, pictures, strict=True):
            member = best[row, column]
            low, high = behavior[member]
            title = f"{low:.3g}, {high:.3g}\nquality {quality[member]:.4g}"
            _show(grid[size - 1 - row, column], picture, title)
        figure.supxlabel(f"{names[0]} (first number), low to high")
        figure.supylabel(f"{names[1]} (second number), low to high")
    return figure


def best_of_cells(
    quality: Float[np.ndarray, " n"], behavior: Float[np.ndarray, "n 2"], size: int
) -> Int[np.ndarray, "size size"]:
    """The best member of each cell, -1 where there is none.

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


def _rendering(
    found: Result | Population, problem: Problem, level: float | None = None
) -> View:
    if problem.render is None:
        raise ValueError(
            f"problem {problem.name!r} has no render function and cannot render its "
            "solutions; draw 'scatter', or give softqd.Problem one"
        )
    return view(found, problem, level=level)


def _show(axes: Any, picture: Any, title: str) -> None:
    axes.imshow(np.clip(picture, 0.0, 1.0), interpolation="nearest")
    axes.set_title(title, fontsize=7)
