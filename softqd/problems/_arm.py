"""The planar arm of Cully et al. 2015 and Vassiliades et al. 2018: reach every point.

As in the pyribs tutorial, quality is 100 * (1 - variance of the joint angles); links
share a total length of 1, so that the hand moves in the unit disc.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from softqd.ops.checks import check_count
from softqd.types import Evaluation, Problem


def arm(num_joints: int = 10, start_spread: float = 0.3) -> Problem:
    """A chain of joints in the plane: where is the hand, how even is the bend?

    Args:
        num_joints: Number of joints, and of links of length ``1 / num_joints``.
        start_spread: Standard deviation of the first angles around a straight arm.

    Returns:
        A problem whose solutions are angles ``(num_joints,)`` in radians, each relative
        to the link before, and whose behavior is the position of the hand.

    Raises:
        ValueError: If there is no joint.

    Examples:
        >>> import jax.numpy as jnp
        >>> quality, hand = arm(num_joints=4).evaluate(jnp.zeros(4))
        >>> float(quality), hand.tolist()
        (100.0, [1.0, 0.0])
    """
    check_count("num_joints", num_joints, 1)

    def evaluate(angles: Float[Array, " p"]) -> Evaluation:
        headings = jnp.cumsum(angles)
        hand = jnp.stack([jnp.cos(headings).mean(), jnp.sin(headings).mean()])
        return Evaluation(100.0 * (1.0 - jnp.var(angles)), hand)

    return Problem(
        evaluate,
        sample=lambda key: start_spread * jax.random.normal(key, (num_joints,)),
        behavior_bounds=(-1.0, 1.0),
        name=f"arm(num_joints={num_joints})",
        quality_bounds=(0.0, 100.0),
        behavior_names=("x of hand (arm lengths)", "y of hand (arm lengths)"),
    )
