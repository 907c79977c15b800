"""Use an installed softqd: a run, its files, and all files that come with the package.

Writes into the current folder. ``scripts/package.py`` calls it with ``python -I``.
"""

import sys
from importlib import metadata, resources
from pathlib import Path

import jax
import jax.numpy as jnp

import softqd
from softqd import metrics
from softqd.page.report import write_report
from softqd.paper.agreement import paper_tables

assert Path(softqd.__file__).is_relative_to(sys.prefix), softqd.__file__
assert metadata.version("softqd") == softqd.__version__
assert (resources.files("softqd") / "py.typed").is_file()


def evaluate(x):
    """Quality: near the origin. Behavior: the first four coordinates."""
    return 10.0 - jnp.sum(x**2), jax.nn.sigmoid(x[:4])


problem = softqd.Problem(
    evaluate, sample=lambda key: jax.random.normal(key, (8,)), behavior_bounds=(0, 1)
)
algorithm = softqd.squad(problem, population_size=32)
result = softqd.run(algorithm, seed=0, num_iterations=5)
again = softqd.load(result.save("run"))
assert (again.population.quality == result.population.quality).all()

# Files of the package: centroids, the paper's tables, the report page with its scripts.
found = metrics.evaluate_population(again.population, problem.bounds(4))
assert set(metrics.METRICS) <= set(found)
assert paper_tables()
report = write_report(["run"]).read_text("utf-8")
assert "<html" in report
assert "d3js.org" in report
