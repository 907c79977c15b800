r"""Soft circles composited in order over a background, with an exact derivative.

Circle j covers pixel p with opacity $a_j(p) = \alpha_j \sigma((r_j^2 - |p - c_j|^2) /
s)$; later circles lie over earlier ones. Circles are visited from the front: with $T_j$
the product of $1 - a_i$ over those in front of j, the picture is $\sum_j T_j a_j
\mathrm{color}_j + T \cdot \mathrm{background}$. For the gradient G of the picture,

$\partial/\partial a_j = T_j (G \cdot \mathrm{color}_j - h_j)$, with $h_j$ the product
of G with what lies behind j, a number per pixel that follows the circles from the back.

So the backward pass saves nothing but $T_j$ every `SEGMENT` circles, and never divides
by $1 - a_j$. This module is the plain implementation, for any device; on NVIDIA GPUs
`softqd.ops.circles_kernel` does the same in one kernel per pass.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from softqd.ops import circles_kernel, gpu

# Circles between two saved transmittances.
SEGMENT = 8


class Circles(NamedTuple):
    """Circles of one picture, the first at the back; leading axes are a batch."""

    center: Float[Array, "*b k 2"]  # x (to the right) and y (down), in pixels
    radius: Float[Array, "*b k"]  # in pixels
    color: Float[Array, "*b k 3"]
    alpha: Float[Array, "*b k"]  # opacity, from 0 to 1


class Canvas(NamedTuple):
    """What the circles are drawn on."""

    height: int
    width: int
    background: tuple[float, float, float]
    is_plain: bool  # whether to do without the GPU kernel


def render_circles(
    circles: Circles,
    height: int,
    width: int,
    *,
    background: float | tuple[float, float, float] = 1.0,
    softness: float = 10.0,
    implementation: str = "auto",
) -> Float[Array, "*b h w 3"]:
    """Draw circles with soft edges, the later ones over the earlier ones.

    Differentiable with respect to all fields of ``circles``. Pixel centers have whole
    coordinates, from 0 to ``width - 1`` and ``height - 1``.

    Args:
        circles: Circles; leading axes are a batch of pictures.
        height: Rows of the canvas.
        width: Columns of the canvas.
        background: A shade of gray or a color.
        softness: Width of the edges, in squared pixels.
        implementation: 'plain', 'kernel' (NVIDIA GPUs, float32), or 'auto'.

    Returns:
        Pictures with values between those of the colors and the background.

    Raises:
        ValueError: If there is no circle or no picture, shapes do not match, or a
            setting is out of range.

    Examples:
        >>> import jax.numpy as jnp
        >>> dot = Circles(
        ...     center=jnp.array([[3.0, 3.0]]),
        ...     radius=jnp.array([2.0]),
        ...     color=jnp.zeros((1, 3)),
        ...     alpha=jnp.ones(1),
        ... )
        >>> picture = render_circles(dot, 7, 7, softness=0.1)
        >>> picture[:, :, 0].round().astype(int).tolist()[3]
        [1, 0, 0, 0, 0, 0, 1]
    """
    circles = Circles(*map(jnp.asarray, circles))
    _check(circles, height, width, softness)
    color = np.broadcast_to(np.asarray(background, float), (3,))
    is_plain = _is_plain(implementation, circles.center.dtype)
    canvas = Canvas(height, width, tuple(color.tolist()), is_plain)
    rows = _rows(circles, softness)
    batch = rows.shape[:-2]
    flat = rows.reshape(math.prod(batch), *rows.shape[-2:])
    pixels = jax.vmap(lambda r: _composite(r, canvas, _scale(softness)))(flat)
    return pixels.reshape(*batch, 3, height, width).swapaxes(-3, -2).swapaxes(-2, -1)


def _check(circles: Circles, height: Any, width: Any, softness: Any) -> None:
    num = circles.radius.shape
    if not num or 0 in num:
        raise ValueError(
            f"circles.radius has shape {num}; expected at least one picture of at "
            "least one circle"
        )
    expected = ((*num, 2), num, (*num, 3), num)
    for name, array, shape in zip(Circles._fields, circles, expected, strict=True):
        if array.shape != shape:
            raise ValueError(
                f"circles.{name} has shape {array.shape}; {shape} would go with a "
                f"radius of shape {num}"
            )
    if height < 1 or width < 1:
        raise ValueError(f"the canvas must have pixels; got {height} x {width}")
    if not softness > 0:
        raise ValueError(f"softness must be positive; got {softness!r}")


def _is_plain(implementation: str, dtype: Any) -> bool:
    if implementation not in ("auto", "plain", "kernel"):
        raise ValueError(
            f"implementation must be 'auto', 'plain' or 'kernel'; got "
            f"{implementation!r}"
        )
    can_kernel = gpu.has_kernels(dtype)
    if implementation == "kernel" and not can_kernel:
        raise ValueError(
            "implementation='kernel' needs an NVIDIA GPU and float32; use 'auto'"
        )
    return implementation == "plain" or not can_kernel


def _scale(softness: float) -> float:
    """Factor on lengths that makes the edge 1 / (1 + 2^(dist^2 - radius^2))."""
    return math.sqrt(1 / (softness * math.log(2)))


def _rows(circles: Circles, softness: float) -> Float[Array, "*b k 7"]:
    """Circles from the front: x, y, squared radius (all scaled), color, alpha."""
    scale = _scale(softness)
    columns = (
        scale * circles.center,
        (scale * circles.radius[..., None]) ** 2,
        circles.color,
        circles.alpha[..., None],
    )
    return jnp.flip(jnp.concatenate(columns, -1), -2)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _composite(rows, canvas, scale):
    """Picture (3, height * width) of circles (k, 7) that are ordered from the front."""
    return _forward(rows, canvas, scale, is_saving=False)[0]


def _forward(rows, canvas, scale, is_saving):
    if canvas.is_plain:
        return _plain_forward(rows, canvas, scale)
    return circles_kernel.forward(rows, canvas, scale, is_saving)


def _composite_fwd(rows, canvas, scale):
    picture, saved = _forward(rows, canvas, scale, is_saving=True)
    return picture, (rows, saved)


def _composite_bwd(canvas, scale, residuals, gradient):
    rows, saved = residuals
    backward = _plain_backward if canvas.is_plain else circles_kernel.backward
    return (backward(rows, saved, gradient, canvas, scale),)


_composite.defvjp(_composite_fwd, _composite_bwd)


def _coordinates(canvas, scale, dtype):
    pixel = jnp.arange(canvas.height * canvas.width)
    x, y = pixel % canvas.width, pixel // canvas.width
    return scale * x.astype(dtype), scale * y.astype(dtype)


def segments(rows: Float[Array, "k 7"], length: int) -> Float[Array, "s length 7"]:
    """Cut circles into segments, the last filled up with transparent ones."""
    missing = -rows.shape[0] % length
    padded = jnp.pad(rows, ((0, missing), (0, 0)))
    return padded.reshape(-1, length, rows.shape[1])


def _edges(segment, x, y):
    """Edge function of every circle of a segment at every pixel, between 0 and 1."""
    dist_sq = (x[None] - segment[:, :1]) ** 2 + (y[None] - segment[:, 1:2]) ** 2
    return 1.0 / (1.0 + jnp.exp2(dist_sq - segment[:, 2:3]))


# In full precision: GPUs would otherwise round the factors to ten bits.
_matmul = functools.partial(jnp.matmul, precision="highest")


def _plain_forward(rows, canvas, scale):
    x, y = _coordinates(canvas, scale, rows.dtype)

    def draw(carry, segment):
        through, picture = carry
        # Computed once: each use would otherwise compute the edges again.
        opacity = jax.lax.optimization_barrier(segment[:, 6:] * _edges(segment, x, y))
        after, weight = jax.lax.scan(lambda t, a: (t - t * a, t * a), through, opacity)
        picture = picture + _matmul(segment[:, 3:6].T, weight)
        return (after, picture), through

    empty = (jnp.ones_like(x), jnp.zeros((3, x.shape[0]), rows.dtype))
    (through, picture), saved = jax.lax.scan(draw, empty, segments(rows, SEGMENT))
    background = jnp.asarray(canvas.background, rows.dtype)
    return picture + background[:, None] * through[None], saved


def _plain_backward(rows, saved, gradient, canvas, scale):
    x, y = _coordinates(canvas, scale, rows.dtype)
    moments = jnp.stack([x, y, jnp.ones_like(x)], 1)

    def step_back(behind, circle):
        opacity, light = circle
        excess = light - behind
        return behind + opacity * excess, excess

    def undo(behind, inputs):
        segment, through = inputs
        alpha = segment[:, 6:]
        edge = jax.lax.optimization_barrier(_edges(segment, x, y))
        opacity = alpha * edge
        light = _matmul(segment[:, 3:6], gradient)
        _, front = jax.lax.scan(lambda t, a: (t - t * a, t), through, opacity)
        behind, excess = jax.lax.scan(step_back, behind, (opacity, light), reverse=True)
        slope = jax.lax.optimization_barrier(front * excess * edge)
        sums = _matmul(slope * (alpha - opacity), moments)
        to_exponent = math.log(2) * sums[:, 2:]
        to_center = 2 * math.log(2) * (sums[:, :2] - segment[:, :2] * sums[:, 2:])
        to_color = _matmul(front * opacity, gradient.T)
        to_alpha = slope.sum(1, keepdims=True)
        return behind, jnp.concatenate([to_center, to_exponent, to_color, to_alpha], 1)

    behind = _matmul(jnp.asarray(canvas.background, rows.dtype), gradient)
    parts = (segments(rows, SEGMENT), saved)
    _, columns = jax.lax.scan(undo, behind, parts, reverse=True)
    return columns.reshape(-1, rows.shape[1])[: rows.shape[0]]
