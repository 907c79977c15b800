"""A population of planar arms lights up the places it reaches, before and after.

Draws the picture of the README: ``python examples/light_up.py docs/figures/arm.png``.
"""

import sys

import jax

import softqd
from softqd.report.fields import value_maps

problem = softqd.problems.arm()
algorithm = softqd.squad(problem, gamma_sq=0.02)
start = algorithm.population(algorithm.init(jax.random.key(0)))
end = softqd.run(algorithm, seed=0, num_iterations=500).population
pictures = {
    "start": (start.quality, start.behavior),
    "after 500 iterations": (end.quality, end.behavior),
}
path = sys.argv[1] if len(sys.argv) > 1 else "arm.png"
value_maps(pictures, problem.bounds(2)).savefig(path)
print(f"wrote {path}")
