"""Pretrained weights: fetched, converted, checked, and where they are kept.

Weights are fetched once, at the user's word, from their authors' own addresses into the
cache folder, and never come with the package. Every file of the catalog is pinned by
its SHA-256 checksum, and one that differs is refused.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from softqd.cache import cache_folder
from softqd.networks import _stylegan2_shapes
from softqd.networks._download import DownloadError, Report, download
from softqd.networks._official_pickle import read_official
from softqd.networks._packages import pip_download, unpack
from softqd.networks._weight_files import (
    safetensors_package,
    sha256_of,
    write_safetensors,
)
from softqd.networks._weights_catalog import CATALOG, PIP, File, Weights


class Status(NamedTuple):
    """Whether a model is in the cache: 'sound', 'absent' or 'damaged', and why."""

    state: str
    note: str


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
    return all(path.is_file() for path in _expected(name))


def file_names(name: str) -> list[str]:
    """Names of the files that are kept of a model."""
    return [path.name for path in _expected(name)]


def fetch(name: str, *, report: Callable[[str], Report] | None = None) -> Path:
    """Download a model into the cache, and convert it if it needs to be.

    Args:
        name: A key of `CATALOG`.
        report: Called with a file's name; what it returns is called with the bytes
            that have come and the bytes in all. pip, where it downloads, shows its own
            progress then.

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
        try:
            _fetch_file(_folder(name), file, report)
        except DownloadError as error:
            again = f"run 'softqd weights fetch {name}' again"
            raise ValueError(f"{error}; {again}{_elsewhere(name, file)}") from None
        except OSError as error:
            raise ValueError(
                f"{_folder(name)} cannot be written ({error}); remove what is in the "
                "way, or set SOFTQD_CACHE to another folder"
            ) from None
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
    if target.exists() and target.samefile(path):
        raise ValueError(f"{path} would be overwritten; give another --out")
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
    absent = Status("absent", f"run 'softqd weights fetch {name}'")
    expected = _expected(name)
    if not any(path.exists() for path in expected):
        return absent
    for path, sha256 in expected.items():
        if not path.is_file():
            what = f"{path} is {'not a file' if path.exists() else 'missing'}"
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


def _expected(name: str) -> dict[Path, str | None]:
    """Files that are kept of a model, and their checksums as far as they are known."""
    if entry(name).is_converted:
        return {place(name): _recorded(place(name))}
    kept: dict[Path, str | None] = {}
    for file in entry(name).files:
        kept |= _kept(_folder(name), file)
    return kept


def _kept(folder: Path, file: File) -> dict[Path, str]:
    """What is kept of a file: itself, or what a package holds."""
    members = file.members or {file.name: file.sha256}
    return {folder / Path(member).name: sha256 for member, sha256 in members.items()}


def _fetch_file(
    folder: Path, file: File, report: Callable[[str], Report] | None
) -> None:
    """Download a file, unless what is kept of it is there; unpack it if need be."""
    kept = _kept(folder, file)
    if all(path.is_file() and sha256_of(path) == s for path, s in kept.items()):
        return
    path = folder / file.name
    if file.url.startswith(PIP):
        requirement = file.url.removeprefix(PIP)
        pip_download(requirement, path, file.sha256, is_shown=report is not None)
    else:
        shown = report(file.name) if report else None
        download(file.url, path, file.sha256, size=file.size, report=shown)
    if file.members:
        unpack(path, file.members)
        path.unlink()


def _name_of(sha256: str) -> str | None:
    """The entry of the catalog that is converted from a file of this checksum."""
    for name, model in CATALOG.items():
        if model.is_converted and model.files[0].sha256 == sha256:
            return name
    return None


def _elsewhere(name: str, file: File) -> str:
    if not entry(name).is_converted:
        return f", or first download it elsewhere and put it into {_folder(name)}"
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
