"""The networks of Latent Space Illumination: the user's own, or read from files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from softqd.networks import clip, stylegan2, weights

# What to fetch where no model is given.
_FETCHED = {"generator": "stylegan2-ffhq", "scorer": "clip-vit-b32"}


class Generator(NamedTuple):
    """A network that draws pictures.

    Attributes:
        params: Its weights, a pytree of arrays.
        mapping: ``(params, z (n, latent_dim), truncation) -> (n, rows, width)``, what
            ``synthesis`` takes. A truncation of 0 gives their center, for any z.
        synthesis: ``(params, latents (n, rows, width), precision) -> (n, h, w, 3)``,
            pictures nominally in [-1, 1]; it may ignore the precision.
        latent_dim: Size of z, which is standard normal.
    """

    params: Any
    mapping: Callable[..., Any]
    synthesis: Callable[..., Any]
    latent_dim: int


class Scorer(NamedTuple):
    """A network that embeds pictures and sentences in one space.

    Attributes:
        params: Weights of the part for pictures, a pytree of arrays.
        image_features: ``(params, pictures (n, h, w, 3)) -> (n, e)``, of any length;
            the pictures are nominally in [0, 1], not clipped, and of any size.
        text_features: ``(sentences) -> (n, e)``; called once.
    """

    params: Any
    image_features: Callable[..., Any]
    text_features: Callable[..., Any]


def load_models(generator: Any, scorer: Any) -> tuple[Generator, Scorer]:
    """Models given, or read from the paths given or from the cache.

    Raises:
        ValueError: If weights are not there, with the commands that fetch them, or
            cannot be read.
    """
    given = {"generator": generator, "scorer": scorer}
    paths = {
        name: _path_of(name, model)
        for name, model in given.items()
        if model is None or isinstance(model, (str, Path))
    }
    lacking = [
        name
        for name in paths
        if given[name] is None and not weights.is_present(_FETCHED[name])
    ]
    fetch = [f"softqd weights fetch {_FETCHED[name]}" for name in lacking]
    missing = [n for n, path in paths.items() if n in lacking or not path.exists()]
    if missing:
        where = " and ".join(f"{name} {paths[name]}" for name in missing)
        commands = f"type '{' && '.join(fetch)}', or " if fetch else ""
        settings = " ".join(f"--set {name}=PATH" for name in missing)
        raise ValueError(
            f"there are no weights: {where} {'is' if len(missing) == 1 else 'are'} not "
            f"there{' or not whole' if fetch else ''}; {commands}give {settings}"
        )
    if "generator" in paths:
        generator = _stylegan2(paths["generator"])
    if "scorer" in paths:
        scorer = _clip(paths["scorer"])
    for name, model, kind in (
        ("generator", generator, Generator),
        ("scorer", scorer, Scorer),
    ):
        if not isinstance(model, kind):
            raise ValueError(
                f"{name} must be a softqd.problems.{kind.__name__}, a path or None; "
                f"got {type(model).__name__}"
            )
    return _with_device_arrays(generator), _with_device_arrays(scorer)


def _path_of(name: str, model: str | Path | None) -> Path:
    if model is None:
        return weights.place(_FETCHED[name])
    return Path(model).expanduser()


def _stylegan2(path: Path) -> Generator:
    """StyleGAN2 with the noise and the clamp that are stored with its weights."""
    params, conv_clamp = stylegan2.load(path), stylegan2.read_conv_clamp(path)

    def synthesis(params, latents, precision):
        return stylegan2.synthesis(
            params, latents, "const", precision, conv_clamp=conv_clamp
        )

    latent_dim = params["mapping.fc0.weight"].shape[1]
    return Generator(params, stylegan2.mapping, synthesis, latent_dim)


def _clip(folder: Path) -> Scorer:
    """CLIP; the weights of its text tower are used once and not kept."""
    model, tokenizer = clip.load(folder), clip.load_tokenizer(folder)
    clip.check_tokenizer(tokenizer, model.config, folder)
    size = model.config.image_size

    def image_features(tower, pictures):
        return clip.image_features(tower, clip.preprocess(pictures, size))

    def text_features(sentences):
        tokens = clip.tokenize(tokenizer, sentences, model.config.context)
        return jax.jit(clip.text_features)(model, tokens)

    return Scorer(clip.image_tower(model), image_features, text_features)


def _with_device_arrays(model: Any) -> Any:
    """Weights put on the device once, not at every call."""
    return model._replace(params=jax.tree.map(jnp.asarray, model.params))
