"""Image Composition: repaint a target with circles, in five measurable manners.

The paper's second benchmark. What the published runs did, and where the text says
otherwise (a white background, a squeezed hue axis), is in ``docs/deviations.md``.
"""

from __future__ import annotations

import functools
import math
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Float

from softqd.networks._targets import NAMES, load_target
from softqd.ops.checks import check_count
from softqd.ops.circles import Circles, render_circles
from softqd.ops.nearest import mean_nearest_distance
from softqd.ops.ssim import ssim
from softqd.settings import File
from softqd.types import Evaluation, Problem

BEHAVIORS = (
    "mean radius",
    "spread of radii",
    "color spread",
    "color harmony",
    "clustering",
)
# Turns per unit of hue in the measure of color harmony: the published program takes the
# hue, between 0 and 1, for an angle in radians.
HARMONIES = {"published": 1.0, "full_circle": 2 * math.pi}
_NUM_NEAREST = 5
_START = 2.0  # first logits are uniform between minus and plus this
_WINDOW = 5  # side of the SSIM window


def image_composition(
    num_circles: int = 1024,
    target: Annotated[str, File(NAMES)] | None = None,
    size: int = 64,
    *,
    harmony: str = "published",
    softness: float = 10.0,
) -> Problem:
    """Circles that repaint a picture: quality is likeness, behavior is manner.

    A solution has seven numbers per circle, ``(num_circles, 7)``, each passed through a
    sigmoid: x, y, radius, red, green, blue, opacity. Quality is the mean SSIM with the
    target, mapped to [0, 100]. The behaviors, each in [0, 1], are those of `BEHAVIORS`.

    Args:
        num_circles: Number of circles, more than 5.
        target: Path of a picture, or a name: 'vermeer', the paper's painting (fetched
            once, or found in the cache), or 'hopper', a portrait that comes with
            matplotlib and is the default.
        size: Side of the square canvas, in pixels.
        harmony: How color harmony reads hues: 'full_circle', or 'published', which
            takes the hue in [0, 1] for radians, so that the measure stays above 0.88.
        softness: Width of the circles' edges, in squared pixels.

    Returns:
        The problem; its ``render`` draws a solution.

    Raises:
        ValueError: If a setting is out of range or the target cannot be read.

    Examples:
        >>> import jax
        >>> problem = image_composition(num_circles=8, size=16)
        >>> solution = problem.sample(jax.random.key(0))
        >>> solution.shape, problem.render(solution).shape
        ((8, 7), (16, 16, 3))
    """
    check_count("num_circles", num_circles, _NUM_NEAREST + 1)
    check_count("size", size, _WINDOW)
    if harmony not in HARMONIES:
        raise ValueError(
            f"harmony must be one of {', '.join(HARMONIES)}; got {harmony!r}"
        )
    name, picture = load_target(target, size)
    render = functools.partial(_render, size=size, softness=softness)
    evaluate = functools.partial(_evaluate, render=render, harmony=harmony)
    return Problem(
        Partial(evaluate, jnp.asarray(picture)),
        sample=functools.partial(_sample, num_circles=num_circles),
        behavior_bounds=(0.0, 1.0),
        name=f"image_composition({num_circles} circles, {name}, {size} x {size})",
        quality_bounds=(0.0, 100.0),
        render=render,
        behavior_names=BEHAVIORS,
        target=picture,
    )


def _sample(key: Array, num_circles: int) -> Float[Array, "k 7"]:
    shape = (num_circles, 7)
    return jax.random.uniform(key, shape, minval=-_START, maxval=_START)


def _evaluate(
    target: Float[Array, "h w 3"], solution: Float[Array, "k 7"], *, render, harmony
) -> Evaluation:
    picture = render(solution)
    quality = 50.0 * (ssim(picture, target, filter_size=_WINDOW) + 1.0)
    circles = to_circles(solution, target.shape[0])
    return Evaluation(quality, behaviors(circles, target.shape[0], harmony))


def _render(
    solution: Float[Array, "k 7"], *, size: int, softness: float
) -> Float[Array, "h w 3"]:
    circles = to_circles(solution, size)
    return render_circles(circles, size, size, background=1.0, softness=softness)


def to_circles(solution: Float[Array, "k 7"], size: int) -> Circles:
    """Logits to circles on a square canvas; radii go from 1 to ``size / 2 + 1``."""
    unit = jax.nn.sigmoid(solution)
    return Circles(
        center=size * unit[:, :2],
        radius=unit[:, 2] * (size / 2) + 1.0,
        color=unit[:, 3:6],
        alpha=unit[:, 6],
    )


def behaviors(
    circles: Circles, size: int, harmony: str = "published"
) -> Float[Array, " 5"]:
    """The five behaviors of a picture's circles, in the order of `BEHAVIORS`."""
    half = size / 2
    radius, color = circles.radius, circles.color
    spread = jnp.sqrt(jnp.var(radius) + 1e-6)
    from_mean = _norm(color - color.mean(0, keepdims=True))
    angle = HARMONIES[harmony] * hue(color)
    agreement = _norm(jnp.stack([jnp.cos(angle).mean(), jnp.sin(angle).mean()])[None])
    distance: Any = mean_nearest_distance(circles.center, _NUM_NEAREST)
    values: list[Any] = [
        (radius.mean() - 1.0) / half,
        spread / (half / 2),
        from_mean.mean() / (math.sqrt(3) / 2),
        agreement[0],
        1.0 - jnp.clip(distance / (0.25 * math.hypot(size, size)), 0.0, 1.0),
    ]
    return jnp.clip(jnp.stack(values), 0.0, 1.0)


def hue(color: Float[Array, "k 3"]) -> Float[Array, " k"]:
    """Hue of the HSV model in [0, 1), 0 for grays.

    Examples:
        >>> import jax.numpy as jnp
        >>> hue(jnp.array([[1.0, 1.0, 0.0], [0.5, 0.5, 0.5]])) * 360
        Array([60.,  0.], dtype=float32)
    """
    red, green, blue = color.T
    high, low = color.max(1), color.min(1)
    is_gray = high == low
    chroma = jnp.where(is_gray, 1.0, high - low)
    sector = jnp.where(
        high == red,
        (green - blue) / chroma,
        jnp.where(
            high == green, (blue - red) / chroma + 2.0, (red - green) / chroma + 4.0
        ),
    )
    return jnp.where(is_gray, 0.0, (sector / 6.0) % 1.0)


def _norm(rows: Float[Array, "k c"]) -> Float[Array, " k"]:
    """Euclidean norm with derivative 0 at the origin."""
    square = (rows**2).sum(1)
    is_zero = square == 0
    return jnp.where(is_zero, 0.0, jnp.sqrt(jnp.where(is_zero, 1.0, square)))
