"""Pretrained weights: what there is, where it comes from, and where it is kept.

Weights are fetched once, at the user's word, from their authors' own addresses into the
cache folder, and never come with the package. Every file is pinned by its SHA-256
checksum. The checksums were not computed from a download of ours: they are the ones
publicly documented for these addresses (for CLIP, also Hugging Face's own record of the
pinned revision), and a file that differs is refused.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from softqd.ops.cache import cache_folder
from softqd.problems import _stylegan2_shapes
from softqd.problems._download import DownloadError, Report, download
from softqd.problems._official_pickle import read_official
from softqd.problems._weight_files import (
    safetensors_package,
    sha256_of,
    write_safetensors,
)


class File(NamedTuple):
    """A file as its source offers it."""

    name: str
    url: str
    size: int
    sha256: str


class Weights(NamedTuple):
    """A pretrained model: where it comes from and under which license."""

    about: str
    license: str
    source: str
    files: tuple[File, ...]
    is_converted: bool = False  # its one file is an official pickle


class Status(NamedTuple):
    """Whether a model is in the cache: 'sound', 'absent' or 'damaged', and why."""

    state: str
    note: str


_NVIDIA = "https://nvlabs-fi-cdn.nvidia.com/stylegan2-ada-pytorch/pretrained"
# The revision of openai/clip-vit-base-patch32 that holds the weights as safetensors
# (the repository's own conversion, refs/pr/15); its main branch has a pickle only.
_CLIP = (
    "https://huggingface.co/openai/clip-vit-base-patch32/resolve/"
    "b33cedfd0df4e43b8238760678fcc89e1a0d38b3"
)

CATALOG: dict[str, Weights] = {
    "stylegan2-ffhq": Weights(
        "StyleGAN2 generator of faces, FFHQ at 1024 x 1024 pixels",
        "Nvidia Source Code License-NC: research and evaluation only, no commercial "
        "use",
        "https://github.com/NVlabs/stylegan2-ada-pytorch",
        (
            File(
                "ffhq.pkl",
                f"{_NVIDIA}/ffhq.pkl",
                381_624_121,
                "a205a346e86a9ddaae702e118097d014b7b8bd719491396a162cca438f2f524c",
            ),
        ),
        is_converted=True,
    ),
    "clip-vit-b32": Weights(
        "CLIP ViT-B/32, image and text towers",
        "MIT",
        "https://huggingface.co/openai/clip-vit-base-patch32",
        (
            File(
                "config.json",
                f"{_CLIP}/config.json",
                4_186,
                "b575ef3c36f2a057fa19e221650105052d61cc9c1a972ec15019c6261ec98770",
            ),
            File(
                "tokenizer.json",
                f"{_CLIP}/tokenizer.json",
                2_224_041,
                "b556ac8c99757ffb677208af34bc8c6721572114111a6e0aaf5fa69ff0b8d842",
            ),
            File(
                "model.safetensors",
                f"{_CLIP}/model.safetensors",
                605_157_884,
                "99d28a652e6ec46629ab7047a0ac82c69b1fe11e0ce672c43af65d3a9a3fc05d",
            ),
        ),
    ),
}


def locate(name: str) -> Path:
    """The model in the cache: its converted file, or the folder of its files.

    Raises:
        ValueError: If it is not there; the message says what to type.
    """
    if is_present(name):
        return place(name)
    raise ValueError(
        f"the weights {name!r} are not in {_folder(name).parent}; run "
        f"'softqd weights fetch {name}'"
    )


def place(name: str) -> Path:
    """Where a model is kept, there or not: a converted file, or a folder of files."""
    folder = _folder(name)
    return folder.with_suffix(".safetensors") if entry(name).is_converted else folder


def is_present(name: str) -> bool:
    """Whether all files of a model are in the cache; `check` also reads them."""
    model = entry(name)
    if model.is_converted:
        return place(name).exists()
    return all((_folder(name) / file.name).exists() for file in model.files)


def fetch(name: str, *, report: Callable[[str], Report] | None = None) -> Path:
    """Download a model into the cache, and convert it if it needs to be.

    Args:
        name: A key of `CATALOG`.
        report: Called with a file's name; what it returns is called with the bytes
            that have come and the bytes in all.

    Returns:
        What `locate` returns from then on.

    Raises:
        ValueError: If it cannot be fetched; the message says what to type.
    """
    model = entry(name)
    if check(name).state == "sound":
        return locate(name)
    if model.is_converted:
        safetensors_package()  # better missed now than after the download
    for file in model.files:
        path = _folder(name) / file.name
        try:
            shown = report(file.name) if report else None
            download(file.url, path, file.sha256, report=shown)
        except DownloadError as error:
            again = f"run 'softqd weights fetch {name}' again"
            raise ValueError(f"{error}; {again}{_elsewhere(name, file)}") from None
    if model.is_converted:
        convert(_folder(name) / model.files[0].name)
        shutil.rmtree(_folder(name))  # a third of the pickle is the generator
    return locate(name)


def convert(path: str | Path, out: str | Path | None = None) -> tuple[Path, str]:
    """Turn an official StyleGAN2 pickle into a safetensors file, executing nothing.

    Args:
        path: A pickle of stylegan2-ada-pytorch.
        out: Where to write; by default the place in the cache for a file that is in
            the catalog, and beside the pickle for any other.

    Returns:
        The file written, and a line on what is in it.

    Raises:
        ValueError: If the file is not such a pickle, or holds another architecture.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise ValueError(f"there is no file {path} to convert")
    arrays, conv_clamp = read_official(path)
    _stylegan2_shapes.check(arrays, str(path))
    sha256 = sha256_of(path)
    known = _name_of(sha256)
    if out is not None:
        target = Path(out).expanduser()
    else:
        target = place(known) if known else path.with_suffix(".safetensors")
    if target.suffix != ".safetensors":
        raise ValueError(f"out must end in .safetensors; got {target}")
    clamp = "none" if conv_clamp is None else f"{conv_clamp:g}"
    write_safetensors(target, arrays, {"source_sha256": sha256, "conv_clamp": clamp})
    if known and target == place(known):
        _record(target)
    side = _stylegan2_shapes.resolution_of(arrays)
    return target, (
        f"{len(arrays)} arrays, {side} x {side} pixels, conv_clamp {clamp}, "
        f"{f'the official {known}' if known else 'not a file of the catalog'}"
    )


def check(name: str) -> Status:
    """Whether a model is in the cache, whole and unchanged."""
    model = entry(name)
    absent = Status("absent", f"run 'softqd weights fetch {name}'")
    if model.is_converted:
        expected = {place(name): _recorded(place(name))}
    else:
        expected = {_folder(name) / file.name: file.sha256 for file in model.files}
    if not any(path.exists() for path in expected):
        return absent
    for path, sha256 in expected.items():
        if not path.exists():
            what = f"{path} is missing"
        elif sha256 is None:
            what = f"{path} has no recorded checksum"
        elif sha256_of(path) != sha256:
            what = f"{path} has another checksum than sha256 {sha256}"
        else:
            continue
        return Status("damaged", f"{what}; {absent.note}")
    return Status("sound", str(place(name)))


def entry(name: str) -> Weights:
    """The catalog's entry of a name.

    Raises:
        ValueError: If there is none.
    """
    if name not in CATALOG:
        raise ValueError(
            f"unknown weights {name!r}; choose from {', '.join(CATALOG)}, or see "
            "'softqd weights list'"
        )
    return CATALOG[name]


def _folder(name: str) -> Path:
    return cache_folder() / "weights" / name


def _name_of(sha256: str) -> str | None:
    """The entry of the catalog that is converted from a file of this checksum."""
    for name, model in CATALOG.items():
        if model.is_converted and model.files[0].sha256 == sha256:
            return name
    return None


def _elsewhere(name: str, file: File) -> str:
    if not entry(name).is_converted:
        return f", or download it elsewhere and put it into {_folder(name)}"
    return f", or download it elsewhere and run 'softqd weights convert {file.name}'"


def _record(path: Path) -> None:
    """Keep the checksum of a converted file, which no catalog can know."""
    text = json.dumps({"sha256": sha256_of(path)})
    path.with_suffix(".json").write_text(text + "\n")


def _recorded(path: Path) -> str | None:
    try:
        content: Mapping[str, Any] = json.loads(path.with_suffix(".json").read_text())
        return str(content["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
