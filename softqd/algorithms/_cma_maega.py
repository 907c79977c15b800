"""CMA-MAEGA: CMA-MEGA with the soft thresholds of CMA-MAE.

Fontaine and Nikolaidis 2023, "Covariance Matrix Adaptation MAP-Annealing". A cell's
threshold rises only a little with every solution it takes, so that good regions go on
attracting the emitters; a second archive remembers the best.
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


def cma_maega(
    problem: Problem,
    *,
    cells: int = CELLS,
    centroids: Array | None = None,
    shared_cells: bool = True,
    num_emitters: int = 15,
    batch_size: int = 36,
    sigma0: float = 1.0,
    optimizer: Optimizer = spelled(optax.adam, 0.05),
    learning_rate: float = 0.01,
    threshold_floor: float = 0.0,
    ranker: str = "improvement",
    selection: str = "mu",
    restart: str | int = "basic",
    signed_quality: bool = False,
    pyribs_quirks: bool = False,
) -> Algorithm:
    """Covariance matrix adaptation MAP-annealing via a gradient arborescence.

    As `cma_mega`, guided by how far children exceed soft thresholds.

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
        learning_rate: How fast thresholds rise, from 0 (never) to 1 (at once).
        threshold_floor: Threshold of empty cells: the lowest quality worth keeping.
        ranker: 'improvement' or 'two_stage': what makes a child good.
        selection: 'mu': parents are the better half; 'filter': those the archive took.
        restart: 'basic': only when the search has converged; 'no_improvement', or a
            number of iterations.
        signed_quality: Whether the coefficient of quality's gradient may be negative.
        pyribs_quirks: Use pyribs' form of the CMA-ES update.

    Returns:
        An `Algorithm`. ``init`` also takes solutions to start from, any number.

    Raises:
        ValueError: If a setting is out of range or the space is not bounded.
    """
    return arborescence("cma_maega", problem, centroids, given(locals()))
