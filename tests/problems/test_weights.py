import hashlib

import numpy as np
import pytest
from fragile_server import serve
from official_pickles import official_pickle

from softqd import cli
from softqd.problems import stylegan2, weights

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
            small = weights.File(file, server.url, len(PICKLE), sha256)
            entry = weights.CATALOG[name]._replace(files=(small,))
            monkeypatch.setitem(weights.CATALOG, name, entry)
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
        for part in (name, entry.license, entry.source, entry.files[0].url):
            assert part in text
    assert "607 MB, not in the cache" in text


def test_every_file_is_pinned():
    for entry in weights.CATALOG.values():
        for file in entry.files:
            assert len(bytes.fromhex(file.sha256)) == 32
            assert file.url.startswith("https://")
            assert file.url.endswith(f"/{file.name}")
            # An address that moves, such as a branch, would not stay what it is.
            assert "/main/" not in file.url


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


def test_offline_the_message_says_what_to_type(capsys):
    status, _, line = invoke(capsys, "fetch", "stylegan2-ffhq")
    assert status == 2
    assert "run 'softqd weights fetch stylegan2-ffhq' again" in line
    assert "softqd weights convert ffhq.pkl" in line
    with pytest.raises(ValueError, match="run 'softqd weights fetch clip-vit-b32'"):
        weights.locate("clip-vit-b32")
    status, _, line = invoke(capsys, "fetch", "clip")
    assert status == 2
    assert "choose from stylegan2-ffhq, clip-vit-b32" in line


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
    for arguments, message in (
        (["cut.pkl"], "is damaged, cut off or no pickle"),
        (["missing.pkl"], "1 missing: mapping.fc3.bias"),
        (["nothing.pkl"], "there is no file"),
        (["mine.pkl", "--out", "g.npz"], "must end in .safetensors"),
    ):
        status, _, line = invoke(
            capsys, "convert", tmp_path / arguments[0], *arguments[1:]
        )
        assert status == 2
        assert message in line
    assert not list(tmp_path.rglob("*.safetensors"))


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


def test_an_interrupted_fetch_says_how_to_go_on(capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(weights, "download", interrupted)
    status, _, line = invoke(capsys, "fetch", "clip-vit-b32")
    assert status == 130
    assert "'softqd weights fetch clip-vit-b32' continues" in line
