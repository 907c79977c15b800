"""The packages that carry the networks of faces, with the tiny networks in them."""

import hashlib
import io
import subprocess
import tarfile
import zipfile
from pathlib import Path

from softqd.networks import weights

FACES = Path(__file__).parent / "fixtures" / "faces"
WHEEL, TARBALL = weights.CATALOG["faces"].files


def digest(data):
    return hashlib.sha256(data).hexdigest()


def tiny(member):
    return (FACES / Path(member).name).read_bytes()


def wheel():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for member in WHEEL.members:
            archive.writestr(zipfile.ZipInfo(member), tiny(member))
    return file.getvalue()


def tarball():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for member in TARBALL.members:
            info = tarfile.TarInfo(member)
            info.size = len(tiny(member))
            archive.addfile(info, io.BytesIO(tiny(member)))
    return file.getvalue()


def small(file, content, **changes):
    """A file of the catalog that has this content and holds tiny networks."""
    members = {member: digest(tiny(member)) for member in file.members}
    sizes = {"size": len(content), "sha256": digest(content), "members": members}
    return file._replace(**{**sizes, **changes})


def pip_that_finds(content):
    """Stands for `subprocess.run`: pip, and a list of what it was asked."""
    asked = []

    def run(command, **_):
        asked.append(command[1:-2])
        if content is None:
            return subprocess.CompletedProcess(command, 1, "", "ERROR: no such host\n")
        (Path(command[-1]) / WHEEL.name).write_bytes(content)
        return subprocess.CompletedProcess(command, 0, "", "")

    return run, asked
