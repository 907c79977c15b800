"""Neural networks in OpenVINO's intermediate representation, as JAX functions.

An ``.xml`` file lists layers and edges, the ``.bin`` beside it holds the constants, of
which the floating-point ones are the parameters. Operations that are not known are
refused by name.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array

from softqd.networks._graph import Network, Params, compute, split_constants
from softqd.networks._openvino_operations import OPERATIONS, numbers

_DTYPES = {"f32": np.float32, "i64": np.int64, "i32": np.int32}


class _Layer(NamedTuple):
    kind: str
    name: str
    inputs: tuple[tuple[str, int], ...]  # identifier and output number of each source
    attributes: dict[str, str]


def read_openvino(path: str | Path) -> Network:
    """Read a network with one input and one output.

    Args:
        path: The ``.xml`` file; the constants are in the ``.bin`` file beside it.

    Returns:
        The network; its parameters are named by their layers' identifiers.

    Raises:
        ValueError: If a file is missing, truncated or misshapen, or the network has an
            operation that is not known here.
    """
    path = Path(path)
    layers, constants = _read_layers(path)
    for layer in layers.values():
        if layer.kind not in OPERATIONS:
            raise ValueError(
                f"{path}: operation {layer.kind!r} of layer {layer.name!r} is not known"
            )
    first, last = (_only(path, layers, kind) for kind in ("Parameter", "Result"))
    params, shapes = split_constants(path.with_suffix(".bin"), constants)

    def apply(params: Params, x: Array) -> Array:
        known: dict[str, Any] = {**shapes, **params, first: x}
        values: dict[str, tuple] = {key: (value,) for key, value in known.items()}
        for key, layer in layers.items():
            if key not in values:
                inputs = (values[source][number] for source, number in layer.inputs)
                where = (path, layer.kind, layer.name)
                operation = OPERATIONS[layer.kind]
                found = compute(where, operation, layer.attributes, inputs)
                values[key] = found if isinstance(found, tuple) else (found,)
        return values[last][0]

    return Network(apply, params, _sizes(path, layers[first])[0][1:])


def _read_layers(path: Path) -> tuple[dict[str, _Layer], dict[str, np.ndarray]]:
    """Layers by identifier, every layer after its sources, and their constants."""
    try:
        root = ElementTree.parse(path).getroot()
        data = path.with_suffix(".bin").read_bytes()
        sources: dict[str, dict[int, tuple[str, int]]] = {}
        for edge in root.iter("edge"):
            to = sources.setdefault(edge.attrib["to-layer"], {})
            source = (edge.attrib["from-layer"], int(edge.attrib["from-port"]))
            to[int(edge.attrib["to-port"])] = source
        layers: dict[str, _Layer] = {}
        first_output = {}
        for element in root.iter("layer"):
            key, kind = element.attrib["id"], element.attrib["type"]
            # Ports are numbered through: inputs first, then outputs.
            first_output[key] = len(element.findall("input/port"))
            inputs = tuple(
                (source, port - first_output[source])
                for _, (source, port) in sorted(sources.get(key, {}).items())
            )
            found = element.find("data")
            attributes = {} if found is None else dict(found.attrib)
            layers[key] = _Layer(kind, element.attrib["name"], inputs, attributes)
    except FileNotFoundError as error:
        raise ValueError(f"there is no file {error.filename}") from None
    except (ElementTree.ParseError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is not a network in OpenVINO's representation, or not all of it: "
            f"{type(error).__name__}: {error}"
        ) from None
    constants = {
        key: _constant(path, layer, data)
        for key, layer in layers.items()
        if layer.kind == "Const"
    }
    return layers, constants


def _constant(path: Path, layer: _Layer, data: bytes) -> np.ndarray:
    kind = layer.attributes.get("element_type", "")
    dtype = _DTYPES.get(kind)
    if dtype is None:
        raise ValueError(
            f"{path}: constants of type {kind!r} are not known (layer {layer.name!r})"
        )
    shape, start, size = _sizes(path, layer, "offset", "size")
    if (
        start < 0
        or start + size > len(data)
        or size != math.prod(shape) * np.dtype(dtype).itemsize
    ):
        raise ValueError(
            f"{path.with_suffix('.bin')}: Const of layer {layer.name!r} has shape "
            f"{shape} and bytes {start} to {start + size}, but the file has "
            f"{len(data)}; it is truncated or belongs to another .xml"
        )
    return np.frombuffer(data, dtype, math.prod(shape), start).reshape(shape)


def _sizes(path: Path, layer: _Layer, *names: str) -> tuple[Any, ...]:
    """A layer's shape, and attributes that are one whole number each."""
    try:
        wholes = (int(layer.attributes[name]) for name in names)
        return numbers(layer.attributes, "shape"), *wholes
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"{path}: {layer.kind} {layer.name!r} cannot be read: "
            f"{type(error).__name__}: {error}"
        ) from None


def _only(path: Path, layers: dict[str, _Layer], kind: str) -> str:
    found = [key for key, layer in layers.items() if layer.kind == kind]
    if len(found) != 1:
        raise ValueError(f"{path} has {len(found)} layers {kind}, expected one")
    return found[0]
