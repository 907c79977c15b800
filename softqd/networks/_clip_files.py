"""A CLIP folder of Hugging Face: its configuration and its weights."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from softqd.networks._weight_files import read_arrays, to_float32

# Tokens of a text that CLIP reads, its start and end included.
CONTEXT = 77
# Configurations written before transformers 4.31 give this wrong id; the end of the
# text is then the token with the highest id.
LEGACY_END = 2
INSTALL = 'install the extra: pip install "softqd[lsi]"'
# Buffers that old files hold beside the weights.
_IGNORED = ("position_ids",)
# Fields of `ClipConfig` that the file calls otherwise.
_SPELLED = {"context": "max_position_embeddings", "end_token": "eos_token_id"}
_SHOWN = 3  # names in an error message, of each kind


class Tower(NamedTuple):
    """Sizes of one transformer. The defaults are those of transformers."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    layer_norm_eps: float = 1e-5
    hidden_act: str = "quick_gelu"


class ClipConfig(NamedTuple):
    """Sizes of both towers."""

    vision: Tower
    text: Tower
    image_size: int
    patch_size: int
    vocab_size: int
    context: int
    end_token: int
    projection_dim: int


def read_config(folder: Path) -> ClipConfig:
    """The sizes in a folder's ``config.json``.

    Raises:
        ValueError: If it is missing, is not JSON, or is not of a CLIP model.
    """
    path = file_of(folder, "config.json")
    try:
        config = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    parts = config if isinstance(config, dict) else {}
    vision, text = parts.get("vision_config"), parts.get("text_config")
    is_clip = parts.get("model_type", "clip") == "clip"
    if not (is_clip and isinstance(vision, dict) and isinstance(text, dict)):
        raise ValueError(
            f"{path} is not of a CLIP model: expected model_type 'clip' with "
            "vision_config and text_config"
        )
    found = ClipConfig(
        vision=_tower(path, vision, hidden_size=768, intermediate_size=3072),
        text=_tower(
            path, text, hidden_size=512, intermediate_size=2048, num_attention_heads=8
        ),
        image_size=vision.get("image_size", 224),
        patch_size=vision.get("patch_size", 32),
        vocab_size=text.get("vocab_size", 49408),
        context=text.get("max_position_embeddings", CONTEXT),
        end_token=text.get("eos_token_id", 49407),
        projection_dim=config.get("projection_dim", 512),
    )
    _check_sizes(path, found)
    if found.patch_size > found.image_size:
        raise ValueError(
            f"{path}: patch_size {found.patch_size} is larger than image_size "
            f"{found.image_size}"
        )
    return found


def _check_sizes(path: Path, sizes: Tower | ClipConfig) -> None:
    """Refuse sizes that are not whole numbers from 1 on."""
    for name, value in sizes._asdict().items():
        is_size = name not in ("vision", "text", "layer_norm_eps", "hidden_act")
        if is_size and (type(value) is not int or value < 1):
            raise ValueError(
                f"{path}: {_SPELLED.get(name, name)} must be a whole number, at least "
                f"1; got {value!r}"
            )


def _tower(path: Path, given: Mapping[str, Any], **defaults: Any) -> Tower:
    known = {name: given[name] for name in Tower._fields if name in given}
    tower = Tower(**{**defaults, **known})
    _check_sizes(path, tower)
    if type(tower.layer_norm_eps) not in (int, float) or tower.layer_norm_eps <= 0:
        raise ValueError(
            f"{path}: layer_norm_eps must be a positive number; got "
            f"{tower.layer_norm_eps!r}"
        )
    if tower.hidden_size % tower.num_attention_heads:
        raise ValueError(
            f"{path}: hidden_size {tower.hidden_size} is not a multiple of "
            f"num_attention_heads {tower.num_attention_heads}"
        )
    if tower.hidden_act not in ("quick_gelu", "gelu"):
        raise ValueError(
            f"{path}: hidden_act must be quick_gelu or gelu; got {tower.hidden_act!r}"
        )
    return tower


def weight_shapes(config: ClipConfig) -> dict[str, tuple[int, ...]]:
    """Every name in the weight file and its shape."""
    width, text_width = config.vision.hidden_size, config.text.hidden_size
    patch = config.patch_size
    num_patches = (config.image_size // patch) ** 2
    shapes: dict[str, tuple[int, ...]] = {
        "logit_scale": (),
        "visual_projection.weight": (config.projection_dim, width),
        "text_projection.weight": (config.projection_dim, text_width),
        "vision_model.embeddings.class_embedding": (width,),
        "vision_model.embeddings.patch_embedding.weight": (width, 3, patch, patch),
        "vision_model.embeddings.position_embedding.weight": (num_patches + 1, width),
        "text_model.embeddings.token_embedding.weight": (config.vocab_size, text_width),
        "text_model.embeddings.position_embedding.weight": (config.context, text_width),
    }
    norms = ("pre_layrnorm", "post_layernorm")  # the first is spelled so in the files
    for prefix, tower, names in (
        ("vision_model", config.vision, norms),
        ("text_model", config.text, ("final_layer_norm",)),
    ):
        for name in names:
            shapes |= _affine(f"{prefix}.{name}", (tower.hidden_size,))
        for i in range(tower.num_hidden_layers):
            shapes |= _layer_shapes(f"{prefix}.encoder.layers.{i}", tower)
    return shapes


def _layer_shapes(prefix: str, tower: Tower) -> dict[str, tuple[int, ...]]:
    width, inner = tower.hidden_size, tower.intermediate_size
    shapes = _affine(f"{prefix}.mlp.fc1", (inner, width))
    shapes |= _affine(f"{prefix}.mlp.fc2", (width, inner))
    for name in ("layer_norm1", "layer_norm2"):
        shapes |= _affine(f"{prefix}.{name}", (width,))
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        shapes |= _affine(f"{prefix}.self_attn.{name}", (width, width))
    return shapes


def _affine(name: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def read_weights(folder: Path, config: ClipConfig) -> dict[str, np.ndarray]:
    """The arrays in a folder's ``model.safetensors``, as float32.

    Raises:
        ValueError: If the file is missing or cut off, if its arrays are not exactly
            those that the configuration asks for, if values are not finite floats, or
            if safetensors is not installed.
    """
    path = file_of(folder, "model.safetensors")
    arrays = read_arrays(path)
    kept = {k: v for k, v in arrays.items() if not k.endswith(_IGNORED)}
    _check_shapes(path, kept, weight_shapes(config))
    return to_float32(kept, str(path))


def _check_shapes(
    path: Path, arrays: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    misshapen = [
        f"{name} {arrays[name].shape} instead of {shape}"
        for name, shape in shapes.items()
        if name in arrays and arrays[name].shape != shape
    ]
    problems = {
        "missing": [name for name in shapes if name not in arrays],
        "extra": [name for name in arrays if name not in shapes],
        "misshapen": misshapen,
    }
    found = [f"{k}: {_some(names)}" for k, names in problems.items() if names]
    if found:
        raise ValueError(
            f"{path} does not hold the weights of the CLIP model that config.json "
            f"beside it describes; {'; '.join(found)}"
        )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def file_of(folder: Path, name: str) -> Path:
    """A file that a CLIP folder must have.

    Raises:
        ValueError: If it has none.
    """
    path = folder / name
    if not path.is_file():
        raise ValueError(
            f"there is no file {path}; expected a CLIP folder of Hugging Face, with "
            "config.json, model.safetensors and tokenizer.json"
        )
    return path
