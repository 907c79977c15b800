"""CLIP's image and text towers as pure functions over a pytree of weights.

Radford et al. 2021, "Learning Transferable Visual Models From Natural Language
Supervision", from a folder in the format of Hugging Face. Equal to ``transformers``'
PyTorch model to 1e-4, in both towers and in the gradient with respect to the pixels.

Why not the package jax-image-models 0.4 (``jimm``): tried with JAX 0.10.2 and flax
0.12.8, it loads a folder only inside a mesh with an axis named 'fsdp'; its vision tower
is right to 5e-7 where a head has 64 channels and off by 13% where it has 32; its text
tower is off by 6e-4; and a model whose weights come from outside of `jax.vmap`,
`jax.grad` or `jax.lax.map` is refused ("Cannot extract graph node from different trace
level"), which is how a problem is evaluated here. It also wants flax and tokamax.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from softqd.networks._clip_files import (
    LEGACY_END,
    ClipConfig,
    Tower,
    read_config,
    read_weights,
)
from softqd.networks._clip_tokenizer import check_tokenizer, load_tokenizer, tokenize

__all__ = [
    "Clip",
    "check_tokenizer",
    "image_features",
    "image_tower",
    "load",
    "load_tokenizer",
    "preprocess",
    "text_features",
    "tokenize",
]

# Mean and standard deviation of the pixels CLIP was trained on.
PIXEL_MEAN = (0.48145466, 0.4578275, 0.40821073)
PIXEL_STD = (0.26862954, 0.26130258, 0.27577711)
_VISION = ("vision_model.", "visual_projection.")
_ACTIVATIONS = {
    "quick_gelu": lambda x: x * jax.nn.sigmoid(1.702 * x),
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
}
_Params = Mapping[str, Array]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Clip:
    """A CLIP model: a pytree whose leaves are its weights.

    Attributes:
        params: Arrays by their names in the Hugging Face file.
        config: Sizes, static under `jax.jit`.
    """

    params: dict[str, Array]
    config: ClipConfig = field(metadata={"static": True})


def load(folder: str | Path) -> Clip:
    """Read a CLIP folder of Hugging Face: ``config.json`` and ``model.safetensors``.

    Weights become float32; head sizes and other sizes are those of the configuration.

    Raises:
        ValueError: If a file is missing, cut off or of another model, naming the file
            and what is missing, extra or misshapen in it, or if safetensors is not
            installed.
    """
    folder = Path(folder).expanduser()
    config = read_config(folder)
    params = read_weights(folder, config)
    return Clip({name: jnp.asarray(array) for name, array in params.items()}, config)


def image_tower(clip: Clip) -> Clip:
    """The model without the weights that only texts need; smaller by 60 million."""
    params = {k: v for k, v in clip.params.items() if k.startswith(_VISION)}
    return Clip(params, clip.config)


def preprocess(
    images: Float[Array, "n h w 3"], size: int = 224
) -> Float[Array, "n size size 3"]:
    """Resize and normalize images in [0, 1] for `image_features`.

    Bicubic with antialiasing, as `jax.image.resize` does it; values outside [0, 1] are
    not clipped, as in the published runs.

    Examples:
        >>> import jax.numpy as jnp
        >>> gray = jnp.broadcast_to(jnp.array(PIXEL_MEAN), (1, 8, 8, 3))
        >>> bool(jnp.abs(preprocess(gray, size=4)).max() < 1e-6)
        True
    """
    n, height, width, channels = images.shape
    if (height, width) != (size, size):
        images = jax.image.resize(images, (n, size, size, channels), "cubic")
    mean, std = (jnp.asarray(x, images.dtype) for x in (PIXEL_MEAN, PIXEL_STD))
    return (images - _along_last(mean, images)) / _along_last(std, images)


def image_features(clip: Clip, pixels: Float[Array, "n s s 3"]) -> Float[Array, "n e"]:
    """Embeddings of images as `preprocess` returns them, not normalized.

    Args:
        clip: The model, or its `image_tower`.
        pixels: Of the model's own size, 224 for the published models.

    Raises:
        ValueError: If the images have another size.
    """
    config, p = clip.config, clip.params
    size, patch = config.image_size, config.patch_size
    if pixels.ndim != 4 or pixels.shape[1:] != (size, size, 3):
        raise ValueError(
            f"pixels has shape {pixels.shape}; expected (n, {size}, {size}, 3): call "
            f"preprocess(images, size={size}) first"
        )
    n, grid = len(pixels), size // patch
    patches = pixels[:, : grid * patch, : grid * patch]
    patches = patches.reshape(n, grid, patch, grid, patch, 3)
    kernel = p["vision_model.embeddings.patch_embedding.weight"]
    x = jnp.einsum("nyaxbc,ocab->nyxo", patches, kernel).reshape(n, grid**2, -1)
    first = p["vision_model.embeddings.class_embedding"]
    x = jnp.concatenate([jnp.broadcast_to(first, (n, 1, first.size)), x], axis=1)
    x += p["vision_model.embeddings.position_embedding.weight"][None]
    x = _layer_norm(p, "vision_model.pre_layrnorm", x, config.vision)
    x = _encoder(p, "vision_model.encoder", x, config.vision)[:, 0]
    x = _layer_norm(p, "vision_model.post_layernorm", x, config.vision)
    return x @ p["visual_projection.weight"].T


def text_features(clip: Clip, tokens: Int[Array, "n t"]) -> Float[Array, "n e"]:
    """Embeddings of texts as `tokenize` returns them, not normalized."""
    config, p = clip.config, clip.params
    tokens = jnp.asarray(tokens)
    length = tokens.shape[1]
    x = p["text_model.embeddings.token_embedding.weight"][tokens]
    x += p["text_model.embeddings.position_embedding.weight"][None, :length]
    is_visible = jnp.tril(jnp.ones((length, length), bool))
    x = _encoder(p, "text_model.encoder", x, config.text, is_visible)
    is_legacy = config.end_token == LEGACY_END
    end = (tokens if is_legacy else tokens == config.end_token).argmax(1)
    x = jnp.take_along_axis(x, end[:, None, None], axis=1)[:, 0]
    x = _layer_norm(p, "text_model.final_layer_norm", x, config.text)
    return x @ p["text_projection.weight"].T


def _encoder(
    p: _Params,
    prefix: str,
    x: Float[Array, "n t c"],
    tower: Tower,
    is_visible: Bool[Array, "t t"] | None = None,
) -> Float[Array, "n t c"]:
    """A transformer with normalization before each block."""
    activation = _ACTIVATIONS[tower.hidden_act]
    for i in range(tower.num_hidden_layers):
        name = f"{prefix}.layers.{i}"
        y = _layer_norm(p, f"{name}.layer_norm1", x, tower)
        heads = tower.num_attention_heads
        x += _attention(p, f"{name}.self_attn", y, heads, is_visible)
        y = _layer_norm(p, f"{name}.layer_norm2", x, tower)
        y = activation(_linear(p, f"{name}.mlp.fc1", y))
        x += _linear(p, f"{name}.mlp.fc2", y)
    return x


def _attention(
    p: _Params,
    prefix: str,
    x: Float[Array, "n t c"],
    num_heads: int,
    is_visible: Bool[Array, "t t"] | None,
) -> Float[Array, "n t c"]:
    """Attention of every token to the visible ones; None: to all."""
    n, length, width = x.shape
    query, key, value = (
        _linear(p, f"{prefix}.{name}_proj", x).reshape(n, length, num_heads, -1)
        for name in "qkv"
    )
    scores = jnp.einsum("nihc,njhc->nhij", query, key) * query.shape[-1] ** -0.5
    if is_visible is not None:
        scores = jnp.where(is_visible[None, None], scores, -jnp.inf)
    weights = jax.nn.softmax(scores)
    mixed = jnp.einsum("nhij,njhc->nihc", weights, value)
    return _linear(p, f"{prefix}.out_proj", mixed.reshape(n, length, width))


def _linear(p: _Params, name: str, x: Float[Array, "*n i"]) -> Float[Array, "*n o"]:
    return x @ p[f"{name}.weight"].T + _along_last(p[f"{name}.bias"], x)


def _layer_norm(
    p: _Params, name: str, x: Float[Array, "*n c"], tower: Tower
) -> Float[Array, "*n c"]:
    centered = x - x.mean(-1, keepdims=True)
    variance = (centered**2).mean(-1, keepdims=True)
    unit = centered * jax.lax.rsqrt(variance + tower.layer_norm_eps)
    weight, bias = (_along_last(p[f"{name}.{k}"], x) for k in ("weight", "bias"))
    return unit * weight + bias


def _along_last(vector: Float[Array, " c"], x: Array) -> Array:
    """A vector with as many axes as ``x``."""
    return vector.reshape((1,) * (x.ndim - 1) + (-1,))
