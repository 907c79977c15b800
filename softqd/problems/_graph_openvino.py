"""Neural networks in OpenVINO's intermediate representation, as JAX functions.

An ``.xml`` file lists layers and edges, the ``.bin`` beside it holds the constants.
Only the operations of the networks that are used here are known, with the meaning the
OpenVINO documentation gives them; anything else is refused by name. Shapes that a
network computes from its input stay NumPy arrays, so that programs of any batch size
compile; floating-point constants are the parameters.
"""

from __future__ import annotations

import functools
import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from softqd.problems._graph import (
    Network,
    Params,
    compute,
    elementwise,
    split_constants,
    xp,
)

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
        if layer.kind not in _OPERATIONS:
            raise ValueError(
                f"{path}: operation {layer.kind!r} of layer {layer.name!r} is not known"
            )
    first, last = (_only(path, layers, kind) for kind in ("Parameter", "Result"))
    params, shapes = split_constants(constants)

    def apply(params: Params, x: Array) -> Array:
        known: dict[str, Any] = {**shapes, **params, first: x}
        values: dict[str, tuple] = {key: (value,) for key, value in known.items()}
        for key, layer in layers.items():
            if key not in values:
                inputs = (values[source][number] for source, number in layer.inputs)
                where = (path, layer.kind, layer.name)
                operation = _OPERATIONS[layer.kind]
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
        numbers = (int(layer.attributes[name]) for name in names)
        return _numbers(layer.attributes, "shape"), *numbers
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


def _numbers(attributes: dict[str, str], name: str) -> tuple[int, ...]:
    """A list of whole numbers such as ``1, 512``; an empty text is a scalar's shape."""
    return tuple(int(text) for text in attributes[name].split(",") if text.strip())


def _reshape(attributes: dict, x: Any, shape: np.ndarray) -> Any:
    sizes = shape.tolist()
    if attributes.get("special_zero") == "true":
        sizes = [x.shape[i] if size == 0 else size for i, size in enumerate(sizes)]
    return x.reshape(sizes)


def _broadcast(attributes: dict, x: Any, shape: np.ndarray) -> Any:
    sizes = tuple(shape.tolist())
    if attributes["mode"] == "bidirectional":
        sizes = np.broadcast_shapes(x.shape, sizes)
    elif attributes["mode"] != "numpy":
        raise ValueError(f"mode {attributes['mode']!r} is not known")
    return xp(x).broadcast_to(x, sizes)


def _split(_: dict, x: Any, axis: np.ndarray, lengths: np.ndarray) -> tuple:
    rest = x.shape[int(axis)] - lengths[lengths >= 0].sum()
    sizes = np.where(lengths < 0, rest, lengths)
    return tuple(xp(x).split(x, np.cumsum(sizes)[:-1].tolist(), int(axis)))


def _matmul(attributes: dict, a: Any, b: Any) -> Any:
    a = a.swapaxes(-1, -2) if attributes["transpose_a"] == "true" else a
    b = b.swapaxes(-1, -2) if attributes["transpose_b"] == "true" else b
    return jnp.matmul(a, b)


def _prelu(_: dict, x: Any, slope: Any) -> Any:
    # One slope for all, or one for each channel.
    slope = slope.reshape((1, slope.size) + (1,) * (x.ndim - 2))
    return jnp.where(x < 0, slope * x, x)


def _reduce_mean(attributes: dict, x: Any, axes: np.ndarray) -> Any:
    keep = attributes.get("keep_dims") == "true"
    return x.mean(tuple(axes.ravel().tolist()), keepdims=keep)


def _pads(attributes: dict) -> list[tuple[int, int]]:
    if attributes.get("auto_pad", "explicit") != "explicit":
        raise ValueError(f"auto_pad {attributes['auto_pad']!r} is not known")
    begin, end = (_numbers(attributes, f"pads_{side}") for side in ("begin", "end"))
    return list(zip(begin, end, strict=True))


def _convolution(attributes: dict, x: Any, weight: Any) -> Any:
    strides, pads = _numbers(attributes, "strides"), _pads(attributes)
    by_library = functools.partial(
        jax.lax.conv_general_dilated,
        window_strides=strides,
        padding=pads,
        rhs_dilation=_numbers(attributes, "dilations"),
    )
    is_mix = weight.shape[2:] == strides == (1, 1) and not any(map(any, pads))
    if not is_mix:
        return by_library(x, weight)
    # In a compiled loop on a CPU, convolutions are fifty times slower than products.
    return jax.lax.platform_dependent(x, weight, cpu=_mix_channels, default=by_library)


def _mix_channels(x: Any, weight: Any) -> Any:
    """A convolution of single pixels, as a product of matrices."""
    n, _, height, width = x.shape
    mixed = jnp.matmul(weight[None, :, :, 0, 0], x.reshape(n, -1, height * width))
    return mixed.reshape(n, -1, height, width)


def _depthwise(attributes: dict, x: Any, weight: Any) -> Any:
    """One filter per channel, as a sum of shifted pictures.

    Compilers turn this into one pass over the picture, forward and backward; their
    libraries' grouped convolutions are several times slower.
    """
    settings = {_numbers(attributes, name) for name in ("strides", "dilations")}
    if settings != {(1, 1)} or weight.shape[1:3] != (1, 1):
        raise ValueError("only one filter per channel with stride 1 is known")
    height, width = weight.shape[-2:]
    # Behind the barrier, x is not computed anew for every shift.
    padded = jax.lax.optimization_barrier(
        jnp.pad(x, [(0, 0), (0, 0), *_pads(attributes)])
    )
    rows, columns = (
        size - k + 1 for size, k in zip(padded.shape[2:], (height, width), strict=True)
    )
    filters = weight.reshape(1, -1, height, width, 1, 1)
    return sum(
        padded[:, :, i : i + rows, j : j + columns] * filters[:, :, i, j]
        for i in range(height)
        for j in range(width)
    )


def _depthwise_up(attributes: dict, x: Any, weight: Any) -> Any:
    """Transposed filter per channel whose windows touch but do not overlap."""
    size = tuple(weight.shape[-2:])
    strides, dilations, more = (
        _numbers(attributes, name)
        for name in ("strides", "dilations", "output_padding")
    )
    is_padded = any(map(any, [more, *_pads(attributes)]))
    if is_padded or size != strides or {dilations, weight.shape[1:3]} != {(1, 1)}:
        raise ValueError(
            "only one filter per channel of the size of the stride is known"
        )
    n, channels, height, width = x.shape
    filters = weight.reshape(1, channels, *size, 1, 1)
    # Stacked, since the derivative of this is slices, of repeating it slow sums.
    rows = [
        jnp.stack([x * filters[:, :, i, j] for j in range(size[1])], -1)
        for i in range(size[0])
    ]
    blocks = jnp.stack(rows, 3)
    return blocks.reshape(n, channels, height * size[0], width * size[1])


_OPERATIONS: dict[str, Callable] = {
    "Parameter": lambda attributes, x: x,
    "Const": lambda attributes, x: x,
    "Result": lambda attributes, x: x,
    "Add": elementwise("add"),
    "Multiply": elementwise("multiply"),
    "Power": elementwise("power"),
    "Broadcast": _broadcast,
    "Concat": lambda attributes, *xs: xp(*xs).concatenate(xs, int(attributes["axis"])),
    "Convolution": _convolution,
    "Gather": lambda _, x, index, axis: xp(x, index).take(x, index, int(axis)),
    "GroupConvolution": _depthwise,
    "GroupConvolutionBackpropData": _depthwise_up,
    "MatMul": _matmul,
    "PReLU": _prelu,
    "ReduceMean": _reduce_mean,
    "Reshape": _reshape,
    "ShapeOf": lambda _, x: np.array(x.shape),
    "Squeeze": lambda _, x, axes: xp(x).squeeze(x, tuple(axes.ravel().tolist())),
    "Tile": lambda _, x, repeats: xp(x).tile(x, repeats.tolist()),
    "Unsqueeze": lambda _, x, axes: xp(x).expand_dims(x, tuple(axes.ravel().tolist())),
    "VariadicSplit": _split,
}
