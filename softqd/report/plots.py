"""Figures of one run. Every function takes arrays, draws, and returns a figure.

The only module that imports matplotlib. Colors are viridis, and inferno for light:
readable in print and with color-blind eyes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
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
from softqd.experiment.result import Result
from softqd.types import Problem

# Up to this dimension every pair of behaviors gets its own panel.
MAX_PAIRED_DIM = 4
# Colors of light, from dark to bright.
LIGHT = "inferno"
# Width of a solution's light on a map, as a share of the wider side of the space.
MAP_SIGMA = 0.03
_DOT: dict[Any, Any] = {"s": 9, "color": "white", "ec": "black", "linewidths": 0.4}
_STEM: dict[Any, Any] = {"color": "black", "linewidth": 0.8, "zorder": 3}
_STYLE: dict[Any, Any] = {
    "figure.dpi": 120,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
}


def behavior_scatter(
    quality: Float[np.ndarray, " n"],
    behavior: Float[np.ndarray, "n d"],
    bounds: tuple[np.ndarray, np.ndarray] | None = None,
) -> Figure:
    """The population in behavior space, colored by quality.

    Every pair of dimensions up to four of them, else the two leading principal
    components; a single dimension is drawn against quality.

    Args:
        quality: Qualities.
        behavior: Behaviors in the declared space.
        bounds: ``(low, high)`` of the space, to fix the axes where finite.
    """
    dim = behavior.shape[1]
    if dim == 1:
        axes_of = [(behavior[:, 0], quality, "behavior 1", "quality", None)]
    elif dim <= MAX_PAIRED_DIM:
        axes_of = [
            (
                behavior[:, i],
                behavior[:, j],
                f"behavior {i + 1}",
                f"behavior {j + 1}",
                (i, j),
            )
            for i, j in itertools.combinations(range(dim), 2)
        ]
    else:
        first, second, share = _principal_components(behavior)
        labels = [f"principal component {k + 1} ({share[k]:.0%})" for k in (0, 1)]
        axes_of = [(first, second, *labels, None)]
    num_columns = min(3, len(axes_of))
    num_rows = -(-len(axes_of) // num_columns)
    with matplotlib.rc_context(_STYLE):
        figure = Figure(
            figsize=(3.4 * num_columns + 0.8, 3.1 * num_rows), layout="constrained"
        )
        grid = figure.subplots(num_rows, num_columns, squeeze=False).ravel()
        order = np.argsort(quality)  # the best on top
        for axes, (x, y, x_label, y_label, pair) in zip(grid, axes_of, strict=False):
            axes.scatter(
                x[order], y[order], c=quality[order], s=8, cmap="viridis", linewidths=0
            )
            axes.set(xlabel=x_label, ylabel=y_label)
            if pair is not None and bounds is not None:
                _limit_axes(axes, bounds, pair)
        colors = ScalarMappable(Normalize(quality.min(), quality.max()), "viridis")
        figure.colorbar(colors, ax=list(grid), label="quality", shrink=0.8)
    return figure


def quality_histogram(quality: Float[np.ndarray, " n"]) -> Figure:
    """How the qualities are distributed, with their mean and best."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(4.2, 2.8), layout="constrained")
        axes = figure.subplots()
        axes.hist(quality, bins=min(40, max(5, len(quality) // 10)), color="#31688e")
        axes.axvline(
            quality.mean(), color="#35b779", label=f"mean {quality.mean():.4g}"
        )
        axes.axvline(quality.max(), color="#440154", label=f"best {quality.max():.4g}")
        axes.set(xlabel="quality", ylabel="solutions")
        axes.legend(frameon=False)
    return figure


def history_curves(history: Mapping[str, np.ndarray]) -> Figure:
    """Mean and best quality against evaluations."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(4.2, 2.8), layout="constrained")
        axes = figure.subplots()
        for name, color in (("mean_quality", "#35b779"), ("max_quality", "#440154")):
            label = name.replace("_", " ").replace("max", "best")
            axes.plot(history["evaluations"], history[name], color=color, label=label)
        axes.set(xlabel="evaluations", ylabel="quality")
        axes.legend(frameon=False)
    return figure


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
    with matplotlib.rc_context({**_STYLE, "axes.grid": False}):
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
    sides = _finite_bounds(behavior, bounds)
    cells = metrics.cell_map(
        light, behavior, centroids, bounds=sides, resolution=resolution
    )
    titles = (
        f"{len(centroids)} cells, each lit by its best occupant",
        f"behavior value ({field.note})",
    )
    with matplotlib.rc_context({**_STYLE, "axes.grid": False}):
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
    with matplotlib.rc_context(_STYLE):
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


def quality_histories(histories: Mapping[str, Mapping[str, list]]) -> Figure:
    """Mean and best quality against evaluations, a panel per problem, a line per seed.

    Args:
        histories: Problem name to columns, each a list with one list per seed.
    """
    with matplotlib.rc_context(_STYLE):
        size = (3.2 * max(1, len(histories)) + 0.4, 2.7)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(1, max(1, len(histories)), squeeze=False, sharey=True)
        for axes, (name, history) in zip(grid[0], histories.items(), strict=False):
            for column, color in (
                ("mean_quality", "#35b779"),
                ("max_quality", "#440154"),
            ):
                rows = zip(history["evaluations"], history[column], strict=True)
                for number, (x, y) in enumerate(rows):
                    label = column.replace("_", " ").replace("max", "best")
                    label = label if number == 0 else None
                    axes.plot(x, y, color=color, linewidth=0.8, label=label)
            axes.set(xlabel="evaluations", title=name)
        grid[0, 0].set_ylabel("quality")
        if histories:
            grid[0, -1].legend(frameon=False)
    return figure


def landscape(resolution: int = 400) -> Figure:
    """Linear Projection's transformed Rastrigin function in two dimensions."""
    import jax
    import jax.numpy as jnp

    from softqd.registry import PROBLEMS

    problem = PROBLEMS["linear_projection"](behavior_dim=2, solution_dim=2)
    side = jnp.linspace(-5.12, 5.12, resolution)
    x = jnp.stack(jnp.meshgrid(side, side), -1).reshape(-1, 2)
    quality = jax.vmap(lambda x: problem.evaluate(x)[0])(x)
    with matplotlib.rc_context({**_STYLE, "axes.grid": False}):
        figure = Figure(figsize=(4.6, 3.8), layout="constrained")
        axes = figure.subplots()
        image = axes.imshow(
            np.asarray(quality).reshape(resolution, resolution),
            extent=(-5.12, 5.12, -5.12, 5.12),
            origin="lower",
            cmap="viridis",
        )
        axes.plot(2.048, 2.048, "x", color="white")
        axes.set(xlabel="x1", ylabel="x2")
        figure.colorbar(image, ax=axes, label="quality")
    return figure


def save_run_figures(directory: Path, result: Result, problem: Problem) -> list[Path]:
    """Write the figures of a run folder and return their paths."""
    population = result.population.compact()
    quality, behavior = map(np.asarray, (population.quality, population.behavior))
    if not len(quality):
        return []
    directory.mkdir(parents=True, exist_ok=True)
    bounds = problem.bounds(behavior.shape[1])
    figures = {
        "behavior": behavior_scatter(quality, behavior, bounds),
        "quality": quality_histogram(quality),
        "history": history_curves(result.history),
    }
    if behavior.shape[1] > 1:
        figures["value_map"] = value_map(quality, behavior, bounds)
    paths = []
    for name, figure in figures.items():
        paths.append(directory / f"{name}.png")
        figure.savefig(paths[-1])
    return paths


class _Field(NamedTuple):
    """Maps of populations on one scale."""

    maps: dict[str, metrics.ValueMap]
    brightest: float
    note: str  # what a title must say


def _field(populations, bounds, resolution, dims, others, sigma) -> _Field:
    everyone = np.concatenate([behavior for _, behavior in populations.values()])
    sides = _finite_bounds(everyone, bounds)
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


def _finite_bounds(behavior, bounds):
    low, high = (np.array(side, dtype=float) for side in bounds)
    low = np.where(np.isfinite(low), low, behavior.min(0))
    high = np.where(np.isfinite(high), high, behavior.max(0))
    return low, np.where(high > low, high, low + 1.0)
