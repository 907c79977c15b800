"""Look at a run: its metrics, its best and most different solutions, its figures.

First ``softqd run arm --out runs/arm``, then
``python examples/explore_a_result.py runs/arm``; any other run folder will do too.
"""

import sys
from pathlib import Path

import numpy as np

import softqd
from softqd import metrics, plot
from softqd.page.figures import draw_figure

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/arm")
run = softqd.load(folder)
population = run.population
quality, behavior = population.quality, population.behavior
bounds = run.problem.bounds(behavior.shape[1])
found = metrics.evaluate_population(population, bounds)
print(f"{len(quality)} solutions, QVS {found['qvs']:.1f}")

# The five that keep most of the Soft QD Score: few, good and different.
unit = metrics.to_unit(bounds, behavior)
chosen, share = softqd.select(quality, unit, 5, return_share=True)
print(f"five of them keep {share:.0%} of the Soft QD Score:")
for i in chosen:
    print(f"  quality {quality[i]:.1f} at {behavior[i].round(2)}")

# Which solution is nearest to a behavior that is wanted?
wanted = np.mean(bounds, axis=0)
nearest = np.linalg.norm(behavior - wanted, axis=1).argmin()
print(f"nearest to {wanted}: {np.round(population.solutions[nearest], 2)}")

for kind in ("scatter", "parallel", "value-map", "history"):
    figure = draw_figure(kind, [folder])
    path = plot.save_figure(figure, folder / "figures" / f"{kind}.pdf")
    print(f"wrote {path}")
