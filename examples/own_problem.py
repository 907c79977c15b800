"""A problem of your own in ten lines: throw a ball far or high, with little effort.

``python examples/own_problem.py [FOLDER]`` writes a run folder and a figure.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp

import softqd


def evaluate(x):
    """Three numbers, the velocity and where the hand lets go; a distance, a height."""
    across, up, hand = 10 * jax.nn.sigmoid(x)
    peak = hand / 5 + up**2 / (2 * 9.81)
    seconds = up / 9.81 + jnp.sqrt(2 * peak / 9.81)
    effort = across**2 + up**2 + hand**2
    return 100 * jnp.exp(-effort / 200), jnp.stack([across * seconds, peak])


problem = softqd.Problem(
    evaluate,
    sample=lambda key: jax.random.normal(key, (3,)),
    behavior_bounds=([0, 0], [25, 8]),
    behavior_names=("distance (m)", "height (m)"),
    name="throw",
)

if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "throw")
    algorithm = softqd.squad(problem, population_size=128)
    result = softqd.run(algorithm, seed=0, num_iterations=200)
    result.save(folder)
    figure = softqd.plot.value_map(result, problem, sigma=0.6)
    softqd.plot.save_figure(figure, folder / "value_map.pdf")
    behavior = result.population.behavior
    farthest = behavior[:, 0].argmax()
    print(f"farthest throw: {behavior[farthest, 0]:.1f} m, wrote {folder}")
