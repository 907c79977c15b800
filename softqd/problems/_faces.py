"""Latent Space Illumination with real faces: one person, at every age and smile.

The construction is the paper's (latents in units of their standard deviation, quality
by arc distance, a penalty on the latent's norm), with networks that anybody can
install: MobileStyleGAN paints, one network recognizes persons and guesses ages, another
reads expressions. How their inputs are prepared, and from which source each step was
taken, is in ``docs/faces.md``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Float

from softqd.ops.checks import check_count
from softqd.problems._graph_openvino import read_openvino
from softqd.problems._graph_tfjs import read_tfjs
from softqd.problems._latent_space import PENALTY, arc_distance, norm, to_unit_length
from softqd.problems.weights import file_names, place
from softqd.types import Evaluation, Problem

BEHAVIORS = ("age (years)", "smile")
AGES = (0.0, 80.0)  # years; 200 generated faces are read as 2 to 71
# Arithmetic of the networks: all in single precision, single precision with the
# device's fast products, and painting in half the bits.
PRECISIONS = {"float32": "highest", "tf32": "default", "bfloat16": "default"}

# Where faces are in pictures aligned like the generator's: center and side of a square,
# as shares of the picture. A detector finds them at (0.505, 0.588), 0.648 wide.
_CENTER = (0.5, 0.59)  # x, y
_SIDE = 0.7
# What the recognizing network was trained with: blue, green, red, less these means.
_MEANS = (103.939, 116.779, 123.68)
_GRAY = (0.2989, 0.587, 0.114)
_FIRST_AGE = 1.0  # of the classes of ages, one for each year
_HAPPY = 3  # of angry, disgust, fear, happy, sad, surprise, neutral
# Log-odds of a smile per unit: generated faces spread over -8 to 15.
_SMILE_SCALE = 4.0
# Mean arc distance between the embeddings of two generated persons.
_STRANGERS = 1.08
_NUM_LATENTS = 10_000  # behind mean and standard deviation, as published
_FACE_OUTPUTS = ("global_pooling/Mean", "age_pred/Softmax")
_EMOTION_OUTPUTS = ("StatefulPartitionedCall/model_1/global_average_pooling2d_1/Mean",)


class _Networks(NamedTuple):
    """Functions ``(params, batch)``; pictures of which height the last two take."""

    mapping: Callable
    synthesis: Callable
    face: Callable
    emotion: Callable
    face_size: int
    emotion_size: int


def faces(
    person: int = 4,
    *,
    start: float = 0.5,
    truncation: float = 0.7,
    precision: str = "tf32",
    weights: str | None = None,
) -> Problem:
    """Portraits of one person: quality is likeness, behaviors are age and smile.

    A solution is a latent of the generator, ``(512,)``, in standard deviations from the
    mean face. Quality is 100 for the person, 0 at the distance of a typical stranger,
    and falls when the latent's norm exceeds the person's own. Behaviors are the age in
    years that a network reads from the picture, and its log-odds of a happy face,
    squashed to [0, 1]: 0.5 is undecided.

    Args:
        person: Number of a generated person, at least 0. Person 4 is an adult between
            young and old, neither serious nor laughing.
        start: First solutions lie between the person (0) and random others (1).
        truncation: Share of their distance to the mean face that latents keep: lower is
            safer and less varied.
        precision: 'float32'; 'tf32', single precision with the device's fast products;
            or 'bfloat16', which also paints in half the bits.
        weights: Folder with the networks; by default the cache, where
            ``softqd weights fetch faces`` puts them.

    Returns:
        The problem; its ``render`` paints a solution, its ``target`` is the person.

    Raises:
        ValueError: If a setting is out of range, or the networks are not there or
            cannot be read.
    """
    check_count("person", person, 0, 2**31 - 1)
    for name, value in (("start", start), ("truncation", truncation)):
        if not 0 < value <= 1:
            raise ValueError(f"{name} must be above 0 and at most 1; got {value!r}")
    if precision not in PRECISIONS:
        raise ValueError(
            f"precision must be one of {', '.join(PRECISIONS)}; got {precision!r}"
        )
    networks, params = _load(_find(weights), person, truncation, precision)
    settings = {"networks": networks, "multiply": PRECISIONS[precision]}
    look = jax.jit(functools.partial(_look, **settings))
    picture, params["embedding"], _, _ = look(params, params["person"])
    draw = functools.partial(
        _sample, networks=networks, start=start, truncation=truncation
    )
    names = set(params) - {"mapping"}
    return Problem(
        Partial(functools.partial(_evaluate, **settings), _pick(params, *names)),
        sample=Partial(draw, _pick(params, "mapping", "mean", "std", "person")),
        behavior_bounds=((AGES[0], 0.0), (AGES[1], 1.0)),
        name=f"faces(person {person})",
        quality_bounds=(0.0, 100.0),
        render=Partial(
            functools.partial(_render, **settings),
            _pick(params, "synthesis", "mean", "std"),
        ),
        behavior_names=BEHAVIORS,
        target=jnp.clip(picture, 0.0, 1.0),
    )


def _find(weights: str | Path | None) -> Path:
    """The folder with the networks, by default the one in the cache."""
    folder = place("faces") if weights is None else Path(weights).expanduser()
    missing = [name for name in file_names("faces") if not (folder / name).is_file()]
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(
            f"weights: the networks that paint and read faces are not in {folder} "
            f"({missing[0]}{others}); run 'softqd weights fetch faces' once, or give "
            "--set weights=FOLDER"
        )
    return folder


def _pick(params: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: params[name] for name in names}


def _load(
    folder: Path, person: int, truncation: float, precision: str
) -> tuple[_Networks, dict[str, Any]]:
    """The networks, their parameters, the latents' units, and the person in them."""
    mapping = read_openvino(folder / "MappingNetwork.xml")
    synthesis = read_openvino(folder / "SynthesisNetwork.xml")
    face = read_tfjs(folder / "faceres.json", _FACE_OUTPUTS)
    emotion = read_tfjs(folder / "emotion.json", _EMOTION_OUTPUTS)
    networks = _Networks(
        mapping.apply,
        synthesis.apply,
        face.apply,
        emotion.apply,
        face.input_shape[0],
        emotion.input_shape[0],
    )
    paint_dtype = jnp.bfloat16 if precision == "bfloat16" else jnp.float32
    map_latents = jax.jit(mapping.apply)
    shape = (_NUM_LATENTS, *mapping.input_shape)
    z = jax.random.normal(jax.random.key(0), shape)
    latents = map_latents(mapping.params, z)
    # Persons have random numbers of their own, apart from those above.
    key = jax.random.fold_in(jax.random.key(1), person)
    z = jax.random.normal(key, (1, *mapping.input_shape))
    found = map_latents(mapping.params, z)[0]
    mean, std = latents.mean(0), latents.std(0)
    params = {
        "mapping": mapping.params,
        "synthesis": jax.tree.map(lambda x: x.astype(paint_dtype), synthesis.params),
        "face": face.params,
        "emotion": emotion.params,
        "mean": mean,
        # Truncation moves latents towards the mean, so their unit shrinks with it.
        "std": truncation * std,
        "person": (found - mean) / std,
    }
    return networks, params


def _sample(
    params: Any, key: Array, *, networks: _Networks, start: float, truncation: float
) -> Float[Array, " p"]:
    """A latent on the way from the person to a random other."""
    noise = jax.random.normal(key, (1, *params["mean"].shape))
    w = networks.mapping(params["mapping"], noise)[0]
    other = truncation * (w - params["mean"]) / params["std"]
    return params["person"] + start * (other - params["person"])


def _evaluate(
    params: Any, solution: Float[Array, " p"], *, networks: _Networks, multiply: str
) -> Evaluation:
    _, embedding, age, smile = _look(
        params, solution, networks=networks, multiply=multiply
    )
    arc = arc_distance(to_unit_length(embedding), to_unit_length(params["embedding"]))
    excess = jnp.maximum(norm(solution) - norm(params["person"]), 0.0)
    quality = 100.0 * (1.0 - (arc / _STRANGERS) ** 2) - PENALTY * excess**2
    return Evaluation(quality, jnp.stack([jnp.clip(age, *AGES), smile]))


def _render(
    params: Any, solution: Float[Array, " p"], *, networks: _Networks, multiply: str
) -> Float[Array, "h w 3"]:
    with jax.default_matmul_precision(multiply):
        return jnp.clip(_paint(params, solution, networks), 0.0, 1.0)


def _paint(
    params: Any, solution: Float[Array, " p"], networks: _Networks
) -> Float[Array, "h w 3"]:
    """The picture, nominally in [0, 1], red, green, blue."""
    w = solution * params["std"] + params["mean"]
    dtype = jax.tree.leaves(params["synthesis"])[0].dtype
    picture = networks.synthesis(params["synthesis"], w[None].astype(dtype))[0]
    return (picture.astype(w.dtype).transpose(1, 2, 0) + 1.0) / 2.0


def _look(
    params: Any, solution: Float[Array, " p"], *, networks: _Networks, multiply: str
) -> tuple[Array, Array, Array, Array]:
    """The picture, and what the networks see in it: embedding, age, smile."""
    with jax.default_matmul_precision(multiply):
        picture = _paint(params, solution, networks)
        pixels = 255.0 * crop(picture, networks.face_size)[..., ::-1]
        pixels = pixels - jnp.array(_MEANS)[None, None]
        embedding, ages = networks.face(params["face"], pixels[None])
        gray = crop(picture, networks.emotion_size) @ jnp.array(_GRAY)[:, None]
        (logits,) = networks.emotion(params["emotion"], 2.0 * gray[None] - 1.0)
    years = _FIRST_AGE + jnp.arange(ages.shape[1])
    age = (ages[0] * years).sum()
    is_happy = jnp.arange(logits.shape[1]) == _HAPPY
    others = jax.nn.logsumexp(jnp.where(is_happy, -jnp.inf, logits[0]))
    smile = jax.nn.sigmoid((logits[0, _HAPPY] - others) / _SMILE_SCALE)
    return picture, embedding[0], age, smile


def crop(picture: Float[Array, "h w 3"], size: int) -> Float[Array, "s s 3"]:
    """The square around the face, resized with antialiasing.

    Examples:
        >>> import jax.numpy as jnp
        >>> crop(jnp.ones((64, 64, 3)), 8).shape
        (8, 8, 3)
    """
    height, width, channels = picture.shape
    scale = size / (_SIDE * jnp.array([height, width], jnp.float32))
    corner = jnp.array([_CENTER[1], _CENTER[0]]) - _SIDE / 2
    return jax.image.scale_and_translate(
        picture, (size, size, channels), (0, 1), scale, -corner * size / _SIDE, "linear"
    )
