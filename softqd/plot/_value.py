"""Figures of the behavior value: maps and surfaces. Light is inferno."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np

from softqd import metrics
from softqd.plot._found import Found, View, finite_bounds, views
from softqd.plot._style import LIGHT, Figure, color_bar, drawing, plain
from softqd.types import Problem

# Width of a solution's light on a map, as a share of the wider side of the space.
MAP_SIGMA = 0.03
_STEM: dict[Any, Any] = {"color": "black", "linewidth": 0.8, "zorder": 3}


def value_map(
    found: Found,
    problem: Problem | None = None,
    *,
    bounds: Any = None,
    level: float | None = None,
    dims: tuple[int, int] = (0, 1),
    others: Any = "max",
    sigma: float | None = None,
    resolution: int = 200,
    title: str = "behavior value",
) -> Figure:
    """How brightly a population lights two dimensions of the behavior space.

    `softqd.metrics.value_map` as a picture; every dot is a solution.

    Args:
        found: A `softqd.Result`, a `softqd.Population` or ``(quality, behavior)``.
        problem: Gives bounds, names of behaviors and the quality level.
        bounds: ``(low, high)`` instead, numbers or vectors. What neither says, or says
            to be infinite, is the population's range.
        level: From where quality is measured; what is below gives no light. By default
            the result's level, or else the problem's, or 0.
        dims: The dimensions along x and y.
        others: "max", or the values at which the other dimensions are fixed.
        sigma: Width of a solution's light; by default 3% of the wider side.
        resolution: Points along each side.
        title: Above the map, with the width of a solution's light.

    Raises:
        ValueError: If there is no solution, or only one behavior.

    Examples:
        >>> import softqd
        >>> problem = softqd.problems.arm()
        >>> result = softqd.run(softqd.squad(problem), num_iterations=2)
        >>> figure = softqd.plot.value_map(result, problem)
        >>> figure.axes[0].get_xlabel()
        'x of hand (arm lengths)'
    """
    return value_maps(
        {title: found},
        problem,
        bounds=bounds,
        level=level,
        dims=dims,
        others=others,
        sigma=sigma,
        resolution=resolution,
    )


def value_maps(
    several: Mapping[str, Found],
    problem: Problem | None = None,
    *,
    bounds: Any = None,
    level: float | None = None,
    dims: tuple[int, int] = (0, 1),
    others: Any = "max",
    sigma: float | None = None,
    resolution: int = 200,
) -> Figure:
    """Several populations side by side, on one scale.

    Args:
        several: Titles to results, populations or ``(quality, behavior)``.
        problem: Of all of them; this and what follows as for `value_map`.
        bounds: ``(low, high)``; the range of all where they are not known.
        level: From where quality is measured; by default the lowest of theirs.
        dims: The dimensions along x and y.
        others: "max", or the values at which the other dimensions are fixed.
        sigma: Width of a solution's light; by default 3% of the wider side.
        resolution: Points along each side.
    """
    shown = views(several, problem, bounds, level)
    field = light_field(shown, resolution, dims, others, sigma)
    with drawing(3.8 * len(shown) + 0.8, 3.8, axes_grid=False) as figure:
        grid = figure.subplots(1, len(shown), squeeze=False)[0]
        for axes, (title, one) in zip(grid, shown.items(), strict=True):
            draw_map(axes, field.maps[title], field.brightest, field.names)
            places = one.behavior[:, dims].T
            axes.scatter(*places, s=1.5, color="white", alpha=0.6, linewidths=0)
            axes.set_title(f"{title} ({field.note})", fontsize=9)
        color_bar(figure, grid, (0, field.brightest), "behavior value", LIGHT)
    return figure


def surfaces(
    several: Mapping[str, Found],
    problem: Problem | None = None,
    *,
    bounds: Any = None,
    level: float | None = None,
    dims: tuple[int, int] = (0, 1),
    others: Any = "max",
    sigma: float | None = None,
    resolution: int = 80,
) -> Figure:
    """The behavior value as a surface over the space.

    Solutions stand at the height of their quality. Arguments as for `value_maps`.
    """
    shown = views(several, problem, bounds, level)
    field = light_field(shown, resolution, dims, others, sigma)
    with drawing(4.2 * len(shown) + 0.8, 4.0) as figure:
        grid = figure.subplots(
            1, len(shown), squeeze=False, subplot_kw={"projection": "3d"}
        )[0]
        for axes, (title, one) in zip(grid, shown.items(), strict=True):
            _draw_surface(axes, field.maps[title], field.brightest, field.names)
            height, (x, y) = one.quality - one.level, one.behavior[:, dims].T
            for stem in zip(x, y, height, strict=True):
                axes.plot(*zip((*stem[:2], 0), stem, strict=True), **_STEM)
            axes.scatter(x, y, height, color="black", s=14, depthshade=False, zorder=4)
            axes.set_title(f"{title} ({field.note})", fontsize=9)
        color_bar(figure, grid, (0, field.brightest), "behavior value", "viridis")
    return figure


class Field(NamedTuple):
    """Maps of populations on one scale."""

    maps: dict[str, metrics.ValueMap]
    brightest: float
    names: tuple[str, str]  # of the two behaviors
    note: str  # what a title must say


def light_field(
    shown: Mapping[str, View],
    resolution: int,
    dims: tuple[int, int] = (0, 1),
    others: Any = "max",
    sigma: float | None = None,
) -> Field:
    """The behavior value of every population on one grid.

    Raises:
        ValueError: If there is one behavior only.
    """
    everyone = np.concatenate([one.behavior for one in shown.values()])
    num_dims = everyone.shape[1]
    if num_dims < 2:
        raise ValueError(
            "a map of the behavior value needs two behaviors or more; this population "
            "has one, draw a 'scatter' instead"
        )
    first = next(iter(shown.values()))
    sides = finite_bounds(everyone, first.bounds)
    if sigma is None:
        sigma = MAP_SIGMA * float((sides[1] - sides[0])[list(dims)].max())
    maps = {
        title: metrics.value_map(
            one.light,
            one.behavior,
            sigma,
            dims=dims,
            others=others,
            bounds=sides,
            resolution=resolution,
        )
        for title, one in shown.items()
    }
    brightest = max(float(one.light.max()) for one in shown.values())
    note = f"sigma {sigma:.3g}"
    if num_dims > 2:
        is_fixed = not isinstance(others, str)
        note += ", others fixed" if is_fixed else ", maximum over the others"
    return Field(
        maps, brightest or 1.0, (first.names[dims[0]], first.names[dims[1]]), note
    )


def draw_map(
    axes: Any, drawn: metrics.ValueMap, brightest: float, names: Sequence[str]
) -> None:
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
    axes.set(xlabel=plain(names[0]), ylabel=plain(names[1]))


def _draw_surface(axes, drawn, brightest, names):
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
    axes.set(xlabel=plain(names[0]), ylabel=plain(names[1]))
    axes.set_zlabel("quality")
    axes.view_init(elev=28, azim=-60)
