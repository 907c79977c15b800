"""Figures of one run. Every function takes arrays, draws, and returns a figure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from softqd.experiment.result import Result
from softqd.report.fields import finite_bounds, value_map
from softqd.report.gallery import (
    behavior_names,
    gallery,
    picture_table,
    representatives,
)
from softqd.report.style import (
    BEST,
    MAX_VECTOR_MARKS,
    MEAN,
    ONE,
    QUALITY,
    STYLE,
    plain,
    save_figure,
)
from softqd.types import Problem

# Up to this dimension every pair of behaviors gets its own panel.
MAX_PAIRED_DIM = 4


def behavior_scatter(
    quality: Float[np.ndarray, " n"],
    behavior: Float[np.ndarray, "n d"],
    bounds: tuple[np.ndarray, np.ndarray] | None = None,
    names: Sequence[str] | None = None,
) -> Figure:
    """The population in behavior space, colored by quality.

    Every pair of dimensions up to four of them, else the two leading principal
    components; a single dimension is drawn against quality.

    Args:
        quality: Qualities.
        behavior: Behaviors in the declared space.
        bounds: ``(low, high)`` of the space, to fix the axes where finite.
        names: Of the behaviors; by default numbers from 1.
    """
    dim = behavior.shape[1]
    names = [plain(n) for n in names or (f"behavior {i + 1}" for i in range(dim))]
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
    with matplotlib.rc_context(STYLE):
        figure = Figure(
            figsize=(3.4 * num_columns + 0.8, 3.1 * num_rows), layout="constrained"
        )
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
            if pair is not None and bounds is not None:
                _limit_axes(axes, bounds, pair)
        colors = ScalarMappable(Normalize(quality.min(), quality.max()), QUALITY)
        figure.colorbar(colors, ax=list(grid), label="quality", shrink=0.8)
    return figure


def parallel_coordinates(
    quality: Float[np.ndarray, " n"],
    behavior: Float[np.ndarray, "n d"],
    bounds: tuple[np.ndarray, np.ndarray] | None = None,
    names: Sequence[str] | None = None,
) -> Figure:
    """Every solution as a line across all behaviors, colored by quality.

    Each axis runs from the low to the high bound of its behavior, which are written
    below and above it; without bounds, over the population's range.

    Args:
        quality: Qualities.
        behavior: Behaviors in the declared space.
        bounds: ``(low, high)`` of the space.
        names: Of the behaviors; by default numbers from 1.
    """
    dim = behavior.shape[1]
    names = [plain(n) for n in names or (f"behavior {i + 1}" for i in range(dim))]
    infinite = (np.full(dim, -np.inf), np.full(dim, np.inf))
    low, high = finite_bounds(behavior, bounds or infinite)
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
    with matplotlib.rc_context({**STYLE, "axes.grid": False}):
        size = (max(3.6, 0.9 * dim + 1.4), 3.2)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
        axes.add_collection(lines)
        for k in range(dim):
            axes.axvline(k, color="0.3", linewidth=0.8)
            axes.text(k, 1.02, f"{high[k]:.3g}", ha="center", va="bottom", fontsize=7)
        ticks = [f"{low[k]:.3g}\n{names[k]}" for k in range(dim)]
        axes.set_xticks(range(dim), ticks, fontsize=7)
        axes.set(xlim=(-0.2, dim - 0.8), ylim=(0, 1), yticks=[])
        axes.spines["left"].set_visible(False)
        colors = ScalarMappable(Normalize(quality.min(), quality.max()), QUALITY)
        figure.colorbar(colors, ax=axes, label="quality", shrink=0.8)
    return figure


def quality_histogram(quality: Float[np.ndarray, " n"]) -> Figure:
    """How the qualities are distributed, with their mean and best."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.2, 2.8), layout="constrained")
        axes = figure.subplots()
        axes.hist(quality, bins=min(40, max(5, len(quality) // 10)), color=ONE)
        axes.axvline(quality.mean(), color=MEAN, label=f"mean {quality.mean():.4g}")
        axes.axvline(quality.max(), color=BEST, label=f"best {quality.max():.4g}")
        axes.set(xlabel="quality", ylabel="solutions")
        axes.legend(frameon=False)
    return figure


def history_curves(history: Mapping[str, np.ndarray]) -> Figure:
    """Mean and best quality against evaluations."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.2, 2.8), layout="constrained")
        axes = figure.subplots()
        for name, color in (("mean_quality", MEAN), ("max_quality", BEST)):
            label = name.replace("_", " ").replace("max", "best")
            axes.plot(history["evaluations"], history[name], color=color, label=label)
        axes.set(xlabel="evaluations", ylabel="quality")
        axes.legend(frameon=False)
    return figure


def bandwidth_curves(history: Mapping[str, np.ndarray]) -> Figure:
    """SQUAD's bandwidth, and how much solutions overlap at it, against evaluations."""
    with matplotlib.rc_context({**STYLE, "axes.spines.right": True}):
        figure = Figure(figsize=(4.2, 2.8), layout="constrained")
        left = figure.subplots()
        right = left.twinx()
        for axes, name, color, line in (
            (left, "gamma_sq", MEAN, "-"),
            (right, "overlap", BEST, "--"),
        ):
            y = np.asarray(history[name], float)
            axes.plot(history["evaluations"], y, line, color=color)
            axes.set_ylabel(name, color=color)
            axes.tick_params(axis="y", labelcolor=color)
            if (y > 0).any():
                axes.set_yscale("log")
        right.grid(False)
        left.set(xlabel="evaluations")
        left.locator_params(axis="x", nbins=4)
    return figure


def quality_histories(histories: Mapping[str, Mapping[str, list]]) -> Figure:
    """Mean and best quality against evaluations, a panel per problem, a line per seed.

    Args:
        histories: Problem name to columns, each a list with one list per seed.
    """
    with matplotlib.rc_context(STYLE):
        size = (3.2 * max(1, len(histories)) + 0.4, 2.7)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(1, max(1, len(histories)), squeeze=False, sharey=True)
        for axes, (name, history) in zip(grid[0], histories.items(), strict=False):
            for column, color in (
                ("mean_quality", MEAN),
                ("max_quality", BEST),
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
    with matplotlib.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(4.6, 3.8), layout="constrained")
        axes = figure.subplots()
        image = axes.imshow(
            np.asarray(quality).reshape(resolution, resolution),
            extent=(-5.12, 5.12, -5.12, 5.12),
            origin="lower",
            cmap=QUALITY,
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
    bounds = problem.bounds(behavior.shape[1])
    names = behavior_names(problem, behavior.shape[1])
    figures = {
        "behavior": behavior_scatter(quality, behavior, bounds, names),
        "quality": quality_histogram(quality),
        "history": history_curves(result.history),
    }
    if "overlap" in result.history:
        figures["bandwidth"] = bandwidth_curves(result.history)
    if behavior.shape[1] > 1:
        light = quality - result.quality_level
        figures["value_map"] = value_map(light, behavior, bounds)
    if problem.render is not None:
        figures["gallery"] = gallery(problem, population)
        if np.isfinite(bounds).all():
            level = result.quality_level
            shown = representatives(problem, population, level=level)
            figures["representatives"] = shown
        if behavior.shape[1] == 2:
            figures["table"] = picture_table(problem, population)
    return [save_figure(f, directory / f"{name}.png") for name, f in figures.items()]


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
