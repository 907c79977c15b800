"""Networks that paint faces and read them, from packages that anybody can install.

MobileStyleGAN paints, one network recognizes persons and guesses ages, another reads
expressions. How their inputs are prepared, and from which source each step was taken,
is in ``docs/faces.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from softqd.networks.weights import file_names, place

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
_FACE_OUTPUTS = ("global_pooling/Mean", "age_pred/Softmax")
_EMOTION_OUTPUTS = ("StatefulPartitionedCall/model_1/global_average_pooling2d_1/Mean",)


class FaceNetworks(NamedTuple):
    """Functions ``(params, batch)``; pictures of which height the last two take."""

    mapping: Callable
    synthesis: Callable
    face: Callable
    emotion: Callable
    latent_shape: tuple[int, ...]
    face_size: int
    emotion_size: int


def load(weights: str | Path | None = None) -> tuple[FaceNetworks, dict[str, Any]]:
    """The networks, and the parameters of each by name.

    Args:
        weights: Folder with the networks; by default the cache, where
            ``softqd weights fetch faces`` puts them.

    Raises:
        ValueError: If they are not there or cannot be read.
    """
    from softqd.networks._graph_openvino import read_openvino
    from softqd.networks._graph_tfjs import read_tfjs

    folder = _find(weights)
    mapping = read_openvino(folder / "MappingNetwork.xml")
    synthesis = read_openvino(folder / "SynthesisNetwork.xml")
    face = read_tfjs(folder / "faceres.json", _FACE_OUTPUTS)
    emotion = read_tfjs(folder / "emotion.json", _EMOTION_OUTPUTS)
    networks = FaceNetworks(
        mapping.apply,
        synthesis.apply,
        face.apply,
        emotion.apply,
        mapping.input_shape,
        face.input_shape[0],
        emotion.input_shape[0],
    )
    params = {
        "mapping": mapping.params,
        "synthesis": synthesis.params,
        "face": face.params,
        "emotion": emotion.params,
    }
    return networks, params


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


def paint(
    networks: FaceNetworks, params: Any, w: Float[Array, " p"]
) -> Float[Array, "h w 3"]:
    """The picture of a latent, nominally in [0, 1], red, green, blue."""
    dtype = jax.tree.leaves(params["synthesis"])[0].dtype
    picture = networks.synthesis(params["synthesis"], w[None].astype(dtype))[0]
    return (picture.astype(w.dtype).transpose(1, 2, 0) + 1.0) / 2.0


def read(
    networks: FaceNetworks, params: Any, picture: Float[Array, "h w 3"]
) -> tuple[Array, Array, Array]:
    """What the networks see in a picture: embedding, age, smile."""
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
    return embedding[0], age, smile


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
