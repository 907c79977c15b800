"""A population of planar arms lights up the places it reaches, before and after.

Draws the picture of the README: ``python examples/light_up.py docs/figures/arm.png``;
a number after the file is that of the iterations, 500 if there is none.
"""

import sys

import jax

import softqd

path = sys.argv[1] if len(sys.argv) > 1 else "arm.png"
num_iterations = int(sys.argv[2]) if len(sys.argv) > 2 else 500
problem = softqd.problems.arm()
algorithm = softqd.squad(problem)
start = algorithm.population(jax.jit(algorithm.init)(jax.random.key(0)))
end = softqd.run(algorithm, seed=0, num_iterations=num_iterations).population
shown = {"start": start, f"after {num_iterations} iterations": end}
softqd.plot.value_maps(shown, problem).savefig(path)
print(f"wrote {path}")
