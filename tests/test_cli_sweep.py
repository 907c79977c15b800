import json
import tomllib

import pytest

from softqd import cli

SWEEP = ["sweep", "toys:make_bowl", "--algorithm", "toys:climb", "--evaluations", "100"]


def invoke(capsys, *arguments):
    status = cli.invoke([str(a) for a in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_sweep_ends_with_a_table_a_figure_and_a_preset(capsys, tmp_path):
    grid = ["--grid", "sigma=0.1,1", "--grid", "size=10,0", "--set", "dim=3"]
    command = [*SWEEP, *grid, "--seeds", "5-6", "--out", tmp_path]
    status, out, err = invoke(capsys, *command)
    assert status == 1  # there is no size 0
    assert "8 of 8 runs" in err
    assert "Settings of toys:climb, 100 evaluations a run" in out
    assert "0 of 2" in out
    assert "size=0 failed with seeds 5, 6: size must be at least 1; got 0" in out
    found = json.loads((tmp_path / "sweep.json").read_text())
    assert f"best by qvs: {found['best']}" in out
    assert "of its grid; try" in out  # two values: the best is at an end
    preset = tomllib.loads((tmp_path / "preset.toml").read_text())
    assert preset["problem"] == {"name": "toys:make_bowl", "dim": 3}
    assert preset["algorithm"]["size"] == 10
    assert (tmp_path / "figures" / "sweep.png").exists()
    figure = ["figure", "tradeoff", tmp_path, "--out", tmp_path / "new" / "a.pdf"]
    status, out, _ = invoke(capsys, *figure)
    assert status == 0
    assert "a.pdf" in out
    assert (tmp_path / "new" / "a.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ([*SWEEP, "--grid", "sigma"], "--grid wants NAME=VALUE,VALUE,...; got 'sigma'"),
        ([*SWEEP, "--grid", "sigm=1"], "did you mean 'sigma'"),
        ([*SWEEP, "--grid", "sigma=1", "--metric", "qv"], "did you mean 'qvs'"),
        ([*SWEEP, "--grid", "sigma=1", "--seeds", "1,1"], "duplicates: [1]"),
        ([*SWEEP, "--grid", "sigma=1", "--iterations", "3"], "not both"),
        (["figure", "scater", "x"], "did you mean 'scatter'"),
        (["figure", "scatter"], "softqd figure scatter DIR --out FILE.pdf"),
        (
            ["figure", "scatter", "nowhere"],
            "there is no folder nowhere; give a run folder",
        ),
        (["figure", "curves", "nowhere"], "give the --out of 'softqd compare'"),
        (
            ["compare", "toys:make_bowl", "--algorithms", "dns", "--preset", "no.toml"],
            "preset no.toml cannot be used",
        ),
    ],
)
def test_bad_input_is_one_line(capsys, tmp_path, monkeypatch, command, message):
    monkeypatch.chdir(tmp_path)
    status, _, err = invoke(capsys, *command)
    assert status == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_the_kinds_of_figures_are_listed(capsys):
    status, out, _ = invoke(capsys, "figure", "list")
    assert status == 0
    for kind in ("scatter", "parallel", "value-map", "cells", "curves", "tradeoff"):
        assert kind in out
