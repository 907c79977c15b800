"""Latent Space Illumination with real faces: one person, at every age and smile.

The construction is the paper's (latents in units of their standard deviation, quality
by arc distance, a penalty on the latent's norm), with the networks of
`softqd.networks.faces`.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Float

from softqd.networks.faces import FaceNetworks, load, paint, read
from softqd.ops.checks import check_count
from softqd.problems._latent_space import PENALTY, arc_distance, norm, to_unit_length
from softqd.settings import FilePath
from softqd.types import Evaluation, Problem

BEHAVIORS = ("age (years)", "smile")
AGES = (0.0, 80.0)  # years; 200 generated faces are read as 2 to 71
# Arithmetic of the networks: all in single precision, single precision with the
# device's fast products, and painting in half the bits.
PRECISIONS = {"float32": "highest", "tf32": "default", "bfloat16": "default"}

# Mean arc distance between the embeddings of two generated persons.
_STRANGERS = 1.08
_NUM_LATENTS = 10_000  # behind mean and standard deviation, as published


def faces(
    person: int = 4,
    *,
    start: float = 0.5,
    truncation: float = 0.7,
    precision: str = "tf32",
    weights: FilePath | None = None,
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
    networks, params = _load(weights, person, truncation, precision)
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


def _pick(params: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: params[name] for name in names}


def _load(
    weights: str | None, person: int, truncation: float, precision: str
) -> tuple[FaceNetworks, dict[str, Any]]:
    """The networks, their parameters, the latents' units, and the person in them."""
    networks, params = load(weights)
    paint_dtype = jnp.bfloat16 if precision == "bfloat16" else jnp.float32
    map_latents = jax.jit(networks.mapping)
    z = jax.random.normal(jax.random.key(0), (_NUM_LATENTS, *networks.latent_shape))
    latents = map_latents(params["mapping"], z)
    # Persons have random numbers of their own, apart from those above.
    key = jax.random.fold_in(jax.random.key(1), person)
    z = jax.random.normal(key, (1, *networks.latent_shape))
    found = map_latents(params["mapping"], z)[0]
    mean, std = latents.mean(0), latents.std(0)
    synthesis = jax.tree.map(lambda x: x.astype(paint_dtype), params["synthesis"])
    own = {
        "mean": mean,
        # Truncation moves latents towards the mean, so their unit shrinks with it.
        "std": truncation * std,
        "person": (found - mean) / std,
    }
    return networks, {**params, "synthesis": synthesis, **own}


def _sample(
    params: Any, key: Array, *, networks: FaceNetworks, start: float, truncation: float
) -> Float[Array, " p"]:
    """A latent on the way from the person to a random other."""
    noise = jax.random.normal(key, (1, *params["mean"].shape))
    w = networks.mapping(params["mapping"], noise)[0]
    other = truncation * (w - params["mean"]) / params["std"]
    return params["person"] + start * (other - params["person"])


def _evaluate(
    params: Any, solution: Float[Array, " p"], *, networks: FaceNetworks, multiply: str
) -> Evaluation:
    _, embedding, age, smile = _look(
        params, solution, networks=networks, multiply=multiply
    )
    arc = arc_distance(to_unit_length(embedding), to_unit_length(params["embedding"]))
    excess = jnp.maximum(norm(solution) - norm(params["person"]), 0.0)
    quality = 100.0 * (1.0 - (arc / _STRANGERS) ** 2) - PENALTY * excess**2
    return Evaluation(quality, jnp.stack([jnp.clip(age, *AGES), smile]))


def _render(
    params: Any, solution: Float[Array, " p"], *, networks: FaceNetworks, multiply: str
) -> Float[Array, "h w 3"]:
    with jax.default_matmul_precision(multiply):
        return jnp.clip(_paint(params, solution, networks), 0.0, 1.0)


def _paint(
    params: Any, solution: Float[Array, " p"], networks: FaceNetworks
) -> Float[Array, "h w 3"]:
    return paint(networks, params, solution * params["std"] + params["mean"])


def _look(
    params: Any, solution: Float[Array, " p"], *, networks: FaceNetworks, multiply: str
) -> tuple[Array, Array, Array, Array]:
    """The picture, and what the networks see in it: embedding, age, smile."""
    with jax.default_matmul_precision(multiply):
        picture = _paint(params, solution, networks)
        return picture, *read(networks, params, picture)
