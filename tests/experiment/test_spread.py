"""Populations over several devices and processes, against those on one device."""

import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import spread_runs

from softqd.experiment import checkpoint

pytestmark = pytest.mark.slow
SCRIPT = [sys.executable, Path(spread_runs.__file__)]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    out = tmp_path_factory.mktemp("devices") / "found.npz"
    subprocess.run([*SCRIPT, "devices", out], check=True, timeout=300)
    with np.load(out) as file:
        return dict(file)


def assert_same(one, other):
    for part in ("solutions", "behavior", "quality"):
        np.testing.assert_allclose(one[part], other[part], rtol=1e-4, atol=1e-3)
    for column in ("evaluations", "relocated"):
        np.testing.assert_array_equal(one[column], other[column])


def parts(found, name):
    return {k.split("_")[1]: v for k, v in found.items() if k.startswith(f"{name}_")}


@pytest.mark.parametrize("name", ["all", "seeds", "resumed"])
def test_the_population_is_that_of_one_device(found, name):
    assert_same(parts(found, name), parts(found, "one"))


def test_only_children_and_behaviors_travel(found):
    """Of 64 solutions of 40 numbers, 8 of them children."""
    shapes = [tuple(map(int, filter(None, s.split(",")))) for s in found["moved"]]
    assert (64, 4) in shapes
    assert max(np.prod(shape, dtype=int) for shape in shapes) <= max(8 * 40, 64 * 4)


def test_what_cannot_be_spread_is_refused(found):
    assert "a population of 60 cannot be cut into 8 equal parts" in str(found["uneven"])
    assert "'all', or a jax.sharding.Mesh; got 'some'" in str(found["unknown"])


def start(folder, last=0):
    """Two processes of one run; their exit codes, and what the first one found."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    outs = [folder / f"{i}.npz" for i in range(2)]
    processes = [
        subprocess.Popen(
            [*SCRIPT, "process", str(i), port, folder / "run", str(last), outs[i]],
            stderr=subprocess.DEVNULL,
        )
        for i in range(2)
    ]
    codes = [process.wait(timeout=300) for process in processes]
    return codes, [np.load(out) for out in outs if out.exists()]


def test_processes_go_on_after_one_was_killed(tmp_path, found):
    codes, outs = start(tmp_path, last=10)
    assert codes[1] == -9
    assert codes[0] != 0
    assert not outs
    saved = (tmp_path / "run" / checkpoint.FILE_NAME).read_bytes()
    codes, outs = start(tmp_path)
    assert codes == [0, 0]
    for out in outs:
        assert_same(parts(out, "process"), parts(found, "one"))
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / checkpoint.FILE_NAME).write_bytes(saved)
    result = spread_runs.run(checkpoint_dir=alone, resume=True)
    rest = parts(spread_runs.arrays(result, "rest"), "rest")
    assert_same(rest, parts(found, "one"))
