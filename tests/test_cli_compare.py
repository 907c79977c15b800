import json
import tomllib

import softqd
from softqd import cli

OWN = ["toys:make_bowl", "--set", "dim=3"]
COMPARE = ["compare", *OWN, "--evaluations", "100", "--algorithms"]


def invoke(capsys, *arguments):
    status = cli.invoke([str(a) for a in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_compare_ends_with_a_table(capsys, tmp_path):
    settings = ["--set", "toys:climb.size=10", "--out", tmp_path]
    command = [*COMPARE, "toys:climb,dns", "--seeds", "5-6", *settings]
    status, out, err = invoke(capsys, *command)
    assert status == 1  # a first population of DNS is larger than the budget
    assert "4 of 4 runs" in err
    assert "Spent, of at most 100 evaluations a run" in out
    assert "soft qd score" in out
    assert "warning: dns failed with seeds 5, 6: evaluations=100 do not" in out
    found = json.loads((tmp_path / "comparison.json").read_text())
    assert found["schema"] == 1
    assert found["algorithms"]["toys:climb"]["seeds"] == [5, 6]
    assert found["algorithms"]["toys:climb"]["values"]["evaluations"] == [100, 100]
    assert (tmp_path / "comparison.csv").exists()


def test_bad_input_is_one_line(capsys, tmp_path):
    out = ["--out", tmp_path]
    for options, message in (
        (["squid"], "did you mean 'squad'"),
        (["toys:climb", "--seeds", "1,1"], "duplicates: [1]"),
        (["toys:climb", "--seeds", "many"], "a range such as 2001-2010"),
        (["toys:climb", "--jobs", "0"], "--jobs"),
    ):
        status, _, err = invoke(capsys, *COMPARE, *options, *out)
        assert status == 2
        assert message in err
        assert len(err.strip().splitlines()) == 1


def test_run_takes_an_own_problem_and_repeats_it(capsys, tmp_path):
    options = ["--algorithm", "toys:climb", "--iterations", "3"]
    command = ["run", *OWN, *options, "--out", tmp_path / "a"]
    assert invoke(capsys, *command)[0] == 0
    config = tomllib.loads((tmp_path / "a" / "config.toml").read_text())
    assert config["problem"] == {"name": "toys:make_bowl", "dim": 3}
    again = ["run", tmp_path / "a" / "config.toml", "--out", tmp_path / "b"]
    status, _, err = invoke(capsys, *again)
    assert (status, "add --trust" in err) == (2, True)
    assert not (tmp_path / "b").exists()
    assert invoke(capsys, *again, "--trust")[0] == 0
    first, second = (softqd.load(tmp_path / name).population for name in "ab")
    assert (first.solutions == second.solutions).all()
