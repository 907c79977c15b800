import os

from softqd import cli
from softqd.cli._deterministic import FLAGS


def test_flags_are_set_before_anything_is_computed(monkeypatch, capsys):
    """And beside those that are there, once."""
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/nowhere")
    for _ in range(2):
        for command in (["run"], ["compare", "--algorithms", "x"], ["sweep"]):
            grid = ["--grid", "a=1"] if command == ["sweep"] else []
            assert cli.invoke([*command, "nothing", "--deterministic", *grid]) == 2
    assert os.environ["XLA_FLAGS"] == f"--xla_dump_to=/nowhere {FLAGS}"


def test_flags_are_left_alone_otherwise(monkeypatch, capsys):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    assert cli.invoke(["run", "nothing"]) == 2
    assert "XLA_FLAGS" not in os.environ
