"""Figures of the paper, drawn from records. Every function returns a figure.

Colors are Okabe and Ito's, which color-blind eyes tell apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from softqd.experiment.words import NAMES
from softqd.paper.agreement import mean_of, printed
from softqd.paper.cases import METHODS, Case, Cell
from softqd.paper.catalog import Reproduction
from softqd.paper.claims import SCORES
from softqd.paper.record import Record, is_quick
from softqd.paper.tables import found_cases, title_of
from softqd.plot import PALETTE, Figure, drawing
from softqd.registry import PROBLEMS

_GRAY = "#7F7F7F"
_BLUE, _RED, _GREEN, _PINK, _ORANGE, _SKY, _ = PALETTE
# In the order of `METHODS`.
COLORS = dict(
    zip(METHODS, (_BLUE, _RED, _ORANGE, _GREEN, _SKY, _PINK, _GRAY), strict=True)
)


def draw(spec: Reproduction, records: Mapping[str, Record]) -> Figure:
    """The figure of a reproduction, its title labeled where the runs were quick."""
    pairs = found_cases(spec, records)
    figure = FIGURES[spec.figure](pairs, spec.setting)
    figure.suptitle(title_of(spec, records.values()), fontsize=10)
    return figure


def score_bars(pairs: Sequence[tuple[Case, Record]], setting: str = "") -> Figure:
    """QD score and QVS of every method, a group of bars per problem."""
    presets = list(dict.fromkeys(case.preset for case, _ in pairs))
    methods: dict[str, Any] = {}  # to their bars
    with drawing(8.4, 3.2) as figure:
        grid = figure.subplots(1, 2)
        for axes, metric in zip(grid, SCORES, strict=True):
            for case, record in pairs:
                found = mean_of(record["metrics"][metric])
                place = list(METHODS).index(case.algorithm)
                methods[case.algorithm] = axes.bar(
                    presets.index(case.preset) + 0.12 * (place - 3),
                    found.value,
                    0.11,
                    yerr=np.nan_to_num(found.error),
                    color=COLORS[case.algorithm],
                    error_kw={"linewidth": 0.8},
                )
            axes.set_xticks(range(len(presets)), presets)
            axes.set(ylabel=NAMES[metric])
        drawn = [methods[name] for name in COLORS if name in methods]
        labels = [METHODS[name] for name in COLORS if name in methods]
        figure.legend(drawn, labels, loc="outside lower center", ncols=7, fontsize=7)
    return figure


def training_curves(pairs: Sequence[tuple[Case, Record]], setting: str = "") -> Figure:
    """SQUAD's QD score and QVS over its run, and where every baseline ended."""
    with drawing(8.4, 3.2) as figure:
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
    width = 5.0 if len(presets) == 1 else 3.2 * len(presets)
    with drawing(width, 3.2, axes_spines_right=True) as figure:
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
    with drawing(8.4, 1.1 + 0.3 * len(labels)) as figure:
        grid = figure.subplots(1, 2, sharey=True)
        for axes, metric in zip(grid, SCORES, strict=True):
            for place, (case, record) in enumerate(pairs):
                values = [v for v in record["metrics"][metric] if v is not None]
                found = mean_of(values)
                axes.plot(values, [place] * len(values), "|", color=_GRAY)
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


def landscape(resolution: int = 400) -> Figure:
    """Linear Projection's transformed Rastrigin function in two dimensions."""
    problem = PROBLEMS["linear_projection"](behavior_dim=2, solution_dim=2)
    side = jnp.linspace(-5.12, 5.12, resolution)
    x = jnp.stack(jnp.meshgrid(side, side), -1).reshape(-1, 2)
    quality = jax.vmap(lambda x: problem.evaluate(x)[0])(x)
    with drawing(4.6, 3.8, axes_grid=False) as figure:
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


FIGURES: dict[str, Callable[[Sequence[tuple[Case, Record]], str], Figure]] = {
    "score_bars": score_bars,
    "training_curves": training_curves,
    "tradeoff": tradeoff,
    "ablation": ablation,
}
