r"""Airfoils as class-shape functions (CST), and measures of their geometry.

Kulfan and Bussoletti (2006): a surface is $y(x) = \sqrt{x} (1 - x) \sum_i w_i B_i(x)$
with Bernstein polynomials $B_i$ of degree 7, to which half the thickness of the
trailing edge and a term for the leading edge are added. Lengths are in chords: x goes
from 0 at the nose to 1 at the tail.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

NUM_WEIGHTS = 8  # of a surface
_DEGREE = NUM_WEIGHTS - 1
_BINOMIALS = np.array([math.comb(_DEGREE, i) for i in range(NUM_WEIGHTS)], np.float32)
# Halves of the thickness of a NACA airfoil of thickness 1, for powers 1/2, 1, 2, 3, 4
# of x (Jacobs, Ward and Pinkerton 1933), with an open trailing edge.
_NACA = (1.4845, -0.63, -1.758, 1.4215, -0.5075)


class Airfoil(NamedTuple):
    """An airfoil by 18 numbers."""

    upper: Float[Array, " 8"]  # weights, from nose to tail
    lower: Float[Array, " 8"]
    leading_edge: Float[Array, ""]  # weight of the term for the leading edge
    trailing_edge: Float[Array, ""]  # thickness of the trailing edge, in chords


def stations(num: int) -> Float[np.ndarray, " num"]:
    """Places between nose and tail, dense at both ends, which are left out.

    Examples:
        >>> stations(3).round(3).tolist()
        [0.146, 0.5, 0.854]
    """
    return (1 - np.cos(np.pi * np.arange(1, num + 1) / (num + 1))) / 2


def surfaces(
    airfoil: Airfoil, x: Float[Array, " m"]
) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """Heights of the upper and the lower surface at some places, in chords.

    Examples:
        >>> import jax.numpy as jnp
        >>> none, edge = jnp.zeros(8), jnp.array([0.0, 0.5])
        >>> wedge = Airfoil(none, none, *edge)
        >>> upper, lower = surfaces(wedge, jnp.array([0.5, 1.0]))
        >>> upper.tolist(), lower.tolist()
        ([0.125, 0.25], [-0.125, -0.25])
    """
    powers = np.arange(NUM_WEIGHTS)
    column = x[:, None]
    bernstein = (
        _BINOMIALS[None]
        * column ** powers[None]
        * (1 - column) ** (_DEGREE - powers)[None]
    )
    shape = (jnp.sqrt(x) * (1 - x))[:, None] * bernstein
    nose = airfoil.leading_edge * x * (1 - x) ** (NUM_WEIGHTS + 0.5)
    edge = airfoil.trailing_edge * x / 2
    return shape @ airfoil.upper + nose + edge, shape @ airfoil.lower + nose - edge


def trailing_edge_angle(airfoil: Airfoil) -> Float[Array, ""]:
    """Angle between the surfaces at the tail, in degrees.

    There the slope of the upper one is minus its last weight, and half of the thickness
    of the trailing edge.
    """
    half = airfoil.trailing_edge / 2
    slopes = (airfoil.upper[-1] - half, airfoil.lower[-1] + half)
    return jnp.degrees(jnp.arctan(slopes[0]) - jnp.arctan(slopes[1]))


def naca_thickness(
    thickness: float, x: Float[np.ndarray, " m"]
) -> Float[np.ndarray, " m"]:
    """Local thickness of NACA's airfoils of four digits, in chords.

    Examples:
        >>> import numpy as np
        >>> float(naca_thickness(0.12, np.array([0.3]))[0].round(4))
        0.12
    """
    root, *rest = _NACA
    half = root * np.sqrt(x) + sum(a * x ** (i + 1) for i, a in enumerate(rest))
    return 2 * thickness * half
