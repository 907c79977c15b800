"""What the operations of OpenVINO's networks do, in JAX.

Only those of the networks that are used here, with the meaning the OpenVINO
documentation gives them. Attributes are texts, as in the file; shapes that a network
computes from its input stay NumPy arrays, so that programs of any batch size compile.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from softqd.networks._graph import elementwise, xp


def numbers(attributes: dict[str, str], name: str) -> tuple[int, ...]:
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
    begin, end = (numbers(attributes, f"pads_{side}") for side in ("begin", "end"))
    return list(zip(begin, end, strict=True))


def _convolution(attributes: dict, x: Any, weight: Any) -> Any:
    strides, pads = numbers(attributes, "strides"), _pads(attributes)
    by_library = functools.partial(
        jax.lax.conv_general_dilated,
        window_strides=strides,
        padding=pads,
        rhs_dilation=numbers(attributes, "dilations"),
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
    settings = {numbers(attributes, name) for name in ("strides", "dilations")}
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
        numbers(attributes, name) for name in ("strides", "dilations", "output_padding")
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


OPERATIONS: dict[str, Callable] = {
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
