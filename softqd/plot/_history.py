"""Figures of how a run went, against evaluations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from softqd.experiment.result import Result
from softqd.experiment.words import label_of
from softqd.plot._style import BEST, MEAN, Figure, drawing

# A result, or the history of one: columns of equal length.
Run = Result | Mapping[str, Any]
_QUALITIES = (("mean_quality", MEAN), ("max_quality", BEST))


def columns_of(run: Run) -> Mapping[str, Any]:
    """The history of a run."""
    return run.history if isinstance(run, Result) else run


def history(run: Run) -> Figure:
    """Mean and best quality against evaluations.

    Args:
        run: A `softqd.Result`, or its ``history``.
    """
    columns = columns_of(run)
    with drawing(4.2, 2.8) as figure:
        axes = figure.subplots()
        for name, color in _QUALITIES:
            x, y = columns["evaluations"], columns[name]
            axes.plot(x, y, color=color, label=label_of(name))
        axes.set(xlabel="evaluations", ylabel="quality")
        axes.legend(frameon=False)
    return figure


def histories(several: Mapping[str, Sequence[Run]]) -> Figure:
    """Mean and best quality against evaluations, a panel for each title.

    Args:
        several: Titles to runs, each a line; the runs of several seeds, say.
    """
    num_panels = max(1, len(several))
    with drawing(3.2 * num_panels + 0.4, 2.7) as figure:
        grid = figure.subplots(1, num_panels, squeeze=False, sharey=True)
        for axes, (title, runs) in zip(grid[0], several.items(), strict=False):
            for name, color in _QUALITIES:
                for number, run in enumerate(runs):
                    x, y = columns_of(run)["evaluations"], columns_of(run)[name]
                    label = None if number else label_of(name)
                    axes.plot(x, y, color=color, linewidth=0.8, label=label)
            axes.set(xlabel="evaluations", title=title)
        grid[0, 0].set_ylabel("quality")
        if several:
            grid[0, -1].legend(frameon=False)
    return figure


def bandwidth(run: Run) -> Figure:
    """SQUAD's bandwidth, and how much solutions overlap at it, against evaluations.

    Args:
        run: A `softqd.Result` of `softqd.squad`, or its ``history``.

    Raises:
        ValueError: If it does not log them.
    """
    columns = columns_of(run)
    if "overlap" not in columns:
        raise ValueError(
            "a figure of the bandwidth needs a run of SQUAD, which logs overlap; this "
            f"one logs {', '.join(columns)}"
        )
    with drawing(4.2, 2.8, axes_spines_right=True) as figure:
        left = figure.subplots()
        right = left.twinx()
        for axes, name, color, line in (
            (left, "gamma_sq", MEAN, "-"),
            (right, "overlap", BEST, "--"),
        ):
            y = np.asarray(columns[name], float)
            axes.plot(columns["evaluations"], y, line, color=color)
            axes.set_ylabel(name, color=color)
            axes.tick_params(axis="y", labelcolor=color)
            if (y > 0).any():
                axes.set_yscale("log")
        right.grid(False)
        left.set(xlabel="evaluations")
        left.locator_params(axis="x", nbins=4)
    return figure
