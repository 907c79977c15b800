"""Galleries of rendered solutions: the best, the ends of behaviors, a table of two."""

from __future__ import annotations

from typing import Any

import jax
import matplotlib
import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from softqd.metrics import select, to_unit
from softqd.report.style import STYLE, plain
from softqd.types import Population, Problem

# Behaviors that get a row; more would not be looked at.
MAX_ROWS = 8
_SHARES = {"low": 0.0, "middle": 0.5, "high": 1.0}


def gallery(problem: Problem, population: Population) -> Figure:
    """Target and best solution, then each behavior at its low, middle and high end.

    Every picture says its behavior's value and its quality.

    Args:
        problem: A problem with ``render``; its ``target`` is shown where it has one.
        population: At least one occupied row.

    Raises:
        ValueError: If the problem cannot render or the population is empty.
    """
    kept = population.compact()
    if problem.render is None:
        raise ValueError(f"problem {problem.name!r} has no render function")
    if not len(kept.quality):
        raise ValueError("the population is empty: there is nothing to draw")
    dim = min(kept.behavior.shape[1], MAX_ROWS)
    names = behavior_names(problem, kept.behavior.shape[1])[:dim]
    rows = [low_middle_high(np.asarray(kept.behavior)[:, k]) for k in range(dim)]
    best = int(kept.quality.argmax())
    pictures = rendered(problem, kept.solutions, np.concatenate([[best], *rows]))
    with matplotlib.rc_context({**STYLE, "font.size": 8}):
        figure = Figure(figsize=(6.2, 2.05 * (dim + 1)), layout="constrained")
        grid = figure.subplots(dim + 1, 3)
        for axes in grid.ravel():
            axes.set_axis_off()
        if problem.target is not None:
            _show(grid[0, 0], problem.target, "target")
        title = f"best: quality {kept.quality[best]:.4g}"
        _show(grid[0, 1], pictures[0], title)
        for k, (name, members) in enumerate(zip(names, rows, strict=True)):
            for column, (end, member) in enumerate(zip(_SHARES, members, strict=True)):
                value, quality = kept.behavior[member, k], kept.quality[member]
                title = f"{plain(name)}, {end}: {value:.3g}\nquality {quality:.4g}"
                _show(grid[k + 1, column], pictures[1 + 3 * k + column], title)
    return figure


def representatives(
    problem: Problem, population: Population, size: int = 5, level: float = 0.0
) -> Figure:
    """The few members that light most of the behavior space, side by side.

    Args:
        problem: A problem with ``render`` and a bounded behavior space.
        population: At least one occupied row.
        size: How many to show, at most.
        level: From where quality is measured.
    """
    kept = population.compact()
    behavior = to_unit(problem.bounds(kept.behavior.shape[1]), kept.behavior)
    quality = np.maximum(kept.quality - level, 0.0)
    chosen = select(quality, behavior, min(size, len(quality)))
    pictures = rendered(problem, kept.solutions, chosen)
    with matplotlib.rc_context({**STYLE, "font.size": 8}):
        figure = Figure(figsize=(1.9 * len(chosen), 2.2), layout="constrained")
        grid = figure.subplots(1, len(chosen), squeeze=False)[0]
        for axes, picture, member in zip(grid, pictures, chosen, strict=True):
            axes.set_axis_off()
            _show(axes, picture, f"quality {kept.quality[member]:.4g}")
    return figure


def picture_table(problem: Problem, population: Population, size: int = 5) -> Figure:
    """Two behaviors from low to high: the best solution of each of their cells.

    The cells divide what 98% of the population reach, so that stragglers do not empty
    the table. The first behavior goes from left to right, the second upwards.

    Args:
        problem: A problem with ``render`` and two behaviors.
        population: At least one occupied row.
        size: Cells of each behavior.

    Raises:
        ValueError: If the problem cannot render or has not two behaviors.
    """
    kept = population.compact()
    behavior, quality = np.asarray(kept.behavior), np.asarray(kept.quality)
    if problem.render is None or behavior.shape[1] != 2 or not len(quality):
        raise ValueError(
            "a table of pictures wants a problem with a render function and two "
            f"behaviors, and a solution; {problem.name!r} has {behavior.shape[1]} "
            f"behaviors and {len(quality)} solutions; draw 'gallery' instead"
        )
    best = best_of_cells(quality, behavior, size)
    filled = np.argwhere(best >= 0)
    pictures = rendered(problem, kept.solutions, best[best >= 0])
    names = [plain(name) for name in behavior_names(problem, 2)]
    with matplotlib.rc_context({"figure.dpi": 120, "font.size": 7}):
        shape = (1.45 * size, 1.75 * size + 0.3)
        figure = Figure(figsize=shape, layout="constrained")
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


def behavior_names(problem: Problem, dim: int) -> tuple[str, ...]:
    """The problem's names of its behaviors, or numbers from 1."""
    names = problem.behavior_names
    return names or tuple(f"behavior {i + 1}" for i in range(dim))


def rendered(
    problem: Problem, solutions: Any, members: Int[np.ndarray, " m"]
) -> Float[np.ndarray, "m h w 3"]:
    """Pictures of some solutions, one after the other."""
    chosen = jax.tree.map(lambda x: np.asarray(x)[members], solutions)
    return np.asarray(_draw(problem.render, chosen))


@jax.jit
def _draw(render: Any, solutions: Any) -> Any:
    # Render is passed in, so that a network's weights are not compiled in as constants.
    return jax.lax.map(render, solutions)


def _show(axes: Any, picture: Any, title: str) -> None:
    axes.imshow(np.clip(picture, 0.0, 1.0), interpolation="nearest")
    axes.set_title(title, fontsize=7)
