"""SQUAD against a baseline on one problem: equal budgets, statistics, a figure.

``python examples/compare_with_baseline.py [FOLDER]``; called again, it continues. For a
comparison to believe, tune both (``softqd.sweep``) and take 10 seeds or more.
"""

import sys
from pathlib import Path

import softqd
from softqd.page.figures import draw_figure

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
for metric in ("qvs", "mean_quality", "vendi_score"):
    table = found.statistics[metric]
    for name, row in table["algorithms"].items():
        mark = "best" if name == table["best"] else f"p = {row['p']:.3g}"
        print(f"{metric} of {name}: {row['mean']:.4g} ± {row['stderr']:.2g} ({mark})")
for warning in found.warnings:
    print("warning:", warning)
for kind in ("curves", "distributions"):
    figure = draw_figure(kind, [folder])
    print("wrote", softqd.plot.save_figure(figure, folder / f"{kind}.pdf"))
