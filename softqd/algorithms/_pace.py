"""A pace that keeps solutions from jumping over their neighbors.

As the bandwidth narrows, steps must shorten too: the pace, a factor of all steps and at
most 1, keeps them within a part of the bandwidth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from softqd.algorithms._bandwidth import annealed, steer

# How far solutions go in the last iteration, in bandwidths, root mean square, and how
# much farther in the first one.
REACH, ANNEALING = 0.2, 30.0
LIMITS = (1e-3, 1.0)


class Pace(NamedTuple):
    """The part of SQUAD that holds steps back.

    Attributes:
        init: ``() -> pace``.
        update: ``(pace, moved, gamma_sq, progress) -> pace``, from how far solutions
            moved, root mean square, in the coordinates of the bandwidth.
    """

    init: Callable
    update: Callable


def steered_pace() -> Pace:
    """Shorten steps that lead farther than a part of the bandwidth."""

    def update(pace, moved, gamma_sq, progress):
        most = annealed(REACH, ANNEALING, progress) * jnp.sqrt(gamma_sq)
        return steer(pace, moved, most, 1.0, LIMITS)

    return Pace(init=lambda: jnp.ones(()), update=update)
