"""SQUAD against a baseline on one problem: equal budgets, statistics, a figure.

``python examples/compare_with_baseline.py [FOLDER]``; called again, it continues. For a
comparison to believe, tune both (``softqd.sweep``) and take 10 seeds or more.
"""

import sys
from pathlib import Path

from rich.console import Console

import softqd
from softqd.page.figures import draw_figure
from softqd.report.style import save_figure
from softqd.cli._tables import LEGEND, comparison_table

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "arm-comparison")
found = softqd.compare(
    "arm",
    ["squad", "dns"],
    seeds=4,
    evaluations=8_000,
    settings=[
        "squad.population_size=64",
        "dns.population_size=64",
        "dns.batch_size=32",
    ],
    out=folder,
)
console = Console()
console.print(comparison_table(found), LEGEND)
for warning in found.warnings:
    console.print("warning:", warning)
for kind in ("curves", "distributions"):
    path = save_figure(draw_figure(kind, [folder]), folder / f"{kind}.pdf")
    console.print("wrote", str(path))
