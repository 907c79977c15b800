"""Tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table

from softqd.experiment.many.comparison import Comparison, Entry
from softqd.experiment.many.sweep import Sweep
from softqd.experiment.words import BEST, NOT_WORSE


def comparison_table(comparison: Comparison) -> Table:
    """Metrics by algorithms: mean and standard error, the best in bold and starred."""
    table = _table("Metrics of the final populations")
    for name in (*comparison.algorithms, "p of all"):
        table.add_column(name, justify="right")
    for metric, found in comparison.statistics.items():
        if found is not None:
            cells = (_cell(name, found) for name in comparison.algorithms)
            label = metric.replace("_", " ")
            table.add_row(label, *cells, _p_text(found["kruskal_p"]))
    return table


def budget_table(comparison: Comparison) -> Table:
    """What the runs of every algorithm spent."""
    budget = f"{comparison.evaluations:,}"
    table = _table(f"Spent, of at most {budget} evaluations a run")
    columns = {
        "iterations": "iterations",
        "evaluations": "evaluations",
        "gradient_evaluations": "gradients",
        "seconds": "seconds",
    }
    for title in ("runs", *columns.values()):
        table.add_column(title, justify="right")
    for name, entry in comparison.algorithms.items():
        table.add_row(name, _runs(entry), *(_spent(entry, key) for key in columns))
    return table


def sweep_table(sweep: Sweep) -> Table:
    """Settings by metrics: mean and standard error, the best in bold and starred."""
    comparison = sweep.comparison
    shown = dict.fromkeys([sweep.metric, "mean_quality", "vendi_score"])
    shown = [name for name in shown if comparison.statistics[name]]
    budget = f"{comparison.evaluations:,}"
    table = Table(
        title=f"Settings of {sweep.algorithm}, {budget} evaluations a run",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for name in (*sweep.grid, "runs", *(m.replace("_", " ") for m in shown)):
        table.add_column(name, justify="right", overflow="fold")
    for label, entry in comparison.algorithms.items():
        values = [str(value) for value in sweep.points[label].values()]
        cells = [_cell(label, comparison.statistics[metric] or {}) for metric in shown]
        is_best = label == sweep.best
        table.add_row(*values, _runs(entry), *cells, style="bold" if is_best else None)
    return table


def kinds_table(kinds: Mapping[str, Any]) -> Table:
    """What ``softqd figure`` can draw."""
    table = _table("Figures")
    for title in ("of a", "shows"):
        table.add_column(title)
    for name, kind in kinds.items():
        table.add_row(name, kind.takes, kind.about)
    return table


def _runs(entry: Entry) -> str:
    done, wanted = len(entry.seeds), len(entry.seeds) + len(entry.failures)
    return f"{done}" if done == wanted else f"{done} of {wanted}"


def _table(title: str) -> Table:
    return Table("", title=title, title_justify="left", box=box.SIMPLE_HEAD)


def _cell(name: str, found: dict[str, Any]) -> str:
    row = found["algorithms"].get(name)
    if row is None:
        return "-"
    error = "" if row["stderr"] is None else f" ± {row['stderr']:.2g}"
    if name == found["best"]:
        return f"[bold]{row['mean']:.4g}{BEST}{error}[/bold]"
    mark = NOT_WORSE if name in found["not_worse"] else ""
    return f"{row['mean']:.4g}{mark}{error}"


def _spent(entry: Entry, key: str) -> str:
    """The mean over seeds; seeds that ran together share their seconds."""
    values = [value for value in entry.values[key] if value is not None]
    if not values:
        return "-"
    mean = math.fsum(values) / len(values)
    return f"{mean:.3g}" if key == "seconds" else f"{mean:,.0f}"


def _p_text(p: float | None) -> str:
    if p is None:
        return "-"
    return "<0.001" if p < 0.001 else f"{p:.3f}"
