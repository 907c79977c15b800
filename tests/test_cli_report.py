from saved_runs import save_run

from softqd import cli


def invoke(capsys, *arguments):
    status = cli.invoke([str(a) for a in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_report_says_where_it_is(capsys, tmp_path):
    folder = save_run(tmp_path / "run")
    status, out, _ = invoke(capsys, "report", folder)
    assert status == 0
    assert out == f"report     {tmp_path / 'run' / 'report.html'}\n"
    page = tmp_path / "deep" / "page.html"
    assert invoke(capsys, "report", folder, "--out", page)[0] == 0
    assert page.exists()


def test_names_are_shown_as_they_are(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_run(tmp_path / "x[/red]y")
    names = ["x[/red]y/report.html", "x[/red]y/population.npz", "p[bold]q.npz"]
    select = ["select", names[1], "--size", 2, "--out", names[2]]
    figure = ["figure", "quality", "x[/red]y", "--out", "x[/red]y/a.png"]
    for command, name in (
        (["report", "x[/red]y"], names[0]),
        (["evaluate", names[1]], names[1]),
        (select, names[2]),
        (["evaluate", names[2], "--bounds", "0,1"], names[2]),
        (figure, "x[/red]y/a.png"),
    ):
        status, out, _ = invoke(capsys, *command)
        assert status == 0
        assert name in out


def test_bad_input_is_one_line(capsys, tmp_path):
    folder = save_run(tmp_path / "run")
    other = save_run(tmp_path / "other", problem={"name": "arm"})
    for arguments, message in (
        ([], "DIR"),
        ([tmp_path], "is not a run folder"),
        ([folder, other], "runs of different problems"),
        ([folder, "--pictures", "-1"], "--pictures"),
        ([folder, "--out", tmp_path], "--out"),
    ):
        status, _, err = invoke(capsys, "report", *arguments)
        assert status == 2
        assert message in err
        assert len(err.strip().splitlines()) == 1


def test_comparison_folder(capsys, tmp_path):
    command = ["compare", "toys:make_bowl", "--algorithms", "toys:climb"]
    options = ["--evaluations", "100", "--seeds", "2", "--out", tmp_path]
    status, out, _ = invoke(capsys, *command, *options)
    assert status == 0
    assert f"report     {tmp_path / 'report.html'}" in out
    (tmp_path / "report.html").unlink()
    (tmp_path / "toys.climb" / "seed_1" / "population.npz").unlink()
    assert invoke(capsys, "report", tmp_path)[0] == 0
    assert "is not there" in (tmp_path / "report.html").read_text("utf-8")


def test_live_without_a_terminal_is_the_bar(capsys, tmp_path):
    command = ["run", "toys:make_bowl", "--algorithm", "toys:climb", "--live"]
    status, out, err = invoke(
        capsys, *command, "--iterations", "3", "--out", tmp_path / "run"
    )
    assert status == 0
    assert "iteration 3" in err
    assert str(tmp_path / "run" / "report.html") in out
