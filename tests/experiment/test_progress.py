import pytest
from rich.console import Console
from toys import climb, make_bowl

import softqd
from softqd.experiment import progress
from softqd.experiment.progress import ExperimentBar, ProgressBar

LATEST = {"mean_quality": 1.0, "max_quality": 2.0, "rate": 3000.0}


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests set."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    return now


def lines_of(capsys):
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def test_a_line_every_ten_seconds_or_ten_percent(capsys, clock):
    with ProgressBar() as bar:
        for step in range(101):  # a percent in five seconds
            clock[0] = 5.0 * step
            bar.update(step / 100, step, LATEST)
    assert len(lines_of(capsys)) == 50
    with ProgressBar() as bar:
        for step in range(65):  # a 64th in half a second
            clock[0] = 1000 + 0.5 * step
            bar.update(step / 64, step, LATEST)
    told = lines_of(capsys)
    assert [int(line.split()[1][:-1]) for line in told] == [*range(7, 64, 7), 64]
    assert told[1] == "iteration 14, 22%, 25 s left: quality 1 best 2, 3,000 eval/s"
    assert told[-1] == "iteration 64, 100%: quality 1 best 2, 3,000 eval/s"


def test_a_short_run_is_one_line(capsys):
    softqd.run(climb(make_bowl()), num_iterations=30, progress=True)
    (line,) = lines_of(capsys)
    assert line.startswith("iteration 30, 100%: quality")


def test_an_experiment_and_an_announcement_are_told(capsys, clock):
    with ExperimentBar(num_runs=10, num_kept=4) as bar:
        bar.update(0.0, 0, "squad")
        clock[0] = 30.0
        bar.update(3.0, 2, "squad")
    assert lines_of(capsys) == ["6 of 10 runs, 50%, 30 s left: squad"]
    with ProgressBar() as bar:
        bar.announce(float("inf"))
        bar.announce(7500.0)
    with ProgressBar() as bar:
        bar.announce(7500.0)
        bar.announce(7500.0)
    assert lines_of(capsys) == ["this run will take about 2 h 5 min"]


def test_a_terminal_has_a_bar(capsys, monkeypatch):
    console = Console(stderr=True, force_terminal=True)
    monkeypatch.setattr(progress, "Console", lambda stderr: console)
    with ProgressBar() as bar:
        bar.update(0.5, 7, LATEST)
    assert "━" in capsys.readouterr().err
