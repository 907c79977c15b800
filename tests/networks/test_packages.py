import subprocess

import pytest
from face_packages import (
    TARBALL,
    WHEEL,
    digest,
    pip_that_finds,
    small,
    tarball,
    tiny,
    wheel,
)

from softqd.networks._download import DownloadError
from softqd.networks._packages import pip_download, unpack

pytestmark = pytest.mark.networks

REQUIREMENT = "random-face==2021.7.21.1"


@pytest.mark.parametrize(("file", "make"), [(WHEEL, wheel), (TARBALL, tarball)])
def test_wanted_files_are_taken_out(tmp_path, file, make):
    package = tmp_path / file.name
    package.write_bytes(make())
    unpack(package, small(file, b"").members)
    for member in file.members:
        name = member.rsplit("/", 1)[1]
        assert (tmp_path / name).read_bytes() == tiny(member)
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(("file", "make"), [(WHEEL, wheel), (TARBALL, tarball)])
def test_packages_without_what_is_wanted(tmp_path, file, make):
    package = tmp_path / file.name
    package.write_bytes(make())
    first = next(iter(file.members))
    with pytest.raises(DownloadError, match=f"{first} in .* has another checksum"):
        unpack(package, {first: digest(b"another file")})
    with pytest.raises(DownloadError, match="holds no sound package/nothing"):
        unpack(package, {"package/nothing": digest(b"")})
    package.write_bytes(make()[:200])
    with pytest.raises(DownloadError, match=f"holds no sound {first}"):
        unpack(package, {first: digest(tiny(first))})
    assert list(tmp_path.iterdir()) == [package]


def test_pip_is_asked_once(monkeypatch, tmp_path):
    run, asked = pip_that_finds(wheel())
    monkeypatch.setattr(subprocess, "run", run)
    path = tmp_path / "new" / WHEEL.name
    for _ in range(2):
        assert pip_download(REQUIREMENT, path, digest(wheel())) == path
    assert asked == [["-m", "pip", "download", "--no-deps", REQUIREMENT]]
    with pytest.raises(DownloadError, match=r"which should be .*; it was thrown away"):
        pip_download(REQUIREMENT, path, digest(b"another file"))
    assert not path.exists()


def test_pip_without_a_network(monkeypatch, tmp_path):
    monkeypatch.setattr(subprocess, "run", pip_that_finds(None)[0])
    with pytest.raises(DownloadError, match=r"pip could not .*\(ERROR: no such host\)"):
        pip_download(REQUIREMENT, tmp_path / WHEEL.name, "")


def test_pip_without_an_index_says_why(monkeypatch, tmp_path):
    said = "WARNING: Retrying (4) after: timed out\nERROR: No matching distribution\n"

    def run(command, **_):
        return subprocess.CompletedProcess(command, 1, "", said)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(DownloadError, match=r"after: timed out; ERROR: No matching"):
        pip_download(REQUIREMENT, tmp_path / WHEEL.name, "")
