"""Airfoils that fly well and differ in what a designer chooses between.

NeuralFoil's networks stand in for XFOIL. The definition was written down from physics
before any algorithm ran on it, and no setting of an algorithm was chosen with a look at
it.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float

from softqd.networks import neuralfoil
from softqd.ops.checks import check_count
from softqd.ops.cst import (
    naca_thickness,
    stations,
    surfaces,
    trailing_edge_angle,
)
from softqd.types import Evaluation, Problem

# Name, lowest and highest value; a moment is about the quarter chord, nose up.
BEHAVIORS = (
    ("thickness (% of chord)", 5.0, 25.0),
    ("lift coefficient", 0.0, 1.5),
    ("moment coefficient", -0.25, 0.05),
    ("camber (% of chord)", 0.0, 10.0),
    ("trailing-edge angle (degrees)", 0.0, 45.0),
)
# Below this the networks' author does not trust them in his own designs.
CONFIDENCE = 0.9
# No part of an airfoil that can be built is thinner than NACA 0005.
THINNEST = 0.05
# What it costs to have no confidence at all, or surfaces that touch: more than the
# lift-drag ratio of a good airfoil.
PENALTY = 200.0
# The box of the author's designs; the nose is nowhere sharp.
_LOW = np.array([0.5, *[-2.5] * 7, *[-5.0] * 8, -10.0, 0.0], np.float32)
_HIGH = np.array([5.0] * 8 + [-0.5] + [2.5] * 7 + [10.0, 10.0], np.float32)
# NACA 0012 and the mean line of NACA 2412 in tenths, by least squares.
_THICKNESS_FORM = np.array([1.73, 1.52, 1.74, 1.28, 1.65, 1.26, 1.46, 1.39], np.float32)
_CAMBER_FORM = np.array([0.03, 0.31, 0.53, 0.62, 0.36, 0.74, 0.55, 0.70], np.float32)
_NOSE, _TAIL = 0.49, 2.5
_STATIONS = stations(99)
_HEIGHT, _WIDTH, _FINE = 128, 384, 3  # pixels, and steps along the side of one
_INK = np.array([0.05, 0.36, 0.42], np.float32)


def airfoils(
    reynolds: float = 1e6,
    angle_deg: float = 4.0,
    *,
    behavior_dim: int = 3,
    n_crit: float = 9.0,
    model_size: str = "xlarge",
    start_spread: float = 0.2,
) -> Problem:
    """Airfoils of high lift over drag, thin and thick, of every lift and moment.

    A solution has 18 numbers: eight weights of the upper surface and eight of the lower
    one, from nose to tail, the weight of the leading edge (all in tenths), and the
    thickness of the trailing edge in thousandths of the chord.
    `softqd.networks.neuralfoil.to_airfoil` makes an airfoil of them.

    Quality is the ratio of lift to drag at the design point, less 200 for confidence
    that is missing and 200 for thickness that is missing. Confidence is missing below
    0.9, thickness where the airfoil is thinner than NACA 0005, whose tail has 0.1% of
    the chord: all of it where the surfaces touch. Behaviors are the largest thickness
    in percent of the chord, the coefficients of lift and of pitching moment about the
    quarter chord, the largest camber in percent of the chord, and the angle of the
    trailing edge in degrees; what lies outside of their bounds is put on the border.

    Args:
        reynolds: Reynolds number by the chord, from 1e3 to 1e9.
        angle_deg: Angle of attack, in degrees, from -20 to 20.
        behavior_dim: How many of the five behaviors, in this order, from 2 to 5.
        n_crit: Critical amplification: 9 in an average wind tunnel, 12 to 14 for
            sailplanes, less in rough air.
        model_size: Size of the networks, from 'xxsmall' to 'xxxlarge'.
        start_spread: Standard deviation of the noise on the weights of first solutions,
            in tenths. Without it they are NACA airfoils of 8 to 18% thickness and 0 to
            4% camber.

    Returns:
        The problem; its ``render`` draws an airfoil.

    Raises:
        ValueError: If an argument is out of range, or the networks are not there.
    """
    check_count("behavior_dim", behavior_dim, 2, len(BEHAVIORS))
    _check_flow(reynolds, angle_deg, n_crit, start_spread)
    params = neuralfoil.load(model_size)
    flow = {"reynolds": reynolds, "angle_deg": angle_deg, "n_crit": n_crit}
    names, low, high = zip(*BEHAVIORS[:behavior_dim], strict=True)
    return Problem(
        Partial(functools.partial(_evaluate, flow=flow, dim=behavior_dim), params),
        sample=functools.partial(_sample, spread=start_spread),
        behavior_bounds=(low, high),
        name=f"airfoils(Re {reynolds:g}, {angle_deg:g} degrees, {behavior_dim} "
        f"behaviors, {model_size})",
        quality_level=0.0,
        solution_bounds=(_LOW, _HIGH),
        render=_render,
        behavior_names=names,
    )


def _check_flow(
    reynolds: float, angle_deg: float, n_crit: float, start_spread: float
) -> None:
    for name, value, low, high in (
        ("reynolds", reynolds, 1e3, 1e9),
        ("angle_deg", angle_deg, -20.0, 20.0),
        ("n_crit", n_crit, 0.0, 20.0),
        ("start_spread", start_spread, 0.0, 10.0),
    ):
        if not low <= value <= high:
            raise ValueError(
                f"{name} must be between {low:g} and {high:g}; got {value!r}"
            )


def _sample(key: Array, spread: float) -> Float[Array, " 18"]:
    """A NACA airfoil of random thickness and camber, roughened."""
    thickness_key, camber_key, noise_key = jax.random.split(key, 3)
    thickness = jax.random.uniform(thickness_key, minval=8.0 / 12.0, maxval=18.0 / 12.0)
    camber = jax.random.uniform(camber_key, maxval=2.0)
    half, mean = thickness * _THICKNESS_FORM, camber * _CAMBER_FORM
    edges = jnp.stack([camber * _NOSE, thickness * _TAIL])
    smooth = jnp.concatenate([mean + half, mean - half, edges])
    rough = smooth + spread * jax.random.normal(noise_key, smooth.shape)
    return jnp.clip(rough, _LOW, _HIGH)


def _evaluate(
    params: Any, solution: Float[Array, " 18"], *, flow: dict[str, float], dim: int
) -> Evaluation:
    airfoil = neuralfoil.to_airfoil(solution)
    found = neuralfoil.aerodynamics(params, airfoil, **flow)
    upper, lower = surfaces(airfoil, jnp.asarray(_STATIONS, jnp.float32))
    thickness = upper - lower
    floor = jnp.asarray(naca_thickness(THINNEST, _STATIONS), jnp.float32)
    missing = _missing(found.confidence / CONFIDENCE)
    missing += _missing((thickness / floor).min())
    behavior = [
        100 * thickness.max(),
        found.lift,
        found.moment,
        100 * ((upper + lower) / 2).max(),
        trailing_edge_angle(airfoil),
    ]
    _, low, high = (np.array(x) for x in zip(*BEHAVIORS[:dim], strict=True))
    quality = found.lift / found.drag - PENALTY * missing
    return Evaluation(quality, jnp.clip(jnp.stack(behavior[:dim]), low, high))


def _missing(share: Float[Array, ""]) -> Float[Array, ""]:
    """What is missing to all of it."""
    return jnp.maximum(1.0 - share, 0.0)


def _render(solution: Float[Array, " 18"]) -> Float[Array, "h w 3"]:
    """The airfoil, filled; the chord takes 15 of 16 parts of the width."""
    scale = 16 / 15 / _WIDTH / _FINE  # chords per step
    column = (jnp.arange(_WIDTH * _FINE) + 0.5) * scale - 1 / 30
    row = ((_HEIGHT * _FINE - 1) / 2 - jnp.arange(_HEIGHT * _FINE)) * scale
    upper, lower = surfaces(neuralfoil.to_airfoil(solution), jnp.clip(column, 0, 1))
    is_chord = (column >= 0) & (column <= 1)
    middle = row[:, None]
    is_inside = (middle <= upper[None]) & (middle >= lower[None]) & is_chord[None]
    blocks = is_inside.reshape(_HEIGHT, _FINE, _WIDTH, _FINE)
    cover = blocks.mean((1, 3))[..., None]
    return 1.0 - cover * (1.0 - _INK)[None, None]
