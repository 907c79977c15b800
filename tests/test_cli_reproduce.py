import json
import shutil
from pathlib import Path

import pytest

from softqd import cli
from softqd.paper import run
from softqd.paper.cases import Case
from softqd.paper.catalog import REPRODUCTIONS, Reproduction

RESULTS = Path(__file__).parents[1] / "results"


def invoke(capsys, *arguments):
    status = cli.invoke([str(a) for a in ("reproduce", *arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_list_shows_every_name(capsys):
    status, out, _ = invoke(capsys, "--list")
    assert status == 0
    for name in REPRODUCTIONS:
        assert f" {name} " in out


def test_records_give_table_claims_and_figures_without_runs(capsys, tmp_path):
    status, out, _ = invoke(capsys, "ic", "--from", RESULTS, "--out", tmp_path)
    assert status == 0
    assert "42 of 42 cells are within three combined standard errors" in out
    assert "holds: SQUAD passes the final value of every baseline within 200" in out
    assert "Fewer seeds" not in out
    names = sorted(path.name for path in tmp_path.glob("**/*.*"))
    assert names == ["ic.md", "ic.pdf", "ic.png"]
    assert (tmp_path / "ic.md").read_text().startswith("# Image Composition\n")


def test_fewer_seeds_than_the_papers_are_named(capsys, tmp_path):
    entry = json.loads((RESULTS / "ic_dns_published.json").read_text())
    for part in ("metrics", "history"):
        entry[part] = {name: values[:3] for name, values in entry[part].items()}
    records = tmp_path / "records"
    records.mkdir()
    shutil.copy(RESULTS / "ic_ga_me_published.json", records)
    (records / "ic_dns_published.json").write_text(
        json.dumps({**entry, "seeds": entry["seeds"][:3]})
    )
    status, out, _ = invoke(capsys, "ic", "--from", records, "--out", tmp_path / "out")
    assert status == 0
    assert "Fewer seeds than the paper's: DNS on ic (3 of 10)" in out


def test_without_matplotlib_there_is_a_table(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "softqd.paper.figure_files", None)
    status, out, _ = invoke(capsys, "lp-seeds", "--from", RESULTS, "--out", tmp_path)
    assert status == 0
    assert "softqd reproduce lp-seeds --from" in out
    assert [path.name for path in tmp_path.iterdir()] == ["lp-seeds.md"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "softqd reproduce --list"),
        (["ablation"], "run 'softqd reproduce --list'"),
        (["popluation-size"], "did you mean 'population-size'?"),
        (["lsi"], "softqd weights fetch"),
        (["lsi", "--quick"], "softqd weights fetch"),
        (["ic", "--set", "size=8"], "only target, generator, scorer"),
        (["lp", "--seeds", "3,3"], "duplicates"),
        (
            ["lp", "--seeds", "0"],
            "seeds must be a whole number between 1 and 1000000; got 0",
        ),
        (["lp", "--from", "nowhere"], "holds no record of 'lp'"),
    ],
)
def test_bad_input_is_one_line(capsys, tmp_path, arguments, message):
    status, _, err = invoke(capsys, *arguments, "--out", tmp_path)
    assert status == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_quick_run_is_labeled_and_interrupted_runs_say_how_to_go_on(
    capsys, tmp_path, monkeypatch
):
    bowl, climb = "toys:make_bowl", "toys:climb"
    cases = (Case("small", bowl, climb, "size=8", ("size=8",)),)
    spec = Reproduction("Sizes", "For tests.", cases, ("qvs",), figure="ablation")
    monkeypatch.setitem(REPRODUCTIONS, "sizes", spec)
    monkeypatch.setitem(run._QUICK_PROBLEM, bowl, ())
    monkeypatch.setitem(run._QUICK_ALGORITHM, climb, ())
    command = ["sizes", "--quick", "--seeds", "2", "--out", tmp_path]
    status, out, _ = invoke(capsys, *command)
    assert status == 0
    assert "Sizes (quick)" in out
    assert "cannot be compared" in out
    names = [p.name for p in tmp_path.glob("*.md")]
    names += [p.name for p in tmp_path.glob("figures/*")]
    names += [p.name for p in tmp_path.glob("records/*")]
    assert len(names) == 4
    assert all("quick" in name for name in names)

    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "run_all", interrupt)
    shutil.rmtree(tmp_path / "records")
    status, _, err = invoke(capsys, *command)
    assert status == 130
    assert "continue with the same command" in err
