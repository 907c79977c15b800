"""Figures of a population: where it is, behavior by behavior, and how good."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection

from softqd.plot._found import Found, finite_bounds, view
from softqd.plot._style import (
    BEST,
    MAX_VECTOR_MARKS,
    MEAN,
    ONE,
    QUALITY,
    Figure,
    color_bar,
    drawing,
    plain,
)
from softqd.types import Problem

# Up to this dimension every pair of behaviors gets its own panel.
MAX_PAIRED_DIM = 4


def scatter(
    found: Found, problem: Problem | None = None, *, bounds: Any = None
) -> Figure:
    """The population in behavior space, colored by quality.

    Every pair of dimensions up to four of them, else the two leading principal
    components; a single dimension is drawn against quality.

    Args:
        found: A `softqd.Result`, a `softqd.Population` or ``(quality, behavior)``.
        problem: Gives bounds and names of behaviors.
        bounds: ``(low, high)`` instead, to fix the axes where finite.

    Raises:
        ValueError: If there is no solution.
    """
    quality, behavior, sides, names, *_ = view(found, problem, bounds)
    dim, names = behavior.shape[1], [plain(name) for name in names]
    if dim == 1:
        axes_of = [(behavior[:, 0], quality, names[0], "quality", None)]
    elif dim <= MAX_PAIRED_DIM:
        axes_of = [
            (behavior[:, i], behavior[:, j], names[i], names[j], (i, j))
            for i, j in itertools.combinations(range(dim), 2)
        ]
    else:
        first, second, share = _principal_components(behavior)
        labels = [f"principal component {k + 1} ({share[k]:.0%})" for k in (0, 1)]
        axes_of = [(first, second, *labels, None)]
    num_columns = min(3, len(axes_of))
    num_rows = -(-len(axes_of) // num_columns)
    with drawing(3.4 * num_columns + 0.8, 3.1 * num_rows) as figure:
        grid = figure.subplots(num_rows, num_columns, squeeze=False).ravel()
        order = np.argsort(quality)  # the best on top
        for axes, (x, y, x_label, y_label, pair) in zip(grid, axes_of, strict=False):
            axes.scatter(
                x[order],
                y[order],
                c=quality[order],
                s=8,
                cmap=QUALITY,
                linewidths=0,
                rasterized=len(quality) > MAX_VECTOR_MARKS,
            )
            axes.set(xlabel=x_label, ylabel=y_label)
            if pair is not None:
                _limit_axes(axes, sides, pair)
        span = (quality.min(), quality.max())
        color_bar(figure, grid, span, "quality", QUALITY)
    return figure


def parallel_coordinates(
    found: Found, problem: Problem | None = None, *, bounds: Any = None
) -> Figure:
    """Every solution as a line across all behaviors, colored by quality.

    Each axis runs from the low to the high bound of its behavior, which are written
    below and above it; without bounds, over the population's range.

    Args:
        found: A `softqd.Result`, a `softqd.Population` or ``(quality, behavior)``.
        problem: Gives bounds and names of behaviors.
        bounds: ``(low, high)`` instead, numbers or vectors.

    Raises:
        ValueError: If there is no solution.
    """
    quality, behavior, sides, names, *_ = view(found, problem, bounds)
    dim, names = behavior.shape[1], [plain(name) for name in names]
    low, high = finite_bounds(behavior, sides)
    heights = (behavior - low) / (high - low)
    order = np.argsort(quality)  # the best on top
    places = np.broadcast_to(np.arange(dim, dtype=float), heights.shape)
    lines = LineCollection(
        list(np.stack([places, heights], -1)[order]),
        array=quality[order],
        cmap=QUALITY,
        linewidths=0.7,
        alpha=0.5,
        rasterized=len(quality) > MAX_VECTOR_MARKS,
    )
    with drawing(max(3.6, 0.9 * dim + 1.4), 3.2, axes_grid=False) as figure:
        axes = figure.subplots()
        axes.add_collection(lines)
        for k in range(dim):
            axes.axvline(k, color="0.3", linewidth=0.8)
            axes.text(k, 1.02, f"{high[k]:.3g}", ha="center", va="bottom", fontsize=7)
        ticks = [f"{low[k]:.3g}\n{names[k]}" for k in range(dim)]
        axes.set_xticks(range(dim), ticks, fontsize=7)
        axes.set(xlim=(-0.2, dim - 0.8), ylim=(0, 1), yticks=[])
        axes.spines["left"].set_visible(False)
        span = (quality.min(), quality.max())
        color_bar(figure, [axes], span, "quality", QUALITY)
    return figure


def quality_histogram(found: Found) -> Figure:
    """How the qualities are distributed, with their mean and best.

    Args:
        found: A `softqd.Result`, a `softqd.Population` or ``(quality, behavior)``.

    Raises:
        ValueError: If there is no solution.
    """
    quality = view(found).quality
    with drawing(4.2, 2.8) as figure:
        axes = figure.subplots()
        axes.hist(quality, bins=min(40, max(5, len(quality) // 10)), color=ONE)
        axes.axvline(quality.mean(), color=MEAN, label=f"mean {quality.mean():.4g}")
        axes.axvline(quality.max(), color=BEST, label=f"best {quality.max():.4g}")
        axes.set(xlabel="quality", ylabel="solutions")
        axes.legend(frameon=False)
    return figure


def _principal_components(behavior):
    centered = behavior - behavior.mean(0)
    left, singular, _ = np.linalg.svd(centered, full_matrices=False)
    share = singular**2 / max((singular**2).sum(), np.finfo(float).tiny)
    coordinates = left * singular
    if coordinates.shape[1] < 2:  # fewer solutions than components
        coordinates = np.pad(coordinates, ((0, 0), (0, 1)))
        share = np.append(share, 0.0)
    return coordinates[:, 0], coordinates[:, 1], share


def _limit_axes(axes, bounds, pair):
    low, high = bounds
    for index, setter in zip(pair, (axes.set_xlim, axes.set_ylim), strict=True):
        if np.isfinite(low[index]) and np.isfinite(high[index]):
            margin = 0.02 * (high[index] - low[index])
            setter(low[index] - margin, high[index] + margin)
