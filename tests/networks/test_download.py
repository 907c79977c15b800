import hashlib

import numpy as np
import pytest
from fragile_server import serve

from softqd.networks._download import DownloadError, download

pytestmark = pytest.mark.networks

CONTENT = np.random.default_rng(0).bytes(100_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server():
    with serve(CONTENT) as server:
        yield server


def test_a_whole_file_is_fetched_once(server, tmp_path):
    seen = []
    path = download(
        server.url, tmp_path / "a" / "x", SHA256, report=lambda *p: seen.append(p)
    )
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert download(server.url, path, SHA256) == path
    assert server.ranges == [None]
    assert [p.name for p in path.parent.iterdir()] == ["x"]


def test_a_connection_that_breaks_is_continued(server, tmp_path):
    server.breaks = (30_000, 20_000)
    path = download(server.url, tmp_path / "x", SHA256)
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=30000-", "bytes=50000-"]


def test_another_call_continues_where_the_last_one_gave_up(server, tmp_path):
    server.breaks = (30_000, 0, 0)
    with pytest.raises(DownloadError, match=r"30,000 bytes that came are kept"):
        download(server.url, tmp_path / "x", SHA256)
    assert not (tmp_path / "x").exists()
    server.breaks = ()
    server.ranges.clear()
    assert download(server.url, tmp_path / "x", SHA256).read_bytes() == CONTENT
    assert server.ranges == ["bytes=30000-"]


def test_a_server_without_ranges_sends_it_again(server, tmp_path):
    server.knows_ranges, server.breaks = False, (30_000,)
    assert download(server.url, tmp_path / "x", SHA256).read_bytes() == CONTENT


def test_a_whole_part_is_not_sent_again(server, tmp_path):
    (tmp_path / "x.part").write_bytes(CONTENT)
    assert download(server.url, tmp_path / "x", SHA256).read_bytes() == CONTENT


def test_another_file_is_thrown_away(server, tmp_path):
    with pytest.raises(
        DownloadError, match=f"sha256 {SHA256} and should be {'0' * 64}"
    ):
        download(server.url, tmp_path / "x", "0" * 64)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("length", [10, 200_000])
@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_part_of_another_file_is_not_built_upon(
    server, tmp_path, length, knows_ranges
):
    server.knows_ranges = knows_ranges
    (tmp_path / "x.part").write_bytes(b"?" * length)
    assert download(server.url, tmp_path / "x", SHA256).read_bytes() == CONTENT
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_what_is_there_is_kept_when_a_server_starts_over_and_breaks(server, tmp_path):
    server.knows_ranges, server.breaks = False, (10_000, 10_000)
    (tmp_path / "x.part").write_bytes(CONTENT[:80_000])
    with pytest.raises(DownloadError, match=r"80,000 bytes that came are kept"):
        download(server.url, tmp_path / "x", SHA256)


@pytest.mark.parametrize("form", ["chunked", "unsaid"])
def test_servers_that_do_not_say_how_much_there_is(server, tmp_path, form):
    server.form, server.breaks = form, (30_000, 20_000)
    path = download(server.url, tmp_path / "x", SHA256, size=len(CONTENT))
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=30000-", "bytes=50000-"]


def test_servers_that_refuse_or_are_not_there(server, tmp_path):
    server.content = b""  # every range is beyond its end
    with pytest.raises(DownloadError, match="the server answers HTTP Error 416"):
        download(server.url, tmp_path / "x", SHA256)
    with pytest.raises(DownloadError, match="could not be fetched"):
        download("https://softqd.invalid/x", tmp_path / "x", SHA256)
