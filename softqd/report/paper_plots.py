"""Figures of the paper, drawn from records. Every function returns a figure.

Colors are Okabe and Ito's, which color-blind eyes tell apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from softqd import metrics
from softqd.experiment.paper.cases import METHODS, Case, Cell
from softqd.experiment.paper.record import Record, is_quick
from softqd.experiment.paper.reproductions import Reproduction
from softqd.report.claims import SCORES
from softqd.report.paper import mean_of, printed
from softqd.report.reproduction import found_cases, title_of
from softqd.report.style import STYLE
from softqd.report.words import NAMES

COLORS = {
    "squad_published": "#0072B2",
    "cma_maega": "#D55E00",
    "cma_mega": "#E69F00",
    "dns": "#009E73",
    "dns_g": "#56B4E9",
    "sep_cma_mae": "#CC79A7",
    "ga_me": "#7F7F7F",
}


def draw(spec: Reproduction, records: Mapping[str, Record]) -> Figure:
    """The figure of a reproduction, its title labeled where the runs were quick."""
    pairs = found_cases(spec, records)
    figure = FIGURES[spec.figure](pairs, spec.setting)
    figure.suptitle(title_of(spec, records.values()), fontsize=10)
    return figure


def score_bars(pairs: Sequence[tuple[Case, Record]], setting: str = "") -> Figure:
    """QD score and QVS of every method, a group of bars per problem."""
    presets = list(dict.fromkeys(case.preset for case, _ in pairs))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.4, 3.2), layout="constrained")
        grid = figure.subplots(1, 2)
        for axes, metric in zip(grid, SCORES, strict=True):
            for case, record in pairs:
                found = mean_of(record["metrics"][metric])
                place = list(METHODS).index(case.algorithm)
                axes.bar(
                    presets.index(case.preset) + 0.12 * (place - 3),
                    found.value,
                    0.11,
                    yerr=np.nan_to_num(found.error),
                    color=COLORS[case.algorithm],
                    error_kw={"linewidth": 0.8},
                )
            axes.set_xticks(range(len(presets)), presets)
            axes.set(ylabel=NAMES[metric])
        handles = [
            Patch(color=color, label=METHODS[name]) for name, color in COLORS.items()
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=7, fontsize=7)
    return figure


def training_curves(pairs: Sequence[tuple[Case, Record]], setting: str = "") -> Figure:
    """SQUAD's QD score and QVS over its run, and where every baseline ended."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.4, 3.2), layout="constrained")
        grid = figure.subplots(1, 2)
        for axes, metric in zip(grid, SCORES, strict=True):
            for case, record in pairs:
                color, history = COLORS[case.algorithm], record["history"]
                if metric in history:
                    _draw_curve(axes, history, metric, color, case.label)
                else:
                    final = mean_of(record["metrics"][metric])
                    label = f"{case.label}, final"
                    axes.axhline(final.value, color=color, linestyle="--", label=label)
            if axes.get_xlim()[1] > 200:  # where the paper says it has passed them
                axes.axvline(200, color="black", linewidth=0.7, linestyle=":")
            axes.set(xlabel="iteration of SQUAD", ylabel=NAMES[metric])
            axes.set_ylim(bottom=0)
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=7)
    return figure


def _draw_curve(axes: Any, history: Mapping, metric: str, color: str, label: str):
    """The mean over seeds, and a band from the lowest to the highest."""
    x = np.asarray(history["iteration"][0])
    y = np.asarray(history[metric], float)
    axes.plot(x, y.mean(0), color=color, label=label)
    axes.fill_between(x, y.min(0), y.max(0), color=color, alpha=0.25, linewidth=0)


def tradeoff(pairs: Sequence[tuple[Case, Record]], setting: str) -> Figure:
    """Mean quality and Vendi score against a setting, a panel per problem."""
    presets = list(dict.fromkeys(case.preset for case, _ in pairs))
    with matplotlib.rc_context({**STYLE, "axes.spines.right": True}):
        width = 5.0 if len(presets) == 1 else 3.2 * len(presets)
        figure = Figure(figsize=(width, 3.2), layout="constrained")
        grid = figure.subplots(1, len(presets), squeeze=False)[0]
        for preset, axes in zip(presets, grid, strict=True):
            found = [r for case, r in pairs if case.preset == preset]
            _draw_tradeoff(axes, found, setting)
            if len(presets) > 1:
                axes.set_title(preset)
    return figure


def _draw_tradeoff(left: Any, records: Sequence[Record], setting: str) -> None:
    """Quality on the left axis, diversity on the right, over a logarithmic one."""
    rows = sorted(records, key=lambda record: record["config"]["algorithm"][setting])
    x = [record["config"]["algorithm"][setting] for record in rows]
    right = left.twinx()
    for axes, metric, color, line in (
        (left, "mean_quality", COLORS["squad_published"], "-"),
        (right, "vendi_score", COLORS["cma_maega"], "--"),
    ):
        found = [mean_of(record["metrics"][metric]) for record in rows]
        axes.errorbar(
            x,
            [mean.value for mean in found],
            np.nan_to_num([mean.error for mean in found]),
            color=color,
            linestyle=line,
            marker="o",
            markersize=3,
        )
        axes.set_ylabel(NAMES[metric], color=color)
        axes.tick_params(axis="y", labelcolor=color)
    right.grid(False)
    left.set(xlabel=setting, xscale="log")


def ablation(pairs: Sequence[tuple[Case, Record]], setting: str) -> Figure:
    """QD score and QVS of every case, ours and the paper's, in its table's order."""
    labels = [case.label for case, _ in pairs]
    is_printed = any(case.paper and not is_quick(record) for case, record in pairs)
    with matplotlib.rc_context(STYLE):
        height = 1.1 + 0.3 * len(labels)
        figure = Figure(figsize=(8.4, height), layout="constrained")
        grid = figure.subplots(1, 2, sharey=True)
        for axes, metric in zip(grid, SCORES, strict=True):
            for place, (case, record) in enumerate(pairs):
                values = [v for v in record["metrics"][metric] if v is not None]
                found = mean_of(values)
                axes.plot(values, [place] * len(values), "|", color="#7F7F7F")
                error = np.nan_to_num(found.error)
                axes.errorbar(
                    found.value,
                    place,
                    xerr=error,
                    marker="o",
                    color=COLORS["squad_published"],
                )
                if metric in case.paper and not is_quick(record):
                    _draw_printed(axes, case.paper[metric], place)
            axes.set_yticks(range(len(labels)), labels)
            note = " (orange: the paper's)" if is_printed else ""
            axes.set(xlabel=NAMES[metric] + note)
            axes.set_xlim(left=0)
        grid[0].invert_yaxis()
    return figure


def _draw_printed(axes: Any, cell: Cell, place: int) -> None:
    """The paper's mean and standard error in our unit, a little below ours."""
    paper = printed(cell)
    axes.errorbar(
        paper.value / cell.factor,
        place + 0.22,
        xerr=paper.error / cell.factor,
        marker="D",
        markersize=4,
        color=COLORS["cma_maega"],
    )


def archives(
    populations: Mapping[str, tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n 2"]]],
    centroids: Float[np.ndarray, "m 2"],
    title: str,
) -> Figure:
    """Populations in one archive of cells, each cell lit by its best occupant.

    Args:
        populations: Titles to quality and behavior, in the unit square.
        centroids: Of the cells.
        title: Of the figure.
    """
    maps = {
        name: metrics.cell_map(np.maximum(quality, 0), behavior, centroids)
        for name, (quality, behavior) in populations.items()
    }
    brightest = max(float(np.nanmax(drawn.value)) for drawn in maps.values())
    with matplotlib.rc_context({**STYLE, "axes.grid": False}):
        size = (3.0 * len(maps) + 0.8, 3.4)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(1, len(maps), squeeze=False)[0]
        for axes, (name, drawn) in zip(grid, maps.items(), strict=True):
            axes.imshow(
                drawn.value,
                extent=(0, 1, 0, 1),
                origin="lower",
                cmap="viridis",
                vmin=0,
                vmax=brightest,
                interpolation="nearest",
            )
            axes.set(title=name, xlabel="behavior 1", ylabel="behavior 2")
        colors = ScalarMappable(Normalize(0, brightest), "viridis")
        figure.colorbar(colors, ax=list(grid), label="best quality of a cell")
        figure.suptitle(title, fontsize=10)
    return figure


FIGURES: dict[str, Callable[[Sequence[tuple[Case, Record]], str], Figure]] = {
    "score_bars": score_bars,
    "training_curves": training_curves,
    "tradeoff": tradeoff,
    "ablation": ablation,
}
