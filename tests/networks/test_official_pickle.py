import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from official_pickles import (
    Call,
    dumps,
    module,
    official_pickle,
    storage_bytes,
    tensor,
)

from softqd.networks import stylegan2
from softqd.networks._official_pickle import read_official

pytestmark = pytest.mark.networks

FIXTURES = Path(__file__).parent.parent / "fixtures"
ARRAYS = stylegan2.random_state(8, w_dim=4, max_channels=4)


@pytest.fixture
def read(tmp_path):
    """Reads a pickle from bytes."""

    def read(content):
        (tmp_path / "ffhq.pkl").write_bytes(content)
        return read_official(tmp_path / "ffhq.pkl")

    return read


def test_a_generator_comes_back_array_for_array(read):
    arrays, conv_clamp = read(official_pickle(ARRAYS, conv_clamp=256))
    assert conv_clamp == 256
    assert sorted(arrays) == sorted(ARRAYS)
    for name, x in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], x)
    stylegan2.load(arrays)
    assert read(official_pickle(ARRAYS)).conv_clamp is None


def test_what_torch_itself_wrote_is_read():
    """Values as `make_official_pickle.py` printed them, from torch's state dict."""
    arrays, conv_clamp = read_official(FIXTURES / "official_structure.pkl")
    assert conv_clamp == 256
    layer = {n.removeprefix("synthesis.b4.conv1."): x for n, x in arrays.items()}
    numbers = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    expected = {
        "weight": numbers.transpose(2, 1, 0),
        "noise_strength": np.float32(0.5),
        "halves": np.array([1.5, -2.0], np.float16),
        "steps": np.array([3, 2**40]),
        "shared": np.array([[16, 18], [20, 22]], np.float32),
    }
    assert list(layer) == list(expected)
    for name, x in expected.items():
        assert layer[name].dtype == x.dtype
        np.testing.assert_array_equal(layer[name], x)


def hostile_calls(marker):
    command = f"touch {marker}"
    text = f"open({str(marker)!r}, 'w')"
    return [
        Call(os.system, command),
        Call(eval, text),
        Call(exec, text),
        Call(getattr, Call(__import__, "os"), "system"),
        Call(np.load, str(marker)),
        Call(Path, "/"),
    ]


def test_hostile_files_are_refused_and_do_nothing(read, tmp_path):
    marker = tmp_path / "executed"
    for call in hostile_calls(marker):
        for content in (
            call,
            {"G_ema": call},
            {"G_ema": module(modules=[("synthesis", call)])},
            {"G_ema": tensor(np.zeros(2, np.float32), data=pickle.dumps(call))},
        ):
            with pytest.raises(ValueError, match="refused: it asks for '"):
                read(dumps(content))
    assert not marker.exists()


def test_the_source_code_inside_is_not_executed_or_imported(read):
    before = set(sys.modules)
    read(official_pickle(ARRAYS))  # its source would end the program
    assert {"torch", "torch_utils"}.isdisjoint(set(sys.modules) - before)


@pytest.mark.parametrize(
    "program",
    [
        # setattr(stand-in, "_call", None), through the state of a BUILD
        b"ccollections\nOrderedDict\n(N}\x8c\x05_callNstb.",
        b"cbuiltins\nexec\n.",
        b"cos\nsystem\n(S'true'\ntR.",
        b"\x80\x04P7\n.",  # a persistent reference
        b"\x82\x01.",  # copyreg's extension registry
    ],
)
def test_programs_that_reach_for_the_machine_are_stopped(read, program):
    with pytest.raises(ValueError, match=r"refused|is damaged"):
        read(program)
    assert read(official_pickle(ARRAYS)).arrays  # and later ones are not affected


def test_cut_off_files_are_damaged(read):
    whole = official_pickle(ARRAYS)
    for share in (0.0, 0.001, 0.1, 0.5, 0.9, 0.9999):
        with pytest.raises(ValueError, match=r"ffhq.pkl is damaged, cut off or no"):
            read(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match="is damaged"):
        read(b"<html>404: not found</html>")


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": (5,)},
        {"offset": 1},
        {"offset": -1},
        {"stride": (10**9,)},
        {"stride": (-1,)},
        {"size": (10**12,), "stride": (0,)},
        {"size": (2, 2)},
        {"data": storage_bytes(np.zeros(4, np.float32))[:-1]},
        {"data": storage_bytes(np.zeros(4, np.float32), size=400)},
        {"data": b""},
    ],
)
def test_tensors_outside_their_storage_are_damaged(read, wrong):
    x = tensor(np.zeros(4, np.float32), **wrong)
    with pytest.raises(ValueError, match="is damaged"):
        read(dumps({"G_ema": module([("weight", x)])}))


def test_other_pickles_are_named(read):
    for content in ([1, 2], {"G": 1}, {"G_ema": 3}):
        with pytest.raises(ValueError, match="there is no network 'G_ema'"):
            read(dumps(content))
    with pytest.raises(ValueError, match="not built like a torch module"):
        read(dumps({"G_ema": module([("weight", 3)])}))


def test_modules_that_hold_one_another_end(read):
    """Forty modules, each twice in the next, would spell 2 ** 40 names."""
    found = module([("weight", tensor(np.zeros(1, np.float32)))])
    for _ in range(40):
        found = module(modules=[("a", found), ("b", found)])
    with pytest.raises(ValueError, match=r"is a module that came before"):
        read(dumps({"G_ema": found}))


@pytest.mark.parametrize("clamp", [np.nan, -1, 0, np.inf])
def test_clamps_that_are_none(read, clamp):
    with pytest.raises(ValueError, match="conv_clamp must be a positive number"):
        read(official_pickle(ARRAYS, conv_clamp=clamp))
