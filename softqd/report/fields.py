"""Figures of the behavior value: maps, lit cells, surfaces. Light is inferno."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from scipy.spatial import Voronoi

from softqd import metrics
from softqd.report.style import LIGHT, STYLE, plain

# Width of a solution's light on a map, as a share of the wider side of the space.
MAP_SIGMA = 0.03
_DOT: dict[Any, Any] = {"s": 9, "color": "white", "ec": "black", "linewidths": 0.4}
_STEM: dict[Any, Any] = {"color": "black", "linewidth": 0.8, "zorder": 3}


def value_map(
    quality: Float[np.ndarray, " n"],
    behavior: Float[np.ndarray, "n d"],
    bounds: tuple[np.ndarray, np.ndarray],
    resolution: int = 200,
    title: str = "behavior value",
    **settings: Any,
) -> Figure:
    """How brightly a population lights two dimensions of the behavior space.

    `softqd.metrics.value_map` as a picture. Members of negative quality give no light.

    Args:
        quality: Qualities.
        behavior: Behaviors in the declared space.
        bounds: ``(low, high)`` of the space; where infinite, the population's range.
        resolution: Points along each side.
        title: Above the map, with the width of a solution's light.
        **settings: ``dims``, ``others`` and ``sigma``, as for `value_maps`.
    """
    return value_maps({title: (quality, behavior)}, bounds, resolution, **settings)


def value_maps(
    populations: Mapping[str, tuple[np.ndarray, np.ndarray]],
    bounds: tuple[np.ndarray, np.ndarray],
    resolution: int = 200,
    *,
    dims: tuple[int, int] = (0, 1),
    others: Any = "max",
    sigma: float | None = None,
) -> Figure:
    """Several populations side by side, on one scale.

    Args:
        populations: Titles to ``(quality, behavior)``, in the declared space.
        bounds: ``(low, high)`` of the space; where infinite, the populations' range.
        resolution: Points along each side.
        dims: The dimensions along x and y.
        others: "max", or the values at which the other dimensions are fixed.
        sigma: Width of a solution's light; by default 3% of the wider side.
    """
    field = _field(populations, bounds, resolution, dims, others, sigma)
    with matplotlib.rc_context({**STYLE, "axes.grid": False}):
        size = (3.8 * len(populations) + 0.8, 3.8)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(1, len(populations), squeeze=False)[0]
        for axes, title in zip(grid, populations, strict=True):
            behavior = np.asarray(populations[title][1])[:, dims]
            _draw_map(axes, field.maps[title], field.brightest, dims)
            axes.scatter(*behavior.T, s=1.5, color="white", alpha=0.6, linewidths=0)
            axes.set_title(f"{title} ({field.note})", fontsize=9)
        _color_bar(figure, grid, field.brightest, "behavior value", LIGHT)
    return figure


def cells_and_field(
    quality: Float[np.ndarray, " n"],
    behavior: Float[np.ndarray, "n 2"],
    centroids: Float[np.ndarray, "m 2"],
    bounds: tuple[np.ndarray, np.ndarray],
    resolution: int = 200,
    sigma: float | None = None,
) -> Figure:
    """Cells lit by their best occupant, beside the soft field: Figure 1 of the paper.

    Args:
        quality: Qualities; members of negative quality give no light.
        behavior: Behaviors in the declared space.
        centroids: Of the cells, in the same space.
        bounds: ``(low, high)`` of the space; where infinite, the population's range.
        resolution: Points along each side.
        sigma: Width of a solution's light; by default 3% of the wider side.
    """
    light = np.maximum(quality, 0)
    field = _field({"": (light, behavior)}, bounds, resolution, (0, 1), "max", sigma)
    sides = finite_bounds(behavior, bounds)
    cells = metrics.cell_map(
        light, behavior, centroids, bounds=sides, resolution=resolution
    )
    titles = (
        f"{len(centroids)} cells, each lit by its best occupant",
        f"behavior value ({field.note})",
    )
    with matplotlib.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(8.4, 3.8), layout="constrained")
        grid = figure.subplots(1, 2)
        for axes, drawn, title in zip(
            grid, (cells, field.maps[""]), titles, strict=True
        ):
            _draw_map(axes, drawn, field.brightest, (0, 1))
            axes.scatter(*np.asarray(behavior).T, **_DOT)
            axes.set_title(title, fontsize=9)
        grid[0].add_collection(_cell_edges(centroids, sides))
        label = "best quality of a cell, behavior value"
        _color_bar(figure, grid, field.brightest, label, LIGHT)
    return figure


def cell_picture(
    quality: Float[np.ndarray, " n"],
    behavior: Float[np.ndarray, "n 2"],
    centroids: Float[np.ndarray, "m 2"],
    bounds: tuple[np.ndarray, np.ndarray],
    resolution: int = 400,
    names: Sequence[str] = ("behavior 1", "behavior 2"),
) -> Figure:
    """An archive as cells lit by their best occupant; empty cells are dark.

    A solution lies in the cell whose centroid is nearest in the unit cube of the
    bounds, as for the QD score.

    Args:
        quality: Qualities; below zero they are as dark as zero.
        behavior: Behaviors in the declared space.
        centroids: Of the cells, in the same space.
        bounds: ``(low, high)`` of the space; where infinite, the population's range.
        resolution: Points along each side.
        names: Of the two behaviors.
    """
    low, high = finite_bounds(behavior, bounds)
    unit = (np.asarray(behavior) - low) / (high - low)
    centers = (np.asarray(centroids) - low) / (high - low)
    light = np.maximum(quality, 0)
    cube = (np.zeros(2), np.ones(2))
    lit = metrics.cell_map(light, unit, centers, bounds=cube, resolution=resolution)
    lit = lit._replace(x=low[0] + lit.x * (high - low)[0])
    lit = lit._replace(y=low[1] + lit.y * (high - low)[1])
    edges = _cell_edges(centers, cube)
    edges.set_segments([low + s * (high - low) for s in edges.get_segments()])
    share = metrics.coverage(unit, centers)
    brightest = float(light.max()) or 1.0
    with matplotlib.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(4.6, 3.8), layout="constrained")
        axes = figure.subplots()
        _draw_map(axes, lit, brightest, (0, 1))
        axes.add_collection(edges)
        axes.set(xlabel=plain(names[0]), ylabel=plain(names[1]))
        axes.set_title(f"{len(centroids)} cells, {share:.0%} occupied", fontsize=9)
        _color_bar(figure, [axes], brightest, "best quality of a cell", LIGHT)
    return figure


def surfaces(
    populations: Mapping[str, tuple[np.ndarray, np.ndarray]],
    bounds: tuple[np.ndarray, np.ndarray],
    resolution: int = 80,
    *,
    dims: tuple[int, int] = (0, 1),
    others: Any = "max",
    sigma: float | None = None,
) -> Figure:
    """The behavior value as a surface over the space: Figure 2 of the paper.

    Solutions stand at the height of their quality. Arguments as for `value_maps`.
    """
    field = _field(populations, bounds, resolution, dims, others, sigma)
    with matplotlib.rc_context(STYLE):
        size = (4.2 * len(populations) + 0.8, 4.0)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(
            1, len(populations), squeeze=False, subplot_kw={"projection": "3d"}
        )[0]
        for axes, (title, population) in zip(grid, populations.items(), strict=True):
            _draw_surface(axes, field.maps[title], field.brightest, dims)
            quality, (x, y) = population[0], np.asarray(population[1])[:, dims].T
            for stem in zip(x, y, quality, strict=True):
                axes.plot(*zip((*stem[:2], 0), stem, strict=True), **_STEM)
            axes.scatter(x, y, quality, color="black", s=14, depthshade=False, zorder=4)
            axes.set_title(f"{title} ({field.note})", fontsize=9)
        _color_bar(figure, grid, field.brightest, "behavior value", "viridis")
    return figure


class _Field(NamedTuple):
    """Maps of populations on one scale."""

    maps: dict[str, metrics.ValueMap]
    brightest: float
    note: str  # what a title must say


def _field(populations, bounds, resolution, dims, others, sigma) -> _Field:
    everyone = np.concatenate([behavior for _, behavior in populations.values()])
    sides = finite_bounds(everyone, bounds)
    if sigma is None:
        sigma = MAP_SIGMA * float((sides[1] - sides[0])[list(dims)].max())
    maps = {
        title: metrics.value_map(
            np.maximum(quality, 0),
            behavior,
            sigma,
            dims=dims,
            others=others,
            bounds=sides,
            resolution=resolution,
        )
        for title, (quality, behavior) in populations.items()
    }
    brightest = max(float(np.max(quality)) for quality, _ in populations.values())
    note = f"sigma {sigma:.3g}"
    if everyone.shape[1] > 2:
        is_fixed = not isinstance(others, str)
        note += ", others fixed" if is_fixed else ", maximum over the others"
    return _Field(maps, brightest if brightest > 0 else 1.0, note)


def _draw_map(axes, drawn, brightest, dims):
    """A map as an image whose pixels are centered on its points; NaN is dark."""
    x, y, value = drawn
    half = [(side[1] - side[0]) / 2 for side in (x, y)]
    axes.imshow(
        value,
        extent=(x[0] - half[0], x[-1] + half[0], y[0] - half[1], y[-1] + half[1]),
        origin="lower",
        cmap=matplotlib.colormaps[LIGHT].with_extremes(bad="#000004"),
        vmin=0,
        vmax=brightest,
        aspect="auto",
        interpolation="nearest",
    )
    axes.set(xlim=x[[0, -1]], ylim=y[[0, -1]])
    axes.set(xlabel=f"behavior {dims[0] + 1}", ylabel=f"behavior {dims[1] + 1}")


def _draw_surface(axes, drawn, brightest, dims):
    x, y, value = drawn
    axes.computed_zorder = False  # the solutions in front
    axes.plot_surface(
        *np.meshgrid(x, y),
        value,
        cmap="viridis",
        vmin=0,
        vmax=brightest,
        rcount=len(y),
        ccount=len(x),
        linewidth=0,
        antialiased=False,
        zorder=1,
    )
    axes.set(xlim=x[[0, -1]], ylim=y[[0, -1]], zlim=(0, brightest))
    axes.set(xlabel=f"behavior {dims[0] + 1}", ylabel=f"behavior {dims[1] + 1}")
    axes.set_zlabel("quality")
    axes.view_init(elev=28, azim=-60)


def _color_bar(figure, grid, brightest, label, colors):
    scale = ScalarMappable(Normalize(0, brightest), colors)
    figure.colorbar(scale, ax=list(grid), label=label, shrink=0.8)


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
    cells = Voronoi(np.concatenate(images))
    edges = [cells.vertices[ends] for ends in cells.ridge_vertices if min(ends) >= 0]
    return LineCollection(edges, colors="white", linewidths=0.4, alpha=0.35)


def finite_bounds(behavior, bounds):
    """Bounds as two vectors, the population's range where they are infinite."""
    low, high = (np.array(side, dtype=float) for side in bounds)
    low = np.where(np.isfinite(low), low, behavior.min(0))
    high = np.where(np.isfinite(high), high, behavior.max(0))
    return low, np.where(high > low, high, low + 1.0)
