"""Pictures of solutions: the best, the ends of behaviors, a table of two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from softqd.experiment.pictures import FEW, MAX_ROWS, best_of_cells, low_middle_high
from softqd.experiment.result import Result
from softqd.metrics import select, to_unit
from softqd.ops.evaluation import render
from softqd.plot._found import View, view
from softqd.plot._style import Figure, drawing, plain
from softqd.types import Population, Problem

_ENDS = ("low", "middle", "high")


def gallery(found: Result | Population, problem: Problem | None = None) -> Figure:
    """Target and best solution, then each behavior at its low, middle and high end.

    Every picture says its behavior's value and its quality.

    Args:
        found: What a run found, or a population.
        problem: A problem with ``render``; its ``target`` is shown where it has one.
            A result that was read from a folder has its pictures, and needs none.

    Raises:
        ValueError: If the problem cannot render or the population is empty.
    """
    one, pictures_of = _rendering(found, problem)
    quality, behavior = one.quality, one.behavior
    dim = min(behavior.shape[1], MAX_ROWS)
    rows = [low_middle_high(behavior[:, k]) for k in range(dim)]
    best = int(quality.argmax())
    pictures = pictures_of(np.concatenate([[best], *rows]))
    with drawing(6.2, 2.05 * (dim + 1), font_size=8) as figure:
        grid = figure.subplots(dim + 1, 3)
        for axes in grid.ravel():
            axes.set_axis_off()
        if one.target is not None:
            _show(grid[0, 0], one.target, "target")
        _show(grid[0, 1], pictures[0], f"best: quality {quality[best]:.4g}")
        for k, members in enumerate(rows):
            for column, (end, member) in enumerate(zip(_ENDS, members, strict=True)):
                title = f"{plain(one.names[k])}, {end}: {behavior[member, k]:.3g}"
                title += f"\nquality {quality[member]:.4g}"
                _show(grid[k + 1, column], pictures[1 + 3 * k + column], title)
    return figure


def representatives(
    found: Result | Population,
    problem: Problem | None = None,
    *,
    size: int = FEW,
    level: float | None = None,
) -> Figure:
    """The few members that keep most of the Soft QD Score, side by side.

    Args:
        found: What a run found, or a population.
        problem: A problem with ``render`` and a bounded behavior space; as for
            `gallery`.
        size: How many to show, at most.
        level: From where quality is measured, as for `softqd.plot.value_map`.

    Raises:
        ValueError: If the problem cannot render or is unbounded, or the population is
            empty.
    """
    one, pictures_of = _rendering(found, problem, level)
    behavior = to_unit(one.bounds, one.behavior)
    if behavior is None:
        raise ValueError(
            "figure 'representatives' needs a bounded behavior space; this one is "
            "unbounded, or not known: draw 'gallery' instead"
        )
    chosen = select(one.light, behavior, min(size, len(one.quality)))
    pictures = pictures_of(chosen)
    with drawing(1.9 * len(chosen), 2.2, font_size=8) as figure:
        grid = figure.subplots(1, len(chosen), squeeze=False)[0]
        for axes, picture, member in zip(grid, pictures, chosen, strict=True):
            axes.set_axis_off()
            _show(axes, picture, f"quality {one.quality[member]:.4g}")
    return figure


def picture_table(
    found: Result | Population, problem: Problem | None = None, *, size: int = FEW
) -> Figure:
    """Two behaviors from low to high: the best solution of each of their cells.

    The cells divide what 98% of the population reach, so that stragglers do not empty
    the table. The first behavior goes from left to right, the second upwards.

    Args:
        found: What a run found, or a population.
        problem: A problem with ``render`` and two behaviors; as for `gallery`.
        size: Cells of each behavior.

    Raises:
        ValueError: If the problem cannot render or has not two behaviors, or the
            population is empty.
    """
    one, pictures_of = _rendering(found, problem)
    behavior, quality = one.behavior, one.quality
    if behavior.shape[1] != 2:
        raise ValueError(
            "a table of pictures wants two behaviors; this population has "
            f"{behavior.shape[1]} behaviors; draw 'gallery' instead"
        )
    best = best_of_cells(quality, behavior, size)
    filled = np.argwhere(best >= 0)
    pictures = pictures_of(best[best >= 0])
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


def _rendering(
    found: Result | Population, problem: Problem | None, level: float | None = None
) -> tuple[View, Callable[[np.ndarray], Sequence[np.ndarray]]]:
    """What is drawn, and how to get pictures of its members.

    Those that were drawn when the run ended do; a population needs its problem.
    """
    kept = found.pictures if isinstance(found, Result) else None
    if isinstance(found, Result) and problem is None:
        problem = found.problem
    if kept is not None:
        shown = kept
        return view(found, problem, level=level), lambda some: list(
            map(shown.image, some.tolist())
        )
    if problem is None or problem.render is None:
        name = "" if problem is None else f" {problem.name!r}"
        raise ValueError(
            f"problem{name} has no render function and cannot render its solutions; "
            "draw 'scatter', or give softqd.Problem one"
        )
    one = view(found, problem, level=level)
    return one, lambda some: list(render(problem, one.solutions, some))


def _show(axes: Any, picture: Any, title: str) -> None:
    axes.imshow(np.clip(picture, 0.0, 1.0), interpolation="nearest")
    axes.set_title(title, fontsize=7)
