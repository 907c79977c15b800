"""``--workers`` and ``--dask``: problems in plain Python on the command line."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from simulators import bowl

import softqd
from softqd import cli

DNS = ["--set", "population_size=8", "--set", "batch_size=8"]
RUN = ["run", "simulators:factory", "--algorithm", "dns", "--iterations", "3", *DNS]


def complaint(capsys, *arguments):
    assert cli.invoke(list(map(str, arguments))) == 2
    return capsys.readouterr().err


def test_it_runs_here_and_by_workers(tmp_path):
    for name, options in {"here": [], "there": ["--workers", "1"]}.items():
        assert cli.invoke([*RUN, "--out", str(tmp_path / name), *options]) == 0
    here, there = (softqd.load(tmp_path / name) for name in ("here", "there"))
    np.testing.assert_array_equal(here.population.solutions, there.population.solutions)
    metrics = json.loads((tmp_path / "there" / "metrics.json").read_text())
    assert metrics["evaluations"] == 32
    assert here.population.quality[0] == pytest.approx(
        bowl(here.population.solutions[0])[0], rel=1e-5
    )


@pytest.mark.slow
def test_it_is_compared_by_workers(tmp_path):
    """Gradient methods are left out, with what to use instead."""
    out = ["--out", str(tmp_path), "--evaluations", "40", "--seeds", "2"]
    settings = ["--set", "dns.population_size=8", "--set", "dns.batch_size=8"]
    options = ["--algorithms", "dns,dns_g", *settings, *out, "--workers", "1"]
    assert cli.invoke(["compare", "simulators:factory", *options]) == 1
    found = softqd.load_comparison(tmp_path)
    assert not found.algorithms["dns"].failures
    assert "use softqd.dns" in str(found.algorithms["dns_g"].failures)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (["--workers", "1", "--dask", "tcp://localhost:1"], "not both"),
        (["--workers", "0"], "--workers"),
    ],
)
def test_wrong_usage_is_said(options, match, capsys):
    assert match in complaint(capsys, *RUN, *options)


def test_workers_without_work_are_said(tmp_path, capsys):
    jax_run = ["run", "sphere", "--algorithm", "dns", "--iterations", 0, *DNS]
    error = complaint(capsys, *jax_run, "--out", tmp_path / "run", "--workers", 1)
    assert "are for problems that softqd.interop.host.problem makes" in error
    assert not (tmp_path / "run").exists()


def test_jobs_and_workers_are_one_or_the_other(capsys):
    compare = ["compare", "simulators:factory", "--algorithms", "dns"]
    assert "leave --jobs out" in complaint(
        capsys, *compare, "--jobs", 2, "--workers", 2
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["script", "run", "compare"])
def test_the_module_of_the_page_runs(kind, tmp_path):
    page = (Path(__file__).parents[1] / "docs" / "simulators.md").read_text()
    module = re.search(r'```python title="arm_run.py"\n(.*?)```', page, re.S)[1]
    (tmp_path / "arm_run.py").write_text(module)
    command = ["arm_run.py"]
    if kind != "script":
        line = re.search(rf"^softqd ({kind} .*)$", page, re.M)[1]
        command = ["-m", "softqd.cli", *line.split()]
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert kind != "script" or done.stdout.strip() == "64"
