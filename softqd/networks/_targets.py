"""Target pictures: a path, or a name."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
from jaxtyping import Float

from softqd.cache import cache_folder
from softqd.networks._download import DownloadError, download

DEFAULT = "hopper"
NAMES = (DEFAULT, "vermeer")
# Girl with a Pearl Earring (Johannes Vermeer, about 1665; public domain), the file
# behind the paper's numbers, from the repository of the paper's authors.
VERMEER_URL = (
    "https://raw.githubusercontent.com/conflictednerd/soft-qd/"
    "87f60ee83943df9c6c53e9bbcc19c140b105564c/assets/girl_pearl_earing.jpg"
)
VERMEER_SHA256 = "6f1a0c80ad62afda389c5f3ac1da5adc5a6d08370287f1e2599b38c15391644e"


def load_target(
    target: str | None, size: int
) -> tuple[str, Float[np.ndarray, "h w 3"]]:
    """A picture's name and its pixels in [0, 1], reduced to a square by Lanczos.

    Raises:
        ValueError: If there is no such picture, or it cannot be read.
    """
    from PIL import Image, UnidentifiedImageError

    path = _path_of(DEFAULT if target is None else target)
    try:
        with Image.open(path) as image:
            small = image.convert("RGB").resize((size, size), Image.Resampling.LANCZOS)
    except FileNotFoundError:
        raise ValueError(
            f"target: there is no picture {path}; give the path of one, or one of the "
            f"names {', '.join(NAMES)}"
        ) from None
    except (UnidentifiedImageError, OSError) as error:
        raise ValueError(
            f"target: {path} cannot be read as a picture: {error}"
        ) from None
    name = target if target in NAMES else path.stem
    return name or DEFAULT, np.asarray(small, np.float32) / 255.0


def _path_of(target: str) -> Path:
    if target == "hopper":
        return _hopper()
    return _vermeer() if target == "vermeer" else Path(target).expanduser()


def _hopper() -> Path:
    """Grace Hopper's official portrait (US Navy; public domain), from matplotlib."""
    spec = importlib.util.find_spec("matplotlib")
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(
            "target 'hopper' comes with matplotlib, which is not installed"
        )
    folder = Path(next(iter(spec.submodule_search_locations)))
    return folder / "mpl-data" / "sample_data" / "grace_hopper.jpg"


def _vermeer() -> Path:
    """The painting in the cache, fetched and verified if it is not there yet.

    Raises:
        ValueError: If it is neither there nor can be fetched.
    """
    path = cache_folder() / "vermeer.jpg"
    try:
        return download(VERMEER_URL, path, VERMEER_SHA256)
    except DownloadError as error:
        raise ValueError(
            f"target 'vermeer' is not in {path.parent}: {error}; run this again with a "
            f"network, or download {VERMEER_URL} elsewhere and give --set target=PATH"
        ) from None
