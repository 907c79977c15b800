"""Figures 1 and 2 of the paper, drawn from runs of SQUAD.

``python examples/paper_figures.py docs/figures`` writes figure1.png and figure2.png.
"""

import sys
from pathlib import Path

import numpy as np

import softqd

SIGMA = 0.08
GRID = 12  # cells along each side of Figure 1


def run(population_size, num_iterations, gamma_sq, seed=0):
    """Quality and behavior of a population on Linear Projection in two dimensions."""
    problem = softqd.problems.linear_projection(behavior_dim=2)
    algorithm = softqd.squad_published(
        problem,
        population_size=population_size,
        batch_size=population_size,
        num_neighbors=min(15, population_size - 1),
        gamma_sq=gamma_sq,
    )
    result = softqd.run(algorithm, seed=seed, num_iterations=num_iterations)
    return result.population.quality, result.population.behavior


def cells_and_field():
    """One population twice: in the cells of a grid, and as a soft field."""
    found = run(64, 500, gamma_sq=0.1)
    centers = (np.arange(GRID) + 0.5) / GRID
    centroids = np.stack(np.meshgrid(centers, centers), -1).reshape(-1, 2)
    return softqd.plot.cells_and_value(
        found, centroids=centroids, bounds=(0, 1), sigma=SIGMA
    )


def before_and_after():
    """Five solutions at the start and at the end, titles to (quality, behavior)."""
    pictures = {}
    for title, num_iterations in (("start", 0), ("after 500 iterations", 500)):
        quality, behavior = run(5, num_iterations, gamma_sq=3.0)
        score = softqd.soft_qd_score(quality, behavior, SIGMA).value
        pictures[f"{title}: Soft QD Score {score:.2f}"] = (quality, behavior)
    return pictures


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    cells_and_field().savefig(folder / "figure1.png")
    pictures = before_and_after()
    figure_2 = softqd.plot.surfaces(pictures, bounds=(0, 1), sigma=SIGMA)
    figure_2.savefig(folder / "figure2.png")
    print(f"wrote {folder / 'figure1.png'} and {folder / 'figure2.png'}")
