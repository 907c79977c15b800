"""Run folders when a process is killed, a disk is full, or a file is a trap."""

import dataclasses
import errno
import json
import os
import struct
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest
from toys import climb, make_bowl

import softqd
from softqd.experiment import checkpoint
from softqd.experiment.files import lock
from softqd.experiment.files.lock import locked
from softqd.experiment.files.schema import FileError
from softqd.experiment.files.whole import write_whole
from softqd.experiment.loop import Ledger
from softqd.experiment.many.preset import read_preset
from softqd.experiment.run_folder import NoRunError, RunFolder
from softqd.experiment.same import first_difference


@pytest.fixture(scope="module")
def two():
    """Two runs of one problem, with metrics and pictures."""
    problem = make_bowl(render=lambda x: jnp.full((4, 4, 3), 0.5))
    runs = softqd.run(climb(problem, size=8), seed=[0, 1], num_iterations=2)
    return [run.completed(cells=8) for run in runs]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Killed(BaseException):
    """Nothing is done any more."""


def failing(function, after, error):
    """A function that works so many times."""
    left = iter(range(after))

    def called(*arguments):
        if next(left, None) is None:
            raise error
        return function(*arguments)

    return called


@pytest.mark.parametrize("after", range(7))
def test_of_two_runs_nothing_is_mixed(two, tmp_path, monkeypatch, after):
    """The second takes the place of the first, and is killed at some file."""
    first, second = two
    first.save(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing(os.replace, after, Killed()))
        if after < 6:
            with pytest.raises(Killed):
                second.save(tmp_path)
        else:
            second.save(tmp_path)
    if after < 5:  # configuration, population, history, pictures, result
        with pytest.raises(NoRunError, match=r"no result\.json: the process that"):
            softqd.load(tmp_path)
    else:
        found = softqd.load(tmp_path)
        assert found.seed == 1
        assert bool(found.metrics) == RunFolder(tmp_path).is_finished == (after == 6)
        np.testing.assert_array_equal(
            found.population.solutions, second.population.solutions
        )


@pytest.mark.parametrize("after", range(6))
def test_a_disk_that_is_full_leaves_the_run_that_was_there(
    two, tmp_path, monkeypatch, after
):
    first, second = two
    first.save(tmp_path)
    before = contents(tmp_path)
    names = ("config", "population", "history", "pictures", "result", "metrics")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(os, "fsync", failing(os.fsync, after, full))
    with pytest.raises(OSError, match=rf"No space left .*/{names[after]}\."):
        second.save(tmp_path)
    assert contents(tmp_path) == before


def test_a_lock_that_cannot_be_written_is_not_left(tmp_path, monkeypatch):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as patch:
        patch.setattr(lock.json, "dump", failing(json.dump, 0, full))
        with (
            pytest.raises(OSError, match=r"No space left .*softqd-lock"),
            locked(tmp_path),
        ):
            pass
    assert not list(tmp_path.iterdir())
    with locked(tmp_path):  # it is free
        pass


def test_leftovers_of_the_runs_of_a_comparison_are_removed(tmp_path):
    part = f".{'0' * 16}.softqd-part"
    for place in ("", "a/seed_0", "a/seed_0/figures", "unfinished/x"):
        write_whole(tmp_path / place / part, "torn")
    with locked(tmp_path):
        assert not list(tmp_path.rglob("*.softqd-part"))


def test_emptied_pictures_make_a_run_unfinished(two, tmp_path):
    two[0].save(tmp_path)
    assert RunFolder(tmp_path).is_finished
    (tmp_path / "pictures.npz").write_bytes(b"")
    assert not RunFolder(tmp_path).is_finished


def test_a_header_cannot_be_longer_than_it_may(tmp_path):
    """It says 50 MB, which take 50 kB on disk: no more than 10,000 bytes are read."""
    size, path = 50_000_000, tmp_path / "p.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        start = b"\x93NUMPY\x02\x00" + struct.pack("<I", size)
        archive.writestr("quality.npy", start + b" " * size)
    with pytest.raises(FileError, match=r"expected 50000000 bytes got 9988"):
        softqd.load_population(path)


def test_text_may_take_as_much_as_its_objects_do(two, tmp_path, monkeypatch):
    two[0].save(tmp_path)
    (tmp_path / "metrics.json").write_text('{"x": ' + " " * 993 + "}")
    monkeypatch.setenv("SOFTQD_MAX_BYTES", "20000")
    with pytest.raises(FileError, match=r"32000 bytes .* SOFTQD_MAX_BYTES=32000"):
        _ = RunFolder(tmp_path).metrics


def test_what_a_terminal_obeys_is_shown(two, tmp_path):
    two[0].save(tmp_path)
    (tmp_path / "metrics.json").write_text('{"\\u001b[31m": "x"}')
    with pytest.raises(FileError) as caught:
        softqd.load(tmp_path)
    assert str(caught.value).isprintable()
    assert r"\x1b[31m must be a number or null" in str(caught.value)


def test_differences_are_short(tmp_path):
    path = tmp_path / "preset.toml"
    path.write_text(
        f'[problem]\nname = "arm"\n"{"k" * 400}" = "{"9" * 400}"\n'
        '[algorithm]\nname = "squad"\n'
    )
    with pytest.raises(ValueError, match="was tuned with problem kkk") as caught:
        read_preset(path).check_problem({"name": "arm"})
    assert len(str(caught.value)) - len(str(path)) < 250
    assert first_difference({"a": "\x1b"}, {"a": 1}).before == r"'\x1b'"


def test_units_of_behaviors_are_checked(two, tmp_path):
    two[0].save(tmp_path)
    path = tmp_path / "result.json"
    summary = json.loads(path.read_text())
    for units in ([[0.0]], [[0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 1.0]], []):
        path.write_text(json.dumps(summary | {"behavior_units": units}))
        with pytest.raises(FileError, match="behavior_units must be two lists, low"):
            softqd.load(tmp_path)
    path.write_text(json.dumps(summary | {"behavior_units": [[0.0], [1.0]]}))
    with pytest.raises(FileError, match="behavior_units has 1 behaviors, and popul"):
        softqd.load(tmp_path)


def test_a_history_without_its_columns_is_not_continued(tmp_path):
    algorithm = climb(make_bowl(), size=4)
    softqd.run(algorithm, num_iterations=1, checkpoint_dir=tmp_path)
    arrays = dict(np.load(tmp_path / checkpoint.FILE_NAME))
    meta = json.loads(arrays["meta"].tobytes())
    sound = Ledger.from_json(meta, tmp_path)
    assert dataclasses.asdict(sound)["history"] == meta["history"]
    for name, column in (("iteration", None), ("clipped_behaviors", [0.0, 0.0])):
        history = {k: v for k, v in meta["history"].items() if k != name}
        history |= {name: column} if column else {}
        with pytest.raises(softqd.CheckpointError, match=f"history.*{name}|{name}.*in"):
            Ledger.from_json({**meta, "history": history}, tmp_path)
