"""Names and shapes of a StyleGAN2 generator, and what is wrong with other ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from softqd.networks._weight_files import to_float32

_SMALLEST = 4  # side of the constant input
_SHOWN = 4  # names listed of each kind of defect
# The filter 1-3-3-1 in both directions, of sum one: the only one `synthesis` knows.
RESAMPLE_FILTER = (np.outer([1, 3, 3, 1], [1, 3, 3, 1]) / 64).astype(np.float32)


def resolutions(resolution: int) -> list[int]:
    """Sides of the blocks: 4, 8, ... up to that of the image."""
    if resolution < _SMALLEST or resolution & (resolution - 1):
        raise ValueError(
            f"resolution must be a power of two, at least {_SMALLEST}; got {resolution}"
        )
    return [1 << k for k in range(2, resolution.bit_length())]


def resolution_of(names: Iterable[str]) -> int:
    """Side of the image, from the names of the blocks."""
    blocks = (name.split(".")[1][1:] for name in names if name.startswith("synthesis."))
    return max((int(block) for block in blocks if block.isdecimal()), default=0)


def mapping_depth(names: Iterable[str]) -> int:
    """Number of the mapping's layers, at most that of its names."""
    found = [name.split(".")[1][2:] for name in names if name.startswith("mapping.fc")]
    layers = (int(layer) for layer in found if layer.isdecimal())
    return min(1 + max(layers, default=-1), len(found))


def expected_shapes(
    channels: Mapping[int, int], z_dim: int, w_dim: int, num_layers: int
) -> dict[str, tuple[int, ...]]:
    """Every name of the official state dict and its shape, in the official order."""
    found: dict[str, tuple[int, ...]] = {}
    before = None
    for side, width in channels.items():
        block = f"synthesis.b{side}"
        if before is None:
            found[f"{block}.const"] = (width, side, side)
        found[f"{block}.resample_filter"] = (4, 4)
        if before is not None:
            found |= _layer(f"{block}.conv0", side, before, width, w_dim)
        found |= _layer(f"{block}.conv1", side, width, width, w_dim)
        found[f"{block}.torgb.weight"] = (3, width, 1, 1)
        found[f"{block}.torgb.bias"] = (3,)
        found[f"{block}.torgb.affine.weight"] = (width, w_dim)
        found[f"{block}.torgb.affine.bias"] = (width,)
        before = width
    found["mapping.w_avg"] = (w_dim,)
    for layer in range(num_layers):
        inputs = w_dim if layer else z_dim
        found[f"mapping.fc{layer}.weight"] = (w_dim, inputs)
        found[f"mapping.fc{layer}.bias"] = (w_dim,)
    return found


def _layer(
    name: str, side: int, inputs: int, outputs: int, w_dim: int
) -> dict[str, tuple[int, ...]]:
    return {
        f"{name}.weight": (outputs, inputs, 3, 3),
        f"{name}.noise_strength": (),
        f"{name}.bias": (outputs,),
        f"{name}.resample_filter": (4, 4),
        f"{name}.noise_const": (side, side),
        f"{name}.affine.weight": (inputs, w_dim),
        f"{name}.affine.bias": (inputs,),
    }


def check(arrays: Mapping[str, Any], label: str) -> dict[str, np.ndarray]:
    """Refuse what is not a generator of the 'skip' architecture.

    Returns:
        The arrays in single precision.

    Raises:
        ValueError: If names are missing, unexpected or of another shape, if values are
            not finite, or if the resample filter is not 1-3-3-1.
    """
    actual = {name: tuple(np.shape(x)) for name, x in arrays.items()}
    expected = expected_shapes(*_dimensions(actual, label))
    misshapen = [
        f"{name} {actual[name]} instead of {shape}"
        for name, shape in expected.items()
        if name in actual and actual[name] != shape
    ]
    defects = {
        "missing": [name for name in expected if name not in actual],
        "unexpected": [name for name in actual if name not in expected],
        "misshapen": misshapen,
    }
    if any(defects.values()):
        listed = "; ".join(
            _listed(kind, what) for kind, what in defects.items() if what
        )
        raise ValueError(f"{label}: not a StyleGAN2 generator: {listed}")
    found = to_float32(arrays, label)
    for name, x in found.items():
        if name.endswith("resample_filter") and not np.allclose(x, RESAMPLE_FILTER):
            raise ValueError(f"{label}: {name} is not the filter 1-3-3-1")
    return found


def check_clamp(value: float) -> float:
    """Return a bound on activations.

    Raises:
        ValueError: If it is not positive and finite.
    """
    if not 0 < value < float("inf"):
        raise ValueError(f"conv_clamp must be a positive number; got {value}")
    return value


def _listed(kind: str, what: list[str]) -> str:
    rest = len(what) - _SHOWN
    more = f" and {rest} more" if rest > 0 else ""
    return f"{len(what)} {kind}: {', '.join(what[:_SHOWN])}{more}"


def _dimensions(
    actual: Mapping[str, tuple[int, ...]], label: str
) -> tuple[dict[int, int], int, int, int]:
    """Channels by side, z_dim, w_dim and depth, each by a vote of the shapes.

    A vote, so that one array of a wrong shape is named itself, not all others.
    """
    largest = resolution_of(actual)
    depth = mapping_depth(actual)
    wanted = {"synthesis.b4.conv1.weight": largest, "mapping.fc0.weight": depth}
    absent = [name for name, number in wanted.items() if not number]
    if absent:
        some = ", ".join(list(actual)[:_SHOWN]) or "nothing"
        raise ValueError(
            f"{label}: not a StyleGAN2 generator: no names like "
            f"{' and '.join(absent)}; it begins with {some}"
        )
    try:
        sides = resolutions(largest)
    except ValueError as error:
        raise ValueError(f"{label}: not a StyleGAN2 generator: {error}") from None

    def vote(*places: tuple[str, int], default: int = 1) -> int:
        votes = Counter(
            actual[name][axis]
            for name, axis in places
            if name in actual and len(actual[name]) > axis
        )
        return votes.most_common(1)[0][0] if votes else default

    affine = [(n, 1) for n in actual if n.endswith("affine.weight")]
    biases = [(n, 0) for n in actual if n.startswith("mapping.") and "weight" not in n]
    w_dim = vote(*affine, *biases)
    z_dim = vote(("mapping.fc0.weight", 1), default=w_dim)
    channels = {}
    for side in sides:
        block = f"synthesis.b{side}"
        channels[side] = vote(
            *((f"{block}.conv1.{part}", 0) for part in ("weight", "bias")),
            *((f"{block}.conv1.affine.{part}", 0) for part in ("weight", "bias")),
            *((f"{block}.torgb.affine.{part}", 0) for part in ("weight", "bias")),
        )
    return channels, z_dim, w_dim, depth
