"""Figures of cells: an archive of two behaviors, in the quality of its elites."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.collections import LineCollection
from scipy.spatial import Voronoi

from softqd import metrics
from softqd.plot._found import Found, Sides, View, finite_bounds, view
from softqd.plot._style import LIGHT, QUALITY, Figure, color_bar, drawing
from softqd.plot._value import draw_map, light_field
from softqd.types import Problem

_DOT: dict[Any, Any] = {"s": 9, "color": "white", "ec": "black", "linewidths": 0.4}


def cells(
    found: Found,
    problem: Problem | None = None,
    *,
    bounds: Any = None,
    centroids: Float[np.ndarray, "m 2"] | None = None,
    num_cells: int = metrics.DEFAULT_CELLS,
    resolution: int = 400,
) -> Figure:
    """An archive as cells in the quality of their best occupants; empty ones are dark.

    A solution lies in the cell whose centroid is nearest in the unit cube of the
    bounds, as for the QD score.

    Args:
        found: A `softqd.Result`, a `softqd.Population` or ``(quality, behavior)``;
            qualities below zero are as dark as zero.
        problem: Gives bounds and names of behaviors.
        bounds: ``(low, high)`` instead, numbers or vectors.
        centroids: Of the cells, in the declared space; by default those of the metrics.
        num_cells: How many of those.
        resolution: Points along each side.

    Raises:
        ValueError: If there is no solution, or there are not two bounded behaviors.
    """
    one = view(found, problem, bounds, level=0.0)
    low, high = _two_sides(one)
    unit = (one.behavior - low) / (high - low)
    if centroids is None:
        centers = np.asarray(metrics.centroids_of(2, num_cells)[0])
    else:
        centers = (np.asarray(centroids) - low) / (high - low)
    cube = (np.zeros(2), np.ones(2))
    lit = metrics.cell_map(one.light, unit, centers, bounds=cube, resolution=resolution)
    lit = lit._replace(x=low[0] + lit.x * (high - low)[0])
    lit = lit._replace(y=low[1] + lit.y * (high - low)[1])
    edges = _cell_edges(centers, cube)
    edges.set_segments([low + s * (high - low) for s in edges.get_segments()])
    share = metrics.coverage(unit, centers)
    brightest = float(one.light.max()) or 1.0
    with drawing(4.6, 3.8, axes_grid=False) as figure:
        axes = figure.subplots()
        draw_map(axes, lit, brightest, one.names)
        axes.add_collection(edges)
        axes.set_title(f"{len(centers)} cells, {share:.0%} occupied", fontsize=9)
        color_bar(figure, [axes], (0, brightest), "best quality of a cell", LIGHT)
    return figure


def cells_and_value(
    found: Found,
    problem: Problem | None = None,
    *,
    centroids: Float[np.ndarray, "m 2"],
    bounds: Any = None,
    level: float | None = None,
    sigma: float | None = None,
    resolution: int = 200,
) -> Figure:
    """Cells, each in the quality of its best occupant, beside the behavior value.

    Args:
        found: A `softqd.Result`, a `softqd.Population` or ``(quality, behavior)``.
        problem: Gives bounds, names of behaviors and the quality level.
        centroids: Of the cells, in the declared space.
        bounds: ``(low, high)`` instead, numbers or vectors.
        level: From where quality is measured, as for `softqd.plot.value_map`.
        sigma: Width of a solution's light; by default 3% of the wider side.
        resolution: Points along each side.
    """
    one = view(found, problem, bounds, level)
    field = light_field({"": one}, resolution, sigma=sigma)
    sides = finite_bounds(one.behavior, one.bounds)
    lit = metrics.cell_map(
        one.light, one.behavior, centroids, bounds=sides, resolution=resolution
    )
    titles = (
        f"{len(centroids)} cells, each lit by its best occupant",
        f"behavior value ({field.note})",
    )
    with drawing(8.4, 3.8, axes_grid=False) as figure:
        grid = figure.subplots(1, 2)
        for axes, drawn, title in zip(grid, (lit, field.maps[""]), titles, strict=True):
            draw_map(axes, drawn, field.brightest, field.names)
            axes.scatter(*one.behavior.T, **_DOT)
            axes.set_title(title, fontsize=9)
        grid[0].add_collection(_cell_edges(centroids, sides))
        label = "best quality of a cell, behavior value"
        color_bar(figure, grid, (0, field.brightest), label, LIGHT)
    return figure


def archives(
    several: Mapping[str, tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n 2"]]],
    centroids: Float[np.ndarray, "m 2"],
) -> Figure:
    """Populations in one archive, side by side, on one scale.

    Args:
        several: Titles to quality and behavior, in the unit square.
        centroids: Of the cells.
    """
    maps = {
        name: metrics.cell_map(np.maximum(quality, 0), behavior, centroids)
        for name, (quality, behavior) in several.items()
    }
    brightest = max(float(np.nanmax(drawn.value)) for drawn in maps.values())
    with drawing(3.0 * len(maps) + 0.8, 3.4, axes_grid=False) as figure:
        grid = figure.subplots(1, len(maps), squeeze=False)[0]
        for axes, (name, drawn) in zip(grid, maps.items(), strict=True):
            axes.imshow(
                drawn.value,
                extent=(0, 1, 0, 1),
                origin="lower",
                cmap=QUALITY,
                vmin=0,
                vmax=brightest,
                interpolation="nearest",
            )
            axes.set(title=name, xlabel="behavior 1", ylabel="behavior 2")
        color_bar(figure, grid, (0, brightest), "best quality of a cell", QUALITY)
    return figure


def _two_sides(one: View) -> Sides:
    is_bounded = bool(np.isfinite(one.bounds).all())
    if len(one.names) != 2 or not is_bounded:
        raise ValueError(
            "a figure of cells needs two bounded behaviors; this population has "
            f"{len(one.names)}{'' if is_bounded else ', unbounded'}; give bounds, or "
            "draw 'scatter' or 'parallel' instead"
        )
    return finite_bounds(one.behavior, one.bounds)


def _cell_edges(centroids, sides) -> LineCollection:
    """Borders of Voronoi cells inside a box.

    Mirror images of the centroids across the four sides make every border finite.
    """
    low, high = sides
    images = [np.asarray(centroids)]
    for axis in (0, 1):
        for side in (low, high):
            image = images[0].copy()
            image[:, axis] = 2 * side[axis] - image[:, axis]
            images.append(image)
    borders = Voronoi(np.concatenate(images))
    edges = [borders.vertices[e] for e in borders.ridge_vertices if min(e) >= 0]
    return LineCollection(edges, colors="white", linewidths=0.4, alpha=0.35)
