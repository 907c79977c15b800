"""CMA-MEGA (Fontaine and Nikolaidis 2021, "Differentiable Quality Diversity").

Defaults follow the paper; ``signed_quality`` and ``pyribs_quirks`` are what pyribs does
instead, and what the Soft QD paper's runs did.
"""

from __future__ import annotations

import optax
from jaxtyping import Array

from softqd.algorithms._arborescence import arborescence
from softqd.algorithms._assembly import given
from softqd.algorithms._cells import CELLS
from softqd.ops.expressions import Optimizer
from softqd.settings import spelled
from softqd.types import Algorithm, Problem


def cma_mega(
    problem: Problem,
    *,
    cells: int = CELLS,
    centroids: Array | None = None,
    shared_cells: bool = True,
    num_emitters: int = 15,
    batch_size: int = 36,
    sigma0: float = 1.0,
    optimizer: Optimizer = spelled(optax.adam, 0.05),
    ranker: str = "two_stage",
    selection: str = "filter",
    restart: str | int = "no_improvement",
    signed_quality: bool = False,
    pyribs_quirks: bool = False,
) -> Algorithm:
    """Covariance matrix adaptation MAP-Elites via a gradient arborescence.

    One iteration evaluates each emitter's point with the gradients of quality and of
    all behaviors, normalizes them, branches along random combinations of them, inserts
    the children, and moves the point and the distribution of coefficients towards the
    children the archive took.

    Args:
        problem: A problem with a bounded behavior space; `evaluate` must be
            differentiable.
        cells: Number of cells.
        centroids: Centers of the cells in the unit cube, ``(cells, d)``; by default a
            centroidal Voronoi tessellation.
        shared_cells: Whether all runs share one such tessellation, which is kept on
            disk; else each draws its own.
        num_emitters: How many points search side by side.
        batch_size: Evaluations of an emitter in an iteration, its point included.
        sigma0: First spread of the coefficients.
        optimizer: Any optax optimizer, also as text, 'adam(0.05)', or a learning rate
            of Adam; moves the point towards its best children.
        ranker: 'two_stage' or 'improvement': what makes a child good.
        selection: 'filter': parents are the children the archive took; 'mu': the
            better half.
        restart: 'no_improvement': from a random elite when the archive took no child;
            'basic': only when the search has converged; or a number of iterations.
        signed_quality: Whether the coefficient of quality's gradient may be negative.
            The paper takes its absolute value, pyribs does not.
        pyribs_quirks: Use pyribs' form of the CMA-ES update.

    Returns:
        An `Algorithm`. ``init`` also takes solutions to start from, any number.

    Raises:
        ValueError: If a setting is out of range or the space is not bounded.

    Examples:
        >>> import softqd
        >>> problem = softqd.problems.sphere(solution_dim=8)
        >>> algorithm = softqd.cma_mega(problem, cells=16, num_emitters=2, batch_size=5)
        >>> result = softqd.run(algorithm, num_iterations=2, log_every=2)
        >>> result.history["evaluations"].tolist()
        [0, 20]
    """
    return arborescence("cma_mega", problem, centroids, given(locals()))
