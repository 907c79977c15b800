"""Quality-diversity optimization without a grid: the Soft QD Score and SQUAD.

Examples:
    >>> import jax, jax.numpy as jnp, softqd
    >>> problem = softqd.problems.linear_projection(behavior_dim=4, solution_dim=16)
    >>> algorithm = softqd.squad(problem, population_size=64)
    >>> result = softqd.run(algorithm, seed=0, num_iterations=10)
    >>> result.population.behavior.shape
    (64, 4)
"""

import importlib
from typing import TYPE_CHECKING, Any

from softqd import metrics, problems, stop
from softqd.algorithms import *  # noqa: F403 (every one of them)
from softqd.experiment.checkpoint import CheckpointError
from softqd.experiment.files.readers import load_population
from softqd.experiment.loop import NonFiniteError
from softqd.experiment.many.compare import compare
from softqd.experiment.many.comparison import Comparison, load_comparison
from softqd.experiment.many.sweep import Sweep, load_sweep, sweep
from softqd.experiment.result import Result, load
from softqd.experiment.run import Interrupted, run
from softqd.metrics import (
    Estimate,
    behavior_value,
    lower_bound,
    select,
    soft_qd_score,
)
from softqd.objective import squad_objective
from softqd.ops.circles import Circles, render_circles
from softqd.registry import ALGORITHMS as _ALGORITHMS
from softqd.types import Algorithm, Evaluation, Population, Problem

if TYPE_CHECKING:
    from softqd import interop, plot

__version__ = "0.1.0"

__all__ = [
    "Algorithm",
    "CheckpointError",
    "Circles",
    "Comparison",
    "Estimate",
    "Evaluation",
    "Interrupted",
    "NonFiniteError",
    "Population",
    "Problem",
    "Result",
    "Sweep",
    "behavior_value",
    "compare",
    "interop",
    "load",
    "load_comparison",
    "load_population",
    "load_sweep",
    "lower_bound",
    "metrics",
    "plot",
    "problems",
    "render_circles",
    "run",
    "select",
    "soft_qd_score",
    "squad_objective",
    "stop",
    "sweep",
]
# Those of the star above; pyright and griffe know them from there.
__all__.extend(_ALGORITHMS)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Rooms that take long to import, when they are first used."""
    if name in ("interop", "plot"):
        return importlib.import_module(f"softqd.{name}")
    raise AttributeError(f"module 'softqd' has no attribute {name!r}")
