"""Writes docs/results.md and its figures from results/*.json, and from nothing else.

Run it with ``python -m softqd.report.results results docs``. Every number on the page
comes from a record or from the paper's tables; none is typed by hand.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from softqd.experiment.record import load_all
from softqd.report import plots

Record = dict[str, Any]

# Rows of the paper's table "Additional statistics from LP experiments".
LP_ROWS = {
    "lp-easy": "easy ($d=4$)",
    "lp-medium": "medium ($d=8$)",
    "lp-hard": "hard ($d=16$)",
}
# Ours to the paper's name, the factor to the paper's unit, its last printed digit.
LP_METRICS = {
    "mean_quality": ("mean_objective", 1.0, 0.01),
    "max_quality": ("max_objective", 1.0, 0.01),
    "vendi_score": ("vendi_score", 1.0, 0.01),
    "coverage": ("coverage_percent", 100.0, 0.1),
}
# Metrics to the tables that print them; then as for LP.
IC_METRICS = {
    "mean_quality": ("tab:ic_results (Table 1, IC)", "mean_objective", 1.0, 0.01),
    "max_quality": ("tab:ic_results (Table 1, IC)", "max_objective", 1.0, 0.01),
    "vendi_score": ("tab:ic_results (Table 1, IC)", "vendi_score", 1.0, 0.01),
    "coverage": ("tab:ic_results (Table 1, IC)", "coverage_percent", 100.0, 0.01),
    "qd_score": ("tab:app_ic_stats (IC)", "qd_score", 1.0, 0.1),
    "qvs": ("tab:app_ic_stats (IC)", "qvs", 1.0, 0.01),
}
# What the paper calls the algorithms.
METHODS = {
    "squad": "SQUAD",
    "cma_maega": "CMA-MAEGA",
    "cma_mega": "CMA-MEGA",
    "dns": "DNS",
    "dns_g": "DNS-G",
    "sep_cma_mae": "Sep-CMA-MAE",
    "ga_me": "GA-ME",
}
LABELS = {
    "mean_quality": "mean quality",
    "max_quality": "best quality",
    "vendi_score": "Vendi score",
    "qvs": "QVS",
    "qd_score": "QD score",
    "coverage": "coverage",
    "soft_qd_score": "Soft QD Score",
}


# Digits the paper prints, where they are not two.
_DIGITS = {(preset, "coverage"): 1 for preset in LP_ROWS} | {("ic", "qd_score"): 1}


class Mean(NamedTuple):
    """Mean and standard error over seeds."""

    value: float
    error: float

    def text(self, digits: int = 2) -> str:
        """As tables print it."""
        return f"{self.value:.{digits}f} ± {self.error:.{digits}f}"


class Comparison(NamedTuple):
    """Ours against the paper's, in the paper's unit."""

    ours: Mean
    paper: Mean
    num_errors: float  # difference in combined standard errors, after rounding
    is_within: bool  # at most three of them


def mean_of(values: list[float | None], factor: float = 1.0) -> Mean:
    """Mean and standard error of a metric over seeds."""
    numbers = factor * np.array([v for v in values if v is not None], dtype=float)
    if not len(numbers):
        return Mean(math.nan, math.nan)
    spread = numbers.std(ddof=1) if len(numbers) > 1 else math.nan
    return Mean(float(numbers.mean()), float(spread / math.sqrt(len(numbers))))


def compare(ours: Mean, paper: Mean, last_digit: float) -> Comparison:
    """Difference in combined standard errors, half a printed digit forgiven.

    Examples:
        >>> compare(Mean(1.0, 0.3), Mean(3.005, 0.4), 0.01).num_errors
        4.0
    """
    difference = max(0.0, abs(ours.value - paper.value) - last_digit / 2)
    combined = math.hypot(ours.error, paper.error)
    num_errors = difference / combined if combined else math.inf if difference else 0.0
    return Comparison(ours, paper, round(num_errors, 9), num_errors <= 3)


def paper_tables() -> dict[str, Any]:
    """The paper's result tables, ``[mean, standard error]`` by name."""
    path = resources.files("softqd") / "data" / "paper_tables.json"
    return json.loads(path.read_text())


def compare_lp(record: Record) -> dict[str, Comparison]:
    """A Linear Projection record against the paper's row, metric by metric."""
    table = paper_tables()["tab:app_lp_stats (LP)"][LP_ROWS[record["preset"]]]
    row = table[METHODS[_method(record)]]
    return {
        name: compare(
            mean_of(record["metrics"][name], factor),
            Mean(*row[theirs]),
            last_digit,
        )
        for name, (theirs, factor, last_digit) in LP_METRICS.items()
    }


def compare_ic(record: Record) -> dict[str, Comparison]:
    """An Image Composition record against the paper's two tables."""
    tables = paper_tables()
    method = METHODS[_method(record)]
    return {
        name: compare(
            mean_of(record["metrics"][name], factor),
            Mean(*tables[table][method][theirs]),
            last_digit,
        )
        for name, (table, theirs, factor, last_digit) in IC_METRICS.items()
    }


def _method(record: Record) -> str:
    return record["config"]["algorithm"]["name"]


def _order(record: Record) -> tuple:
    presets, methods = list(LP_ROWS), list(METHODS)
    preset, variant = record["preset"], record["variant"]
    place = presets.index(preset) if preset in presets else len(presets)
    method = methods.index(_method(record))
    return method > 0, place, preset, method, variant[:9] != "published", variant


def page(records: list[Record]) -> str:
    """The text of docs/results.md."""
    records = sorted(records, key=_order)
    squad = [r for r in records if _method(r) == "squad"]
    others = [r for r in records if _method(r) != "squad"]
    parts = [
        "# Results",
        "This page and its figures are generated by `make results` from the records in "
        "`results/`, which hold settings, versions and the metrics of every seed. "
        "Numbers are means over seeds ± standard errors.",
        "## Linear Projection, SQUAD as published",
        _paper_table(squad, LP_ROWS, compare_lp),
        "![Mean and best quality over the run](figures/lp_history.png)",
        "The paper counts one evaluation per solution and iteration. There are two: "
        "one with a gradient, one after the step. Both are counted here.",
        "## Linear Projection, the baselines as published",
        "Ours, and below the paper's; bold where they are more than three combined "
        "standard errors apart.",
        _baselines_table(others, LP_ROWS, compare_lp),
        _verdict(others, LP_ROWS, compare_lp),
        "## Image Composition, SQUAD as published",
        _paper_table(squad, ["ic"], compare_ic),
        "![QD score and QVS over the run](figures/ic_curves.png)",
        "Five members of the run with seed 2001, chosen by `softqd.select`: the five "
        "that together keep most of the Soft QD Score.",
        "![Five rendered solutions](figures/ic_representatives.png)",
        "## Image Composition, the baselines as published",
        _baselines_table(others, ["ic"], compare_ic),
        _verdict(others, ["ic"], compare_ic),
        "## The baselines in the form of their papers",
        "*Published* are the settings above, with pyribs' update of CMA-ES and a "
        "quality coefficient of either sign; *papers* the library's defaults, the "
        "textbook update and a coefficient that is not negative. All else is equal. "
        "[Deviations](deviations.md#baselines) says what the differences are.",
        _variants_table(_with_both_forms(others), "algorithm"),
        "## Repulsion that cannot lower quality",
        _protection_text(),
        _variants_table([r for r in squad if r["preset"] in LP_ROWS], "gamma_sq"),
        "## What was run",
        _runs_table(records),
    ]
    return "\n\n".join(parts) + "\n"


def _published(records: list[Record], presets: Iterable[str]) -> list[Record]:
    return [
        r
        for r in records
        if r["preset"] in presets and r["variant"].startswith("published")
    ]


def _with_both_forms(records: list[Record]) -> list[Record]:
    both = {(r["preset"], _method(r)) for r in records if r["variant"] == "papers"}
    return [r for r in records if (r["preset"], _method(r)) in both]


def _baselines_table(
    records: list[Record], presets: Iterable[str], compare_with: Callable
) -> str:
    records = _published(records, presets)
    metrics = list(compare_with(records[0]))
    heads = [LABELS[m] + (" %" if m == "coverage" else "") for m in metrics]
    lines = [
        "| problem | method | seeds | " + " | ".join(heads) + " |",
        "|---" * (3 + len(heads)) + "|",
    ]
    for record in records:
        cells = []
        for metric, found in compare_with(record).items():
            digits = _DIGITS.get((record["preset"], metric), 2)
            ours = found.ours.text(digits)
            ours = ours if found.is_within else f"**{ours}**"
            cells.append(f"{ours}<br>{found.paper.text(digits)}")
        method, seeds = METHODS[_method(record)], len(record["seeds"])
        start = f"| {record['preset']} | {method} | {seeds} | "
        lines.append(start + " | ".join(cells) + " |")
    return "\n".join(lines)


def _verdict(
    records: list[Record], presets: Iterable[str], compare_with: Callable
) -> str:
    records = _published(records, presets)
    found = [c for r in records for c in compare_with(r).values()]
    runs = sum(len(r["seeds"]) for r in records)
    seconds = sum(r["seconds"] for r in records)
    compiling = sum(r["compile_seconds"] for r in records)
    return (
        f"{sum(c.is_within for c in found)} of {len(found)} cells are within three "
        f"combined standard errors. The {runs} runs took {seconds:.0f} seconds "
        f"altogether, seeds advancing together, and {compiling:.0f} seconds of "
        "compilation and tessellation."
    )


def _paper_table(
    records: list[Record], presets: Iterable[str], compare_with: Callable
) -> str:
    lines = [
        "| problem | seeds | metric | softqd | paper | difference in combined standard "
        "errors | within 3 |",
        "|---|---|---|---|---|---|---|",
    ]
    for record in _published(records, presets):
        seeds = f"{record['seeds'][0]}-{record['seeds'][-1]}"
        for metric, found in compare_with(record).items():
            unit = " %" if metric == "coverage" else ""
            digits = _DIGITS.get((record["preset"], metric), 2)
            lines.append(
                f"| {record['preset']} | {seeds} | {LABELS[metric]}{unit} | "
                f"{found.ours.text(digits)} | {found.paper.text(digits)} | "
                f"{found.num_errors:.1f} | {'yes' if found.is_within else '**no**'} |"
            )
    return "\n".join(lines)


def _protection_text() -> str:
    return (
        "In the published form the derivative through the square root of a solution's "
        "own quality can outweigh the pull and drive quality down where many neighbors "
        "overlap. `protect_quality=True` holds that quality constant inside the "
        "repulsion; with it goes the full pairwise weight, `repulsion_weight=1`. "
        "*Published* and *protected* use the same `gamma_sq`."
    )


def _variants_table(records: list[Record], column: str) -> str:
    names = list(LABELS)
    lines = [
        f"| problem | {column} | variant | " + " | ".join(LABELS.values()) + " |",
        "|---" * (3 + len(names)) + "|",
    ]
    for record in records:
        cells = [
            mean_of(record["metrics"][n], 100.0 if n == "coverage" else 1.0).text(
                0 if n == "qd_score" else 2
            )
            + (" %" if n == "coverage" else "")
            for n in names
        ]
        settings = record["config"]["algorithm"]
        key = settings.get(column, METHODS[settings["name"]])
        start = f"| {record['preset']} | {key} | {record['variant']} | "
        lines.append(start + " | ".join(cells) + " |")
    return "\n".join(lines)


def _runs_table(records: list[Record]) -> str:
    lines = [
        "| record | seeds | iterations | evaluations a seed | seconds, all seeds | "
        "compilation | device | jax |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for record in records:
        run = record["config"]["run"]
        lines.append(
            f"| `{record['name']}` | {len(record['seeds'])} | {run['iterations']} | "
            f"{record['metrics']['evaluations'][0]:,} | {record['seconds']:.2f} | "
            f"{record['compile_seconds']:.1f} | {record['versions']['device']} | "
            f"{record['versions']['jax']} |"
        )
    return "\n".join(lines)


def write(results: Path, docs: Path) -> None:
    """Write the page and its figures."""
    records = load_all(results)
    (docs / "results.md").write_text(page(records))
    folder = docs / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    published = [
        r for r in records if r["variant"] == "published" and _method(r) == "squad"
    ]
    plots.quality_histories(
        {r["preset"]: r["history"] for r in published if r["preset"] in LP_ROWS}
    ).savefig(folder / "lp_history.png")
    for record in published:
        if record["preset"] == "ic":
            curves = {"qd_score": "QD score", "qvs": "QVS"}
            figure = plots.metric_curves(record["history"], curves)
            figure.savefig(folder / "ic_curves.png")
    plots.landscape().savefig(folder / "rastrigin.png")


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
