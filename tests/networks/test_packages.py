import io
import os
import subprocess
import tarfile
import zipfile

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
    wanted = ["-m", "pip", "download", "--no-deps", "--only-binary=:all:", REQUIREMENT]
    assert asked == [wanted]
    with pytest.raises(DownloadError, match=r"which should be .*; it was thrown away"):
        pip_download(REQUIREMENT, path, digest(b"another file"))
    assert not path.exists()


def test_pip_without_a_network(monkeypatch, tmp_path):
    monkeypatch.setattr(subprocess, "run", pip_that_finds(None)[0])
    with pytest.raises(DownloadError, match=r"pip could not .*\(ERROR: no such host\)"):
        pip_download(REQUIREMENT, tmp_path / WHEEL.name, "")


# pip imports the backend to learn what an sdist depends on.
SDIST = {
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\n'
    'backend-path = ["."]\n',
    "backend.py": "open({trace!r}, 'w').close()\n",
}


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index on this disk, which holds an sdist that leaves a trace if run.

    Returns:
        A function that takes further files, by name, and writes the index's page.
    """
    folder, stem = tmp_path / "index" / "random-face", REQUIREMENT.replace("==", "-")
    folder.mkdir(parents=True)
    with tarfile.open(folder / f"{stem}.tar.gz", "w:gz") as archive:
        for name, text in SDIST.items():
            content = text.replace("{trace!r}", repr(str(tmp_path / "trace"))).encode()
            entry = tarfile.TarInfo(f"{stem}/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)

    def show(**files):
        for name, content in files.items():
            (folder / name).write_bytes(content)
        links = (f'<a href="{p.name}">{p.name}</a>' for p in sorted(folder.iterdir()))
        (folder / "index.html").write_text("".join(links))

    show()
    return show


def pip_wheel():
    """The least that pip takes for a wheel of this name."""
    parts = {
        "METADATA": "Metadata-Version: 2.1\nName: random-face\nVersion: 2021.7.21.1\n",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in parts.items():
            archive.writestr(f"random_face-2021.7.21.1.dist-info/{name}", text)
    return file.getvalue()


def test_no_code_of_an_sdist_runs(tmp_path, index):
    path = tmp_path / "got" / WHEEL.name
    none = f"No matching distribution found for {REQUIREMENT}"
    with pytest.raises(DownloadError, match=none):
        pip_download(REQUIREMENT, path, "")
    assert not (tmp_path / "trace").exists()
    # And with a wheel beside it, which is verified.
    content = pip_wheel()
    index(**{WHEEL.name: content})
    with pytest.raises(DownloadError, match=r"which should be .*; it was thrown away"):
        pip_download(REQUIREMENT, path, digest(b"another file"))
    assert not path.exists()
    assert pip_download(REQUIREMENT, path, digest(content)).read_bytes() == content
    assert not (tmp_path / "trace").exists()


def test_pip_without_an_index_says_why(monkeypatch, tmp_path):
    said = "WARNING: Retrying (4) after: timed out\nERROR: No matching distribution\n"

    def run(command, **_):
        return subprocess.CompletedProcess(command, 1, "", said)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(DownloadError, match=r"after: timed out; ERROR: No matching"):
        pip_download(REQUIREMENT, tmp_path / WHEEL.name, "")
