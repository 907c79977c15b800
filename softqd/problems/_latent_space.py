"""Latent Space Illumination: pictures of a generator that match a prompt.

The paper's third benchmark (after Fontaine & Nikolaidis 2021): StyleGAN2 draws, CLIP
compares with sentences. What the published runs did and the paper does not say (the
latents' scale, their penalty, the start from the best of 64) is in
``docs/latent_space.md``. Weights of both networks are leaves of the problem's
functions, so that they reach compiled code as arguments.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Float, PyTree

from softqd.networks._latent_models import Generator, Scorer, load_models
from softqd.ops.checks import check_count
from softqd.problems._prompts import EXAMPLE_PAIRS, check_prompt, pair_name, read_pairs
from softqd.settings import Example, FilePath
from softqd.types import Evaluation, Problem

PRECISIONS = ("float32", "tf32", "bfloat16")
# Arc distances to the two sentences of a pair differ little: this part of the range of
# (A_first - A_second + pi) / (2 pi) is stretched to [0, 1].
BEHAVIOR_RANGE = (0.45, 0.55)
PENALTY = 0.2  # per squared unit of the latent's norm beyond its limit
NORM_SHARE = 0.35  # the limit, as a share of the mean norm of random latents
_CHUNK = 500  # latents mapped at once
_LEAST_GAP = 1e-6  # between embeddings of length one, from which they are two


class _Arrays(NamedTuple):
    """Everything numeric that an evaluation needs."""

    generator: PyTree
    scorer: PyTree
    center: Float[Array, "rows width"]
    scale: Float[Array, "rows width"]  # standard deviation of random latents
    norm_limit: Float[Array, ""]  # q0
    target: Float[Array, " e"]
    first: Float[Array, "d e"]
    second: Float[Array, "d e"]


def latent_space(
    generator: Generator | FilePath | None = None,
    scorer: Scorer | FilePath | None = None,
    *,
    prompt: Annotated[str, Example("a photo of a pirate")],
    pairs: Sequence[tuple[str, str]] | Annotated[str, Example(EXAMPLE_PAIRS)],
    num_starts: int = 64,
    truncation: float = 0.7,
    num_latents: int = 10_000,
    precision: str = "tf32",
) -> Problem:
    """Pictures that match a prompt and differ between pairs of sentences.

    A solution is a vector q; the generator draws from ``q * scale + center``. With the
    arc distance A between embeddings on the unit sphere, quality is
    ``100 - 100 (A / pi)^2 - 0.2 max(|q| - q0, 0)^2`` with A to the prompt, and the
    behavior of a pair goes from 0, nearer to the first sentence, to 1, nearer to the
    second.

    Args:
        generator: A `Generator`, or the path of StyleGAN2 weights; None for the FFHQ
            weights that ``softqd weights fetch stylegan2-ffhq`` keeps.
        scorer: A `Scorer`, or the path of a CLIP folder; None for the one that
            ``softqd weights fetch clip-vit-b32`` keeps.
        prompt: The sentence that pictures should match.
        pairs: Two sentences for each behavior, or one text
            ``first | second; first | second; ...``.
        num_starts: Random latents of which the nearest to the prompt is a start.
        truncation: Of random latents: 0 is their center, 1 leaves them as they are.
        num_latents: Random latents behind the scale and the limit q0.
        precision: 'float32', 'tf32' (matrix products as fast as the device allows), or
            'bfloat16', in which StyleGAN2 then draws.

    Returns:
        The problem; its ``render`` draws a solution.

    Raises:
        ValueError: If weights are missing or a setting cannot be used.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> generator = Generator(
        ...     params=jnp.eye(3),
        ...     mapping=lambda p, z, truncation: truncation * (z @ p)[:, None],
        ...     synthesis=lambda p, w, precision: jnp.tanh(w.reshape(-1, 1, 1, 3)),
        ...     latent_dim=3)
        >>> scorer = Scorer(
        ...     params=(),
        ...     image_features=lambda p, pictures: pictures[:, 0, 0] + 0.1,
        ...     text_features=lambda texts: jnp.eye(3)[: len(texts)] + 0.1)
        >>> problem = latent_space(
        ...     generator, scorer, prompt="red", pairs="green | blue", num_starts=4)
        >>> problem.sample(jax.random.key(0)).shape, problem.behavior_names
        ((3,), ('green to blue',))
    """
    check_prompt("prompt", prompt)
    sentences = read_pairs(pairs)
    check_count("num_starts", num_starts, 1)
    check_count("num_latents", num_latents, 2)
    if precision not in PRECISIONS:
        raise ValueError(
            f"precision must be one of {', '.join(PRECISIONS)}; got {precision!r}"
        )
    if not isinstance(truncation, Real) or not 0 < truncation < math.inf:
        raise ValueError(f"truncation must be a positive number; got {truncation!r}")
    draws, scores = load_models(generator, scorer)
    arrays = _prepare(draws, scores, prompt, sentences, truncation, num_latents)
    networks = _Networks(
        draws.mapping,
        draws.synthesis,
        scores.image_features,
        draws.latent_dim,
        precision,
    )
    _check_networks(networks, arrays)
    start = functools.partial(
        _sample, networks=networks, num_starts=num_starts, truncation=truncation
    )
    return Problem(
        Partial(functools.partial(_evaluate, networks=networks), arrays),
        sample=Partial(start, arrays),
        behavior_bounds=(0.0, 1.0),
        name=f"latent_space({prompt!r}, {len(sentences)} pairs)",
        quality_bounds=(0.0, 100.0),
        render=Partial(functools.partial(_render, networks=networks), arrays),
        sample_evaluations=num_starts if num_starts > 1 else 0,
        behavior_names=tuple(pair_name(*pair) for pair in sentences),
    )


# --- one evaluation -------------------------------------------------------------------


class _Networks(NamedTuple):
    """The functions of both networks, without their weights."""

    mapping: Callable
    synthesis: Callable
    image_features: Callable
    latent_dim: int
    precision: str


def _draw(
    arrays: _Arrays, q: Float[Array, " p"], networks: _Networks
) -> Float[Array, "1 h w 3"]:
    """The picture of a solution, nominally in [0, 1]."""
    latents = q.reshape(arrays.scale.shape) * arrays.scale + arrays.center
    with _matmul_precision(networks.precision):
        picture = networks.synthesis(
            arrays.generator, latents[None], networks.precision
        )
    return (picture.astype(jnp.promote_types(picture.dtype, jnp.float32)) + 1.0) / 2.0


def _embed(
    arrays: _Arrays, q: Float[Array, " p"], networks: _Networks
) -> Float[Array, " e"]:
    """The unit embedding of a solution's picture."""
    picture = _draw(arrays, q, networks)
    with _matmul_precision(networks.precision):
        return to_unit_length(networks.image_features(arrays.scorer, picture)[0])


def _evaluate(
    arrays: _Arrays, q: Float[Array, " p"], *, networks: _Networks
) -> Evaluation:
    image = _embed(arrays, q, networks)
    arc = arc_distance(image, arrays.target)
    excess = jnp.maximum(norm(q) - arrays.norm_limit, 0.0)
    quality = 100.0 - 100.0 * (arc**2 / 2) / (math.pi**2 / 2) - PENALTY * excess**2
    arcs = jax.vmap(arc_distance, in_axes=(None, 0))
    gap = arcs(image, arrays.first) - arcs(image, arrays.second)
    low, high = BEHAVIOR_RANGE
    share = jnp.clip((gap + math.pi) / (2 * math.pi), low, high)
    # Rounding must not push a clipped value out of [0, 1].
    behavior = jnp.clip((share - low) / (high - low), 0.0, 1.0)
    return Evaluation(quality, behavior)


def _sample(
    arrays: _Arrays,
    key: Array,
    *,
    networks: _Networks,
    num_starts: int,
    truncation: float,
) -> Float[Array, " p"]:
    """The random solution, of a few, whose picture is nearest to the prompt.

    One after the other: how many are drawn at once is for the caller's `jax.vmap` to
    say, as everywhere.
    """
    z = jax.random.normal(key, (num_starts, networks.latent_dim))
    latents = networks.mapping(arrays.generator, z, truncation)
    q = (latents - arrays.center[None]) / arrays.scale[None]
    q = q.reshape(num_starts, -1).astype(jnp.float32)
    if num_starts == 1:
        return q[0]

    def distance(q):
        return arc_distance(_embed(arrays, q, networks), arrays.target)

    return q[jnp.argmin(jax.lax.map(distance, q))]


def _render(
    arrays: _Arrays, q: Float[Array, " p"], *, networks: _Networks
) -> Float[Array, "h w 3"]:
    return jnp.clip(_draw(arrays, q, networks)[0], 0.0, 1.0)


def arc_distance(x: Float[Array, " e"], y: Float[Array, " e"]) -> Float[Array, ""]:
    """Angle between unit vectors, ``2 arcsin(|x - y| / 2)``.

    Computed from chord and sum, which has a finite slope also at opposite vectors.

    Examples:
        >>> import jax.numpy as jnp
        >>> right = arc_distance(jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0]))
        >>> round(float(right) / math.pi, 6)
        0.5
    """
    return 2.0 * jnp.arctan2(norm(x - y), norm(x + y))


def to_unit_length(rows: Float[Array, "*n e"]) -> Float[Array, "*n e"]:
    """Vectors divided by their norm."""
    return rows / jnp.linalg.norm(rows, axis=-1, keepdims=True)


def norm(x: Float[Array, " p"]) -> Float[Array, ""]:
    """Euclidean norm with derivative 0 at the origin."""
    square = jnp.sum(x**2)
    is_zero = square == 0
    return jnp.where(is_zero, 0.0, jnp.sqrt(jnp.where(is_zero, 1.0, square)))


def _matmul_precision(precision: str) -> contextlib.AbstractContextManager:
    if precision == "float32":
        return jax.default_matmul_precision("highest")
    return contextlib.nullcontext()


# --- preparation ----------------------------------------------------------------------


def _prepare(
    generator: Generator,
    scorer: Scorer,
    prompt: str,
    sentences: Sequence[tuple[str, str]],
    truncation: float,
    num_latents: int,
) -> _Arrays:
    """Embed the sentences and measure random latents, in full precision."""
    texts = [prompt, *(s[0] for s in sentences), *(s[1] for s in sentences)]
    with jax.default_matmul_precision("highest"):
        embedded = to_unit_length(jnp.asarray(scorer.text_features(texts)))
        if not jnp.isfinite(embedded).all():
            raise ValueError(
                "scorer: text_features gives embeddings that are zero or not finite"
            )
        # The scale is part of the problem: the same for every run.
        z = jax.random.normal(jax.random.key(0), (num_latents, generator.latent_dim))
        measure = jax.jit(functools.partial(_statistics, mapping=generator.mapping))
        center, scale, norm_limit = measure(generator.params, z, truncation)
    # A constant coordinate has a deviation too, of rounding.
    is_constant = ~(scale > 1e-5 * jnp.abs(center))
    if is_constant.any():
        raise ValueError(
            f"generator: mapping gives latents of which {int(is_constant.sum())} of "
            f"{scale.size} coordinates are the same for every z; they must vary"
        )
    d = len(sentences)
    target, first, second = embedded[0], embedded[1 : d + 1], embedded[d + 1 :]
    for i, gap in enumerate(jnp.linalg.norm(first - second, axis=1)):
        if gap < _LEAST_GAP:
            raise ValueError(
                f"pairs[{i}]: {sentences[i][0]!r} and {sentences[i][1]!r} are the same "
                "to the scorer; they must differ, or the behavior would be constant"
            )
    return _Arrays(
        generator.params,
        scorer.params,
        center,
        scale,
        norm_limit,
        target,
        first,
        second,
    )


def _statistics(
    params: PyTree, z: Float[Array, "n z"], truncation: Array, *, mapping: Callable
) -> tuple[Array, Array, Array]:
    """Center of the latents, standard deviation per coordinate, and q0."""
    center = mapping(params, z[:1], 0.0)[0]

    def latents(z):
        return mapping(params, z[None], truncation)[0]

    ws = jax.lax.map(latents, z, batch_size=min(_CHUNK, len(z)))
    scale = ws.std(axis=0)
    q = ((ws - center[None]) / scale[None]).reshape(len(z), -1)
    return center, scale, NORM_SHARE * jnp.linalg.norm(q, axis=1).mean()


def _check_networks(networks: _Networks, arrays: _Arrays) -> None:
    """Refuse models of the user's own whose shapes do not fit together."""
    q = jax.ShapeDtypeStruct((arrays.scale.size,), jnp.float32)
    picture = jax.eval_shape(
        functools.partial(_draw, networks=networks), arrays, q
    ).shape
    if len(picture) != 4 or picture[0] != 1 or picture[3] != 3:
        raise ValueError(
            "generator: synthesis must return pictures of shape (n, h, w, 3); got "
            f"{picture} for one latent"
        )
    image = jax.eval_shape(
        functools.partial(_embed, networks=networks), arrays, q
    ).shape
    if image != arrays.target.shape:
        raise ValueError(
            f"scorer: image_features gives embeddings of shape {image}, text_features "
            f"of shape {arrays.target.shape}"
        )
