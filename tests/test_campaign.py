"""A slice of ``make campaign``, with a fixed seed."""

import pytest

import softqd.cli
from campaign import inputs, kills, material
from campaign.verdict import End, Tally, verdict


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return material.make(tmp_path_factory.mktemp("campaign"), ("run",))


def test_what_is_wrong_is_noticed(place, monkeypatch):
    assert verdict(End(2, "softqd: no\n"), (0, 2)) is None
    assert verdict(End(2, ""), (0, 2)) == "wrong exits"
    assert verdict(End(1, "softqd: no\n"), (0, 2)) == "wrong exits"
    assert verdict(End(None, ""), (0, 2)) == "hangs"
    monkeypatch.setattr(softqd.cli, "invoke", lambda _: [][0])
    assert verdict(inputs.invoked([]), (0, 2)) == "tracebacks"
    tally = Tally()
    tally.count("x", "hangs")
    assert not tally.is_clean


def test_a_difference_is_noticed(place, tmp_path):
    other = material.make(tmp_path, ("run",)) / "run"
    assert material.difference(place / "run", other) is None
    text = (other / "history.csv").read_text().replace("60,", "61,")
    (other / "history.csv").write_text(text)
    assert material.difference(place / "run", other) == "history.csv differs"


def test_a_kind_of_file_without_a_reader_is_noticed(place, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "new.bin").touch()
    with pytest.raises(LookupError, match=r"new\.bin"):
        inputs.damaged_files(tmp_path, 1, 0, Tally())


@pytest.mark.slow
def test_inputs_at_random(place):
    tally = Tally()
    inputs.damaged_files(place, 60, 0, tally)
    inputs.settings_and_options(place, 60, 0, tally)
    assert not tally.faults
    assert sum(tally.tried.values()) == 120


@pytest.mark.slow
def test_a_run_that_is_killed_twice(place, tmp_path, monkeypatch):
    monkeypatch.setattr(material, "COMMANDS", {"run": material.COMMANDS["run"]})
    tally = Tally()
    kills.kill_and_resume(place, 2, 0, tmp_path, tally)
    assert not tally.faults
