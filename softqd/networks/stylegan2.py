"""StyleGAN2's generator as pure functions over its official parameters.

Karras et al., "Analyzing and Improving the Image Quality of StyleGAN" (2020), in the
'skip' architecture of the authors' PyTorch release: parameters are keyed by the names
of its state dict, so that a converted file is used as it is.

Written for populations: modulation scales the activations and demodulation the outputs
of a convolution, instead of the weights between them, so that one convolution with
shared weights serves the whole batch, and no gradient of a weight is ever formed. The
resample filter is a sum of shifted slices: as a depthwise convolution it takes four
times as long on a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from softqd.networks import _stylegan2_shapes as shapes
from softqd.networks._weight_files import read_arrays, read_metadata

Params = dict[str, Array]
Precision = Literal["float32", "tf32", "bfloat16"]

PRECISIONS = ("float32", "tf32", "bfloat16")
NOISES = ("const", "none")
# Constants of the release: learning rate multiplier of the mapping, slope and gain of
# the leaky ReLU, and what keeps divisions finite.
_MAPPING_LR = 0.01
_SLOPE = 0.2
_GAIN = np.float32(np.sqrt(2.0))
_EPSILON = 1e-8


def load(source: str | Path | Mapping[str, Any]) -> Params:
    """A generator's parameters, every name and shape checked.

    Resolution, widths and depth follow from the shapes; any power of two from 4 pixels
    on will do.

    Args:
        source: Path of a ``.safetensors`` or ``.npz`` file, or arrays by official name
            (``synthesis.b4.const``, ``mapping.fc0.weight``, ...). The official pickle
            is converted first, by ``softqd weights convert ffhq.pkl``.

    Returns:
        The arrays by official name, in single precision.

    Raises:
        ValueError: If the file cannot be read, or if names are missing, unexpected or
            of another shape; the message lists them.

    Examples:
        >>> params = load(random_state(resolution=8, w_dim=4, max_channels=4))
        >>> resolution(params), num_ws(params)
        (8, 4)
    """
    is_path = isinstance(source, (str, Path))
    label = str(source) if is_path else "the given arrays"
    arrays = read_arrays(Path(source)) if is_path else source
    checked = shapes.check(arrays, label)
    return {name: jnp.asarray(x) for name, x in checked.items()}


def read_conv_clamp(path: str | Path) -> float | None:
    """The bound on activations that ``softqd weights convert`` noted in a file.

    Raises:
        ValueError: If the note is not a positive number.
    """
    path = Path(path).expanduser()
    noted = read_metadata(path).get("conv_clamp", "none")
    if noted == "none":
        return None
    try:
        return shapes.check_clamp(float(noted))
    except ValueError:
        raise ValueError(
            f"{path}: conv_clamp must be a positive number or none; got {noted!r}"
        ) from None


def random_state(
    resolution: int = 1024,
    *,
    z_dim: int | None = None,
    w_dim: int = 512,
    max_channels: int = 512,
    channel_base: int = 32768,
    num_layers: int = 8,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Untrained weights, for tests and timings: the official names, shapes and scales.

    Args:
        resolution: Side of the image in pixels.
        z_dim: Size of the mapping's input; by default that of its output.
        w_dim: Size of the mapping's output.
        max_channels: Channels of the coarse layers.
        channel_base: A layer of side r has ``channel_base / r`` channels at most.
        num_layers: Layers of the mapping.
        seed: Of the random numbers.
    """
    rng = np.random.default_rng(seed)
    widths = {
        r: min(channel_base // r, max_channels) for r in shapes.resolutions(resolution)
    }
    expected = shapes.expected_shapes(widths, z_dim or w_dim, w_dim, num_layers)
    state = {}
    for name, shape in expected.items():
        x = rng.standard_normal(shape, np.float32)
        if name.startswith("mapping.fc"):
            x = x / np.float32(_MAPPING_LR)
        if name.endswith("bias"):
            x = np.full(shape, 1.0 if "affine" in name else 0.0, np.float32)
        if name.endswith("noise_strength"):
            x = np.float32(0.1)
        if name.endswith("resample_filter"):
            x = shapes.RESAMPLE_FILTER
        state[name] = x
    return state


def resolution(params: Mapping[str, Any]) -> int:
    """Side of the image in pixels."""
    return shapes.resolution_of(params)


def num_ws(params: Mapping[str, Any]) -> int:
    """Number of style vectors of one image: 18 at 1024 pixels."""
    return 2 * (resolution(params).bit_length() - 2)


def mapping(
    params: Params, z: Float[Array, "n z"], truncation_psi: float = 1.0
) -> Float[Array, "n num_ws w"]:
    """Style vectors of latent vectors, the same for every layer.

    Args:
        params: From `load`.
        z: Latent vectors, standard normal.
        truncation_psi: Share of the way from the average style vector.

    Examples:
        >>> params = load(random_state(resolution=8, w_dim=4, max_channels=4))
        >>> mapping(params, jnp.ones((2, 4))).shape
        (2, 4, 4)
    """
    _check_columns("z", z, (params["mapping.fc0.weight"].shape[1],))
    x = z * lax.rsqrt(jnp.mean(z**2, axis=1, keepdims=True) + _EPSILON)
    for layer in range(shapes.mapping_depth(params)):
        x = _lrelu(_dense(params, f"mapping.fc{layer}", x, _MAPPING_LR))
    average = params["mapping.w_avg"][None]
    x = average + truncation_psi * (x - average)
    return jnp.broadcast_to(x[:, None], (x.shape[0], num_ws(params), x.shape[1]))


def synthesis(
    params: Params,
    ws: Float[Array, "n num_ws w"],
    noise: Literal["const", "none"] = "const",
    precision: Precision = "float32",
    *,
    conv_clamp: float | None = None,
) -> Float[Array, "n h w 3"]:
    """Images of style vectors, nominally in [-1, 1] and not clipped.

    Args:
        params: From `load`.
        ws: One style vector for each layer.
        noise: 'const', the pattern stored with the weights, or 'none'.
        precision: Of the convolutions: 'float32'; 'tf32', which rounds their inputs
            to 10 bits where the device has such units; 'bfloat16', which also stores
            activations in half the memory. The image is float32 in any case.
        conv_clamp: Bound on activations, if the weights were trained with one; the
            official FFHQ weights were not. `read_conv_clamp` reads it from a file.

    Examples:
        >>> params = load(random_state(resolution=8, w_dim=4, max_channels=4))
        >>> synthesis(params, jnp.zeros((2, 4, 4))).shape
        (2, 8, 8, 3)
    """
    if noise not in NOISES:
        raise ValueError(f"noise must be one of {', '.join(NOISES)}; got {noise!r}")
    if precision not in PRECISIONS:
        raise ValueError(
            f"precision must be one of {', '.join(PRECISIONS)}; got {precision!r}"
        )
    _check_columns("ws", ws, (num_ws(params), params["mapping.w_avg"].shape[0]))
    layer = _Layers(
        params,
        jnp.bfloat16 if precision == "bfloat16" else jnp.float32,
        # Highest: float32 on any device. Default: TF32 on GPUs that have it.
        lax.Precision.HIGHEST if precision == "float32" else lax.Precision.DEFAULT,
        noise == "const",
        conv_clamp,
    )
    const = params["synthesis.b4.const"].transpose(1, 2, 0)
    x = jnp.broadcast_to(const[None], (ws.shape[0], *const.shape))
    x = layer.convolve("synthesis.b4.conv1", x, ws[:, 0])
    image = layer.to_rgb("synthesis.b4.torgb", x, ws[:, 1])
    for block, side in enumerate(shapes.resolutions(resolution(params))[1:]):
        first = 2 * block + 1
        name = f"synthesis.b{side}"
        x = layer.convolve(f"{name}.conv0", x, ws[:, first], up=True)
        x = layer.convolve(f"{name}.conv1", x, ws[:, first + 1])
        rgb = layer.to_rgb(f"{name}.torgb", x, ws[:, first + 2])
        image = upsample(image) + rgb
    return image


class _Layers(NamedTuple):
    """The two kinds of synthesis layer, with what they have in common."""

    params: Params
    dtype: Any
    precision: lax.Precision
    has_noise: bool
    conv_clamp: float | None

    def convolve(self, name: str, x: Array, w: Array, up: bool = False) -> Array:
        """Modulated convolution, noise and leaky ReLU; twice the side with ``up``."""
        weight = self.params[f"{name}.weight"]
        styles = _dense(self.params, f"{name}.affine", w)
        # Demodulation: one over the norm that the modulated kernel would have.
        norm_sq = _matmul(styles**2, jnp.sum(weight**2, axis=(2, 3)).T)
        demodulation = lax.rsqrt(norm_sq + _EPSILON)
        x = (x * styles[:, None, None, :]).astype(self.dtype)
        x = self._convolution(x, weight.astype(self.dtype), up)
        x = low_pass(x) if up else x
        x = x.astype(jnp.float32) * demodulation[:, None, None, :]
        if self.has_noise:
            pattern = self.params[f"{name}.noise_const"][None, :, :, None]
            x = x + pattern * self.params[f"{name}.noise_strength"]
        x = _lrelu(x + self.params[f"{name}.bias"][None, None, None])
        return self._clamp(x).astype(self.dtype)

    def to_rgb(self, name: str, x: Array, w: Array) -> Array:
        """A modulated 1 x 1 convolution to three channels, not demodulated."""
        weight = self.params[f"{name}.weight"][:, :, 0, 0]
        scale = np.float32(1 / np.sqrt(weight.shape[1]))
        styles = _dense(self.params, f"{name}.affine", w) * scale
        # Three columns: here it is the weights that are cheap to modulate.
        columns = styles[None] * weight[:, None]
        # Sums along rows: a product with three columns leaves matrix units idle, and
        # takes a compiler longest of all to choose a kernel for.
        if self.dtype != jnp.float32:
            # Read what is stored for the next layer, not a wider copy of it.
            x = lax.optimization_barrier(x).astype(jnp.float32)
        rgb = jnp.stack([jnp.sum(x * c[:, None, None], -1) for c in columns], -1)
        bias = self.params[f"{name}.bias"][None, None, None]
        return self._clamp(rgb + bias)

    def _convolution(self, x: Array, weight: Array, up: bool) -> Array:
        if up:  # transposed: input apart by zeros, kernel turned
            weight = weight[:, :, ::-1, ::-1]
        return lax.conv_general_dilated(
            x,
            weight,
            window_strides=(1, 1),
            padding=[(2, 2), (2, 2)] if up else [(1, 1), (1, 1)],
            lhs_dilation=(2, 2) if up else (1, 1),
            dimension_numbers=("NHWC", "OIHW", "NHWC"),
            precision=self.precision,
        )

    def _clamp(self, x: Array) -> Array:
        bound = self.conv_clamp
        return x if bound is None else jnp.clip(x, -bound, bound)


def low_pass(x: Float[Array, "n h w c"]) -> Float[Array, "n h-1 w-1 c"]:
    """The filter 1-3-3-1 in both directions after a transposed convolution.

    Each axis is padded by one zero at both ends; the gain of 2 per axis makes up for
    the zeros between the pixels.
    """
    for axis in (1, 2):
        padding = [(0, 0)] * 4
        padding[axis] = (1, 1)
        padded = jnp.pad(x, padding)
        size = x.shape[axis] - 1
        a, b, c, d = (
            lax.slice_in_dim(padded, k, k + size, axis=axis) for k in range(4)
        )
        x = 0.25 * (a + d) + 0.75 * (b + c)
    return x


def upsample(x: Float[Array, "n h w c"]) -> Float[Array, "n 2h 2w c"]:
    """Images of twice the side, through the filter 1-3-3-1.

    Of its four taps, two meet pixels and two the zeros between them: even places are
    3/4 of a pixel and 1/4 of the one before, odd places 3/4 and 1/4 of the one after.

    Examples:
        >>> row = jnp.array([4.0, 8.0]).reshape(1, 1, 2, 1)
        >>> upsample(row)[0, 0, :, 0] * 4 / 3  # rows beyond the border are zero
        Array([3., 5., 7., 6.], dtype=float32)
    """
    for axis in (1, 2):
        size = x.shape[axis]
        padding = [(0, 0)] * 4
        padding[axis] = (1, 1)
        padded = jnp.pad(x, padding)
        before, after = (
            lax.slice_in_dim(padded, k, k + size, axis=axis) for k in (0, 2)
        )
        pairs = jnp.stack([0.75 * x + 0.25 * before, 0.75 * x + 0.25 * after], axis + 1)
        x = pairs.reshape(*x.shape[:axis], 2 * size, *x.shape[axis + 1 :])
    return x


def _dense(params: Params, name: str, x: Array, lr: float = 1.0) -> Array:
    weight = params[f"{name}.weight"]
    scaled = weight.T * np.float32(lr / np.sqrt(weight.shape[1]))
    return _matmul(x, scaled) + np.float32(lr) * params[f"{name}.bias"][None]


def _matmul(x: Array, y: Array) -> Array:
    """In full single precision: small beside the convolutions."""
    return jnp.matmul(x, y, precision=lax.Precision.HIGHEST)


def _lrelu(x: Array) -> Array:
    return jnp.where(x >= 0, x, _SLOPE * x) * _GAIN


def _check_columns(name: str, x: Any, expected: tuple[int, ...]) -> None:
    shape = jnp.shape(x)
    if shape[1:] != expected or len(shape) != len(expected) + 1:
        wanted = ", ".join(map(str, expected))
        raise ValueError(f"{name} must have shape (n, {wanted}); got {shape}")
