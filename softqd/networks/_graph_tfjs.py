"""Neural networks of TensorFlow.js (format 'graph-model'), as JAX functions.

A ``.json`` file holds the nodes of a TensorFlow graph and says where in the ``.bin``
files beside it the weights are. Only the operations of the networks that are used here
are known; anything else is refused by name.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from softqd.networks._graph import (
    Network,
    Params,
    compute,
    elementwise,
    split_constants,
)

_DTYPES = {"float32": np.float32, "float16": np.float16, "int32": np.int32}


class _Node(NamedTuple):
    name: str
    kind: str
    inputs: tuple[str, ...]
    attributes: dict[str, Any]


def read_tfjs(path: str | Path, outputs: Sequence[str]) -> Network:
    """Read a network with one input, and say which of its nodes are wanted.

    Args:
        path: The ``.json`` file; the weights are in files beside it.
        outputs: Names of nodes, for example one before a last softmax.

    Returns:
        The network; it takes pictures ``(n, h, w, c)`` and returns a tuple with one
        array per output. Its parameters are named as in the file.

    Raises:
        ValueError: If a file is missing, truncated or misshapen, an output is not in
            the network, or the network has an operation that is not known here.
    """
    path = Path(path)
    nodes, weights = _read_nodes(path)
    for node in nodes:
        if node.kind not in _OPERATIONS:
            raise ValueError(
                f"{path}: operation {node.kind!r} of node {node.name!r} is not known"
            )
        if node.kind == "Const" and node.name not in weights:
            raise ValueError(f"{path}: Const {node.name!r} has no weights")
    missing = set(outputs) - {node.name for node in nodes}
    if missing:
        raise ValueError(f"{path} has no node {', '.join(sorted(missing))}")
    params, axes = split_constants(path, weights)
    first, shape = _input(path, nodes)

    def apply(params: Params, x: Array) -> tuple[Array, ...]:
        values: dict[str, Any] = {**axes, **params, first: x}
        for node in nodes:
            if node.name not in values:
                inputs = (values[name.split(":")[0]] for name in node.inputs)
                where = (path, node.kind, node.name)
                operation = _OPERATIONS[node.kind]
                values[node.name] = compute(where, operation, node.attributes, inputs)
        return tuple(values[name] for name in outputs)

    return Network(apply, params, shape)


def _input(path: Path, nodes: list[_Node]) -> tuple[str, tuple[int, ...]]:
    """Name and shape of the one input, without the batch."""
    found = [node for node in nodes if node.kind == "Placeholder"]
    if len(found) != 1:
        raise ValueError(f"{path} has {len(found)} inputs, expected one")
    try:
        dims = found[0].attributes["shape"]["shape"]["dim"]
        return found[0].name, tuple(int(dim["size"]) for dim in dims[1:])
    except (LookupError, TypeError, ValueError):
        raise ValueError(f"{path}: the shape of its input cannot be read") from None


def _read_nodes(path: Path) -> tuple[list[_Node], dict[str, np.ndarray]]:
    """Nodes in the order of the file, in which sources come first, and weights."""
    try:
        graph = json.loads(path.read_bytes())
        nodes = [
            _Node(
                node["name"],
                node["op"],
                tuple(node.get("input", ())),
                node.get("attr", {}),
            )
            for node in graph["modelTopology"]["node"]
        ]
        weights = {}
        for group in graph["weightsManifest"]:
            files = [path.parent / name for name in group["paths"]]
            data = b"".join(file.read_bytes() for file in files)
            weights |= _read_weights(files[-1], group["weights"], data)
    except FileNotFoundError as error:
        raise ValueError(f"there is no file {error.filename}") from None
    except (
        json.JSONDecodeError,
        UnicodeDecodeError,
        AttributeError,
        LookupError,
        TypeError,
    ) as error:
        raise ValueError(
            f"{path} is not a graph model of TensorFlow.js, or not all of it: "
            f"{type(error).__name__}: {error}"
        ) from None
    return nodes, weights


def _read_weights(file: Path, entries: list, data: bytes) -> dict[str, np.ndarray]:
    """Arrays that lie one after the other, some of them stored in half precision."""
    weights, start = {}, 0
    for entry in entries:
        stored = entry.get("quantization", entry)["dtype"]
        if stored not in _DTYPES or entry["dtype"] not in ("float32", "int32"):
            raise ValueError(
                f"{file}: weights of type {stored!r} are not known ({entry['name']!r})"
            )
        size = math.prod(entry["shape"])
        end = start + size * np.dtype(_DTYPES[stored]).itemsize
        if end > len(data):
            raise ValueError(
                f"{file}: Const {entry['name']!r} of shape {entry['shape']} goes to "
                f"byte {end}, but there are {len(data)}; the file is truncated"
            )
        array = np.frombuffer(data, _DTYPES[stored], size, start)
        weights[entry["name"]] = array.reshape(entry["shape"]).astype(entry["dtype"])
        start = end
    if start != len(data):
        raise ValueError(
            f"{file} has {len(data)} bytes, but its weights take {start}; it belongs "
            "to another .json"
        )
    return weights


def _text(value: dict) -> str:
    return _decoded(value["s"])


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise ValueError(f"{text!r} is not a text in base 64") from None


def _numbers(attributes: dict, name: str) -> tuple[int, ...]:
    """Sizes along height and width."""
    batch, height, width, channel = (int(i) for i in attributes[name]["list"]["i"])
    if (batch, channel) != (1, 1):
        raise ValueError(f"{name} over batch or channels is not known")
    return height, width


def _convolution(attributes: dict, x: Any, weight: Any, groups: int = 1) -> Any:
    if _text(attributes["data_format"]) != "NHWC":
        raise ValueError("only data_format NHWC is known")
    strides = _numbers(attributes, "strides")
    if weight.shape[:2] == strides == (1, 1) and groups == 1:
        return x @ weight[0, 0]
    return jax.lax.conv_general_dilated(
        x,
        weight,
        strides,
        _text(attributes["padding"]),
        rhs_dilation=_numbers(attributes, "dilations"),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


def _depthwise(attributes: dict, x: Any, weight: Any) -> Any:
    height, width, channels, multiplier = weight.shape
    weight = weight.reshape(height, width, 1, channels * multiplier)
    return _convolution(attributes, x, weight, groups=channels)


def _fused(operation: Callable) -> Callable:
    """An operation, then those that ``fused_ops`` names: a bias and a rectifier."""

    def fused(attributes: dict, x: Any, weight: Any, *args: Any) -> Any:
        y = operation(attributes, x, weight)
        rest = list(args)
        for text in attributes["fused_ops"]["list"]["s"]:
            name = _decoded(text)
            if name == "BiasAdd":
                y = elementwise("add")({}, y, rest.pop(0))
            elif name == "Relu":
                y = jax.nn.relu(y)
            else:
                raise ValueError(f"fused operation {name!r} is not known")
        return y

    return fused


def _matmul(attributes: dict, a: Any, b: Any) -> Any:
    a = a.T if attributes["transpose_a"]["b"] else a
    b = b.T if attributes["transpose_b"]["b"] else b
    return a @ b


def _max_pool(attributes: dict, x: Any) -> Any:
    return jax.lax.reduce_window(
        x,
        -jnp.inf,
        jax.lax.max,
        (1, *_numbers(attributes, "ksize"), 1),
        (1, *_numbers(attributes, "strides"), 1),
        _text(attributes["padding"]),
    )


def _mean(attributes: dict, x: Any, axes: np.ndarray) -> Any:
    keep = attributes.get("keep_dims", {}).get("b", False)
    return x.mean(tuple(axes.ravel().tolist()), keepdims=keep)


_OPERATIONS: dict[str, Callable] = {
    "Placeholder": lambda attributes, x: x,
    "Const": lambda attributes, x: x,
    "Identity": lambda attributes, x: x,
    "Add": elementwise("add"),
    "AddV2": elementwise("add"),
    "Mul": elementwise("multiply"),
    "Minimum": elementwise("minimum"),
    "Maximum": elementwise("maximum"),
    "Conv2D": _convolution,
    "DepthwiseConv2dNative": _depthwise,
    "_FusedConv2D": _fused(_convolution),
    "_FusedMatMul": _fused(_matmul),
    "MaxPool": _max_pool,
    "Mean": _mean,
    "Relu": lambda _, x: jax.nn.relu(x),
    "Sigmoid": lambda _, x: jax.nn.sigmoid(x),
    "Softmax": lambda _, x: jax.nn.softmax(x, axis=-1),
}
