"""NeuralFoil's networks: lift, drag and moment of an airfoil, learned from XFOIL.

Sharpe and Hansman, *NeuralFoil: an airfoil aerodynamics analysis tool using
physics-informed machine learning* (2025). Only the arrays that come with the package
``neuralfoil`` are read; it is not imported. Air is taken for incompressible: the
networks know no Mach number.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from softqd.networks._weight_files import read_arrays, to_float32
from softqd.ops.cst import NUM_WEIGHTS, Airfoil

MODEL_SIZES = (
    *("xxsmall", "xsmall", "small", "medium"),
    *("large", "xlarge", "xxlarge", "xxxlarge"),
)
# Inputs: 16 weights, leading edge, trailing edge, three of the angle, Reynolds number,
# critical amplification, and where transition is forced above and below.
_NUM_INPUTS = 25
# Outputs that are used, of 198: confidence, lift, drag and moment.
_NUM_OUTPUTS = 4
_INPUTS = "scaled_input_distribution"  # a file
# Of a solution: tenths for weights, thousandths of the chord for the trailing edge.
SCALES = np.array([0.1] * (2 * NUM_WEIGHTS + 1) + [0.001], np.float32)
_FREE = 1.0  # transition is forced at the tail: it is free
# What an airfoil's mirror image has the other sign of.
_OUTPUT_SIGNS = np.array([1.0, -1.0, 1.0, -1.0], np.float32)


class Aerodynamics(NamedTuple):
    """What the networks say about an airfoil in a flow.

    Attributes:
        lift: Coefficient of lift, per chord.
        drag: Coefficient of drag, per chord.
        moment: Coefficient of the pitching moment about the quarter chord, positive if
            it lifts the nose.
        confidence: The networks' own, from 0 to 1: would XFOIL converge here?
    """

    lift: Float[Array, ""]
    drag: Float[Array, ""]
    moment: Float[Array, ""]
    confidence: Float[Array, ""]


def load(model_size: str = "xlarge") -> dict[str, Any]:
    """The networks' arrays, out of the installed package ``neuralfoil``.

    Args:
        model_size: One of `MODEL_SIZES`, from fast to accurate; the default is that of
            the package.

    Raises:
        ValueError: If there is no such size, the package is not installed, or its
            files cannot be read or are not those expected.
    """
    if model_size not in MODEL_SIZES:
        raise ValueError(
            f"model_size must be one of {', '.join(MODEL_SIZES)}; got {model_size!r}"
        )
    folder = _folder()
    path, inputs_path = (
        folder / f"{name}.npz" for name in (f"nn-{model_size}", _INPUTS)
    )
    arrays, inputs = read_arrays(path), read_arrays(inputs_path)
    try:
        layers = _layers(to_float32(arrays, str(path)))
        mean, inverse = inputs["mean_inputs_scaled"], inputs["inv_cov_inputs_scaled"]
        # In double precision: angles enter three times, which is nearly dependent.
        root = np.linalg.cholesky(np.asarray(inverse, np.float64)).T
        found = {"layers": layers, **to_float32({"mean": mean, "root": root}, "inputs")}
        _check_shapes(found)
    except (KeyError, IndexError, np.linalg.LinAlgError) as error:
        raise ValueError(
            f"{folder} does not hold the arrays expected ({error!r}); run "
            'pip install --force-reinstall "neuralfoil>=0.3.3"'
        ) from None
    return found


def _folder() -> Path:
    """Where the package keeps its arrays; it is found, not imported."""
    spec = importlib.util.find_spec("neuralfoil")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(place) / "nn_weights_and_biases"
        if (folder / f"{_INPUTS}.npz").is_file():
            return folder
    raise ValueError(
        "airfoils need the networks of the package 'neuralfoil', 0.3.3 or newer: run "
        'pip install "softqd[airfoils]"'
    )


def _layers(arrays: dict[str, np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases in order, the last layer's for the outputs that are used."""
    numbers = sorted({int(name.split(".")[1]) for name in arrays})
    layers = [(arrays[f"net.{i}.weight"], arrays[f"net.{i}.bias"]) for i in numbers]
    *inner, (weight, bias) = layers
    return [*inner, (weight[:_NUM_OUTPUTS], bias[:_NUM_OUTPUTS])]


def _check_shapes(params: dict[str, Any]) -> None:
    width = _NUM_INPUTS
    for weight, bias in params["layers"]:
        if weight.shape != (len(bias), width):
            raise IndexError(f"a layer of shape {weight.shape} after {width} numbers")
        width = len(bias)
    shapes = (params["mean"].shape, params["root"].shape, width)
    if shapes != ((_NUM_INPUTS,), (_NUM_INPUTS, _NUM_INPUTS), _NUM_OUTPUTS):
        raise IndexError(f"shapes {shapes}")


def aerodynamics(
    params: dict[str, Any],
    airfoil: Airfoil,
    *,
    angle_deg: Any,
    reynolds: Any,
    n_crit: Any = 9.0,
) -> Aerodynamics:
    """Lift, drag and moment of one airfoil, as the package computes them.

    The networks see the airfoil and its mirror image in the mirrored flow; what they
    say is averaged, so that lift and moment have the symmetry that they must have.

    Args:
        params: From `load`.
        airfoil: One airfoil.
        angle_deg: Angle of attack, in degrees.
        reynolds: Reynolds number by the chord.
        n_crit: Critical amplification of the waves that turn the flow turbulent: 9 in
            an average wind tunnel, 12 to 14 for sailplanes.
    """
    seen = _inputs(airfoil, angle_deg, reynolds, n_crit)
    mirrored = Airfoil(
        -airfoil.lower, -airfoil.upper, -airfoil.leading_edge, airfoil.trailing_edge
    )
    image = _inputs(mirrored, -angle_deg, reynolds, n_crit)
    says = (_network(params, seen) + _OUTPUT_SIGNS * _network(params, image)) / 2
    return Aerodynamics(
        lift=says[1] / 2,
        drag=jnp.exp(2 * (says[2] - 2)),
        moment=says[3] / 20,
        confidence=jax.nn.sigmoid(says[0]),
    )


def _inputs(
    airfoil: Airfoil, angle_deg: Any, reynolds: Any, n_crit: Any
) -> Float[Array, " 25"]:
    angle = jnp.radians(angle_deg)
    rest = [
        airfoil.leading_edge,
        50 * airfoil.trailing_edge,
        jnp.sin(2 * angle),
        jnp.cos(angle),
        jnp.sin(angle) ** 2,
        (jnp.log(reynolds) - 12.5) / 3.5,
        (n_crit - 9) / 4.5,
        _FREE,
        _FREE,
    ]
    tail = jnp.stack([jnp.asarray(value, jnp.float32) for value in rest])
    return jnp.concatenate([airfoil.upper, airfoil.lower, tail])


def _network(params: dict[str, Any], x: Float[Array, " 25"]) -> Float[Array, " 4"]:
    """The raw outputs; confidence falls with the distance from the training set."""
    *inner, (weight, bias) = params["layers"]
    y = x
    for hidden, shift in inner:
        y = jax.nn.silu(hidden @ y + shift)
    distance_sq = jnp.sum((params["root"] @ (x - params["mean"])) ** 2)
    return (weight @ y + bias).at[0].add(-distance_sq / (2 * _NUM_INPUTS))


def to_airfoil(solution: Float[Array, " 18"]) -> Airfoil:
    """The airfoil of a solution of `softqd.problems.airfoils`.

    Args:
        solution: Weights of the upper surface, of the lower one and of the leading
            edge, in tenths; the thickness of the trailing edge in thousandths of the
            chord.

    Examples:
        >>> import numpy as np
        >>> airfoil = to_airfoil(np.arange(18.0))
        >>> airfoil.upper.shape, f"{airfoil.lower[0]:.2f}, {airfoil.trailing_edge:.3f}"
        ((8,), '0.80, 0.017')
    """
    values = jnp.asarray(solution, jnp.float32) * SCALES
    upper, lower, edges = jnp.split(values, [NUM_WEIGHTS, 2 * NUM_WEIGHTS])
    return Airfoil(upper, lower, edges[0], edges[1])
