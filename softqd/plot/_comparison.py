"""Figures of several runs: curves, distributions, settings, a trade-off.

Functions that are named ``draw`` take plain numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from softqd.experiment.many.comparison import COMPARED, Comparison
from softqd.experiment.many.sweep import Sweep
from softqd.experiment.words import label_of
from softqd.ops.names import lookup
from softqd.plot._history import Run, columns_of
from softqd.plot._style import Figure, drawing, look

Curve = tuple[Float[np.ndarray, " t"], Float[np.ndarray, "seeds t"]]
# A ratio of the largest and the smallest value from which an axis is logarithmic.
_LOG_RATIO = 20.0


def curves(runs: Mapping[str, Sequence[Run]], column: str = "mean_quality") -> Figure:
    """Mean over seeds against evaluations, with a band of one standard error.

    Args:
        runs: Algorithm to its runs, one per seed: a `softqd.Result`, or its history.
        column: What is drawn, of what the runs log.

    Raises:
        ValueError: If a run does not log it, or there are no runs.

    Examples:
        >>> import softqd
        >>> algorithm = softqd.squad(softqd.problems.sphere(), population_size=16)
        >>> runs = softqd.run(algorithm, seed=[0, 1], num_iterations=2, log_every=1)
        >>> softqd.plot.curves({"squad": runs}).axes[0].get_title()
        'mean ± standard error, 2 seeds'
    """
    bands = {}
    for name, several in runs.items():
        histories = [columns_of(run) for run in several]
        for history in histories:
            lookup("column", column, history, f"{name} logs {', '.join(history)}")
        if histories:
            num = min(len(history[column]) for history in histories)
            rows = np.stack([history[column][:num] for history in histories])
            bands[name] = (histories[0]["evaluations"][:num], rows)
    if not bands:
        raise ValueError("no run has finished: there is nothing to draw")
    return draw_bands(bands, label_of(column))


def distributions(found: Comparison | Sweep, metric: str | None = None) -> Figure:
    """Every run of a metric, or of all metrics, in a panel each.

    Args:
        found: From `softqd.compare` or `softqd.sweep`.
        metric: A name of `softqd.metrics.METRICS`; by default all that have values.

    Raises:
        ValueError: If the metric is unknown, or has no value in any run.
    """
    found = _comparison_of(found)
    names = [metric] if metric else [n for n in COMPARED if found.statistics[n]]
    return draw_boxes(
        {
            label_of(name): {a: _values(found, a, name) for a in found.algorithms}
            for name in names
        }
    )


def setting_curves(sweep: Sweep, metric: str | None = None) -> Figure:
    """A metric against the first setting of a sweep that has several values.

    A line for each combination of the others.

    Args:
        sweep: From `softqd.sweep`.
        metric: A name of `softqd.metrics.METRICS`; by default the one it searched by.

    Raises:
        ValueError: If the metric is unknown, or has no value in any run.
    """
    metric = metric or sweep.metric
    long = [name for name, values in sweep.grid.items() if len(values) > 1]
    name = long[0] if long else next(iter(sweep.grid))
    series: dict[str, tuple[list, list]] = {}
    for label, point in sweep.points.items():
        values = _values(sweep.comparison, label, metric)
        others = [f"{k}={v}" for k, v in point.items() if k in long and k != name]
        xs, ys = series.setdefault(", ".join(others), ([], []))
        if values:
            xs.append(point[name])
            ys.append(values)
    series = {key: value for key, value in series.items() if value[0]}
    return draw_settings(series, name, label_of(metric))


def tradeoff(found: Comparison | Sweep) -> Figure:
    """Vendi score against mean quality, a point for every algorithm or setting.

    Args:
        found: From `softqd.compare` or `softqd.sweep`; the points of a sweep over one
            setting are joined.
    """
    is_line = False
    if isinstance(found, Sweep):
        is_line = sum(len(values) > 1 for values in found.grid.values()) == 1
    comparison = _comparison_of(found)
    points = {}
    for name in comparison.algorithms:
        x = _values(comparison, name, "vendi_score")
        y = _values(comparison, name, "mean_quality")
        if x and y:
            points[name] = (x, y)
    return draw_tradeoff(points, connect=is_line)


def draw_bands(
    curves: Mapping[str, Curve],
    y_label: str = "quality",
    x_label: str = "evaluations",
) -> Figure:
    """Mean over seeds against evaluations, with a band of one standard error.

    Args:
        curves: Name to ``(x, y)``, ``y`` with a row per seed; NaN is left out.
        y_label: What is drawn.
        x_label: Against what.

    Examples:
        >>> x, y = np.arange(3), np.array([[0.0, 1.0, 2.0], [0.0, 3.0, 4.0]])
        >>> draw_bands({"squad": (x, y)}).axes[0].lines[0].get_ydata().tolist()
        [0.0, 2.0, 3.0]
    """
    with drawing(_width(curves), 3.2) as figure:
        axes = figure.subplots()
        for number, (name, (x, y)) in enumerate(curves.items()):
            x, y = np.asarray(x, float), np.asarray(y, float)
            keep = ~np.isnan(y).all(0)
            mean, error = mean_and_error(y[:, keep].T)
            style = {**look(number), "markevery": max(1, keep.sum() // 8), "ms": 4}
            (line,) = axes.plot(x[keep], mean, label=name, **style)
            axes.fill_between(
                x[keep],
                mean - error,
                mean + error,
                color=line.get_color(),
                alpha=0.2,
                linewidth=0,
            )
        seeds = {len(y) for _, y in curves.values()}
        axes.set(xlabel=x_label, ylabel=y_label)
        axes.locator_params(axis="x", nbins=5)
        axes.set_title(f"mean ± standard error, {_seeds_text(seeds)}", fontsize=8)
        _legend(figure)
    return figure


def draw_boxes(values: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """A panel per metric: a box and the runs themselves for every algorithm.

    Boxes span the quartiles, whiskers all runs, the line is the median.

    Args:
        values: Metric to algorithm to one value per seed.
    """
    num_columns = min(3, len(values))
    num_rows = -(-len(values) // num_columns)
    num_names = max(len(table) for table in values.values())
    width = max(2.6, 0.55 * num_names + 1.0)
    size = (width * num_columns, 2.7 * num_rows)
    with drawing(*size, axes_grid_axis="y") as figure:
        grid = figure.subplots(num_rows, num_columns, squeeze=False).ravel()
        for axes, (metric, table) in zip(grid, values.items(), strict=False):
            _draw_box(axes, table)
            axes.set_ylabel(metric)
        for axes in grid[len(values) :]:
            axes.set_axis_off()
    return figure


def draw_settings(
    series: Mapping[str, tuple[Sequence[Any], Sequence[Sequence[float]]]],
    x_label: str,
    y_label: str,
) -> Figure:
    """A metric against a setting: mean and standard error over seeds.

    Args:
        series: Name, empty for a single one, to ``(x, y)``: values of the setting and,
            for each, one value of the metric per seed. Numbers are drawn to scale, on
            a logarithmic axis where they differ much, other values side by side.
        x_label: The setting.
        y_label: The metric.
    """
    everything = [x for xs, _ in series.values() for x in xs]
    is_number = all(_is_number(x) for x in everything)
    categories = list(dict.fromkeys(map(str, everything)))
    with drawing(_width(series), 3.2) as figure:
        axes = figure.subplots()
        for number, (name, (xs, ys)) in enumerate(series.items()):
            mean, error = mean_and_error(ys)
            places = xs if is_number else [categories.index(str(x)) for x in xs]
            order = np.argsort(places)
            axes.errorbar(
                np.asarray(places, float)[order],
                mean[order],
                error[order],
                capsize=3,
                linestyle="-" if is_number else "none",
                label=name,
                **look(number),
            )
        if is_number and min(everything) > 0:
            ratio = max(everything) / min(everything)
            axes.set_xscale("log" if ratio >= _LOG_RATIO else "linear")
        if not is_number:
            axes.set_xticks(range(len(categories)), categories)
            axes.tick_params(axis="x", rotation=20)
        axes.set(xlabel=x_label, ylabel=y_label)
        if any(series):
            _legend(figure)
    return figure


def draw_tradeoff(
    points: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    x_label: str = "Vendi score",
    y_label: str = "mean quality",
    connect: bool = False,
) -> Figure:
    """Diversity against quality: a point with standard errors for every setting.

    Args:
        points: Name to the values along x and along y, one per seed each.
        x_label: What lies along x.
        y_label: What lies along y.
        connect: Join the points in their order, as for values of one setting.
    """
    with drawing(_width(points), 3.6) as figure:
        axes = figure.subplots()
        centers = []
        for number, (name, (x, y)) in enumerate(points.items()):
            (mean_x, mean_y), (error_x, error_y) = mean_and_error([x, y])
            axes.errorbar(
                mean_x, mean_y, error_y, error_x, capsize=2, label=name, **look(number)
            )
            centers.append((mean_x, mean_y))
        if connect:
            axes.plot(*np.array(centers).T, color="0.6", linewidth=0.8, zorder=0)
        axes.set(xlabel=x_label, ylabel=y_label)
        _legend(figure)
    return figure


def mean_and_error(rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error of every row; the error of a single value is 0.

    Examples:
        >>> mean_and_error([[1.0, 3.0], [5.0]])
        (array([2., 5.]), array([1., 0.]))
    """
    kept = [np.asarray(row, float) for row in rows]
    kept = [row[~np.isnan(row)] for row in kept]
    means = np.array([row.mean() if len(row) else np.nan for row in kept])
    errors = [r.std(ddof=1) / np.sqrt(len(r)) if len(r) > 1 else 0.0 for r in kept]
    return means, np.array(errors)


def _draw_box(axes: Any, table: Mapping[str, Sequence[float]]) -> None:
    names = [name for name, values in table.items() if len(values)]
    boxes = axes.boxplot(
        [table[name] for name in names],
        whis=(0, 100),
        showfliers=False,
        widths=0.6,
        medianprops={"color": "black"},
    )
    for number, name in enumerate(names):
        style = look(list(table).index(name))
        for part in (boxes["boxes"][number], *boxes["whiskers"][2 * number :][:2]):
            part.set_color(style["color"])
        values = np.sort(np.asarray(table[name], float))
        # Side by side in the order of their values, so that equal ones are seen.
        shift = (np.arange(len(values)) % 3 - 1) * 0.12
        axes.plot(
            number + 1 + shift, values, linestyle="none", ms=3.5, alpha=0.7, **style
        )
    axes.set_xticks(range(1, len(names) + 1), names, rotation=30, ha="right")


def _comparison_of(found: Comparison | Sweep) -> Comparison:
    return found.comparison if isinstance(found, Sweep) else found


def _values(comparison: Comparison, name: str, metric: str) -> list[float]:
    """Finished values of a metric.

    Raises:
        ValueError: If the metric is unknown, or has no value in any run.
    """
    see = f"choose from {', '.join(COMPARED)}"
    lookup("metric", metric, dict.fromkeys(COMPARED), see)
    if comparison.statistics[metric] is None:
        why = comparison.notes.get(metric, "no run has a value")
        raise ValueError(f"metric {metric!r} has no value in these runs: {why}")
    return [v for v in comparison.algorithms[name].values[metric] if v is not None]


def _width(names: Iterable[str]) -> float:
    """Inches for the axes, and for a legend of these names beside them."""
    return 4.4 + 0.065 * max(map(len, names), default=0)


def _legend(figure: Figure) -> None:
    """Beside the axes, where it hides nothing."""
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _seeds_text(counts: set[int]) -> str:
    low, high = min(counts), max(counts)
    number = f"{low}" if low == high else f"{low} to {high}"
    return f"{number} seed{'s' * (high != 1)}"
