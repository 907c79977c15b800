import json
import os
import signal
import subprocess
import sys
import time
import tomllib

import numpy as np
import pytest

import softqd
from softqd import cli

SMALL = [
    "--set",
    "population_size=32",
    "--set",
    "batch_size=8",
    "--set",
    "solution_dim=16",
]
SMALL_RUN = ["run", "lp-easy", *SMALL, "--iterations", "12"]


def invoke(capsys, *arguments):
    status = cli.invoke([str(a) for a in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def complaint(capsys, *arguments):
    """The one line of an error; everything else must be quiet."""
    status, _, err = invoke(capsys, *arguments)
    lines = [line for line in err.splitlines() if line.startswith("softqd:")]
    assert status == 2
    assert len(lines) == 1
    assert "Traceback" not in err
    return lines[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "run"
    assert cli.invoke([*SMALL_RUN, "--seed", "3", "--out", str(path)]) == 0
    return path


def test_run_folder(folder):
    names = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert names == {
        "config.toml",
        "metrics.json",
        "history.csv",
        "population.npz",
        "result.json",
        "checkpoint/state.npz",
        "figures/behavior.png",
        "figures/quality.png",
        "figures/history.png",
        "figures/value_map.png",
    }
    metrics = json.loads((folder / "metrics.json").read_text())
    result = softqd.load(folder)
    assert metrics["evaluations"] == 32 * 25
    assert metrics["gradient_evaluations"] == 32 * 12
    np.testing.assert_allclose(
        metrics["mean_quality"], result.population.quality.mean(), rtol=1e-6
    )
    assert metrics["soft_qd_score"] > 0
    assert metrics["settings"]["sigma"] == softqd.metrics.default_sigma(4)
    assert {
        "max_quality",
        "vendi_score",
        "qvs",
        "qd_score",
        "coverage",
        "seconds",
    } <= set(metrics)
    with np.load(folder / "population.npz", allow_pickle=False) as file:
        assert file["solutions"].shape == (32, 16)


def test_two_dimensional_runs_have_a_map(capsys, tmp_path):
    settings = ["--set", "population_size=16", "--set", "batch_size=8"]
    status, out, _ = invoke(
        capsys, "run", "arm", *settings, "--iterations", "2", "--out", tmp_path / "a"
    )
    assert status == 0
    assert (tmp_path / "a" / "figures" / "value_map.png").exists()
    assert "mean_quality" in out
    assert "run folder" in out


def test_rerun_from_config_gives_the_same_population(capsys, folder, tmp_path):
    status, _, _ = invoke(
        capsys, "run", folder / "config.toml", "--out", tmp_path / "again"
    )
    assert status == 0
    a, b = softqd.load(folder), softqd.load(tmp_path / "again")
    np.testing.assert_array_equal(a.population.solutions, b.population.solutions)
    assert a.config == b.config


def test_resume_extends_and_equals_a_longer_run(capsys, tmp_path):
    short = ["run", "lp-easy", *SMALL, "--out", tmp_path / "short"]
    assert invoke(capsys, *short, "--iterations", "5")[0] == 0
    assert invoke(capsys, *short, "--iterations", "12", "--resume")[0] == 0
    assert invoke(capsys, *SMALL_RUN, "--out", tmp_path / "long")[0] == 0
    a, b = softqd.load(tmp_path / "short"), softqd.load(tmp_path / "long")
    np.testing.assert_array_equal(a.population.solutions, b.population.solutions)


def test_warm_start_from_a_population_file(capsys, folder, tmp_path):
    arguments = [
        *SMALL_RUN[:-2],
        "--iterations",
        "0",
        "--init",
        folder / "population.npz",
    ]
    assert invoke(capsys, *arguments, "--out", tmp_path / "warm")[0] == 0
    a, b = softqd.load(folder), softqd.load(tmp_path / "warm")
    np.testing.assert_array_equal(a.population.solutions, b.population.solutions)


def test_limits_by_evaluations(capsys, tmp_path):
    arguments = [
        "run",
        "lp-easy",
        *SMALL,
        "--evaluations",
        "200",
        "--out",
        tmp_path / "a",
    ]
    assert invoke(capsys, *arguments)[0] == 0
    assert softqd.load(tmp_path / "a").history["evaluations"][-1] == 32 + 2 * 64
    config = tomllib.loads((tmp_path / "a" / "config.toml").read_text())
    assert "iterations" not in config["run"]


def test_list_names_everything(capsys):
    status, out, _ = invoke(capsys, "list")
    assert status == 0
    for name in ("lp-easy", "lp-hard", "sphere", "arm", "squad", "protect_quality"):
        assert name in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "lp-esy"], "unknown problem 'lp-esy'; did you mean 'lp-easy'"),
        (["run", "lp-easy", "--algorithm", "sqad"], "did you mean 'squad'"),
        (["run", "lp-easy", "--set", "gama=1"], "unknown setting 'gama'"),
        (["run", "lp-easy", "--iterations", "many"], "'--iterations'"),
        (["run", "lp-easy", "--seeed", "1"], "No such option"),
        (["run"], "Missing argument"),
        (["rnu"], "No such command"),
        (["run", "nothing.toml"], "there is no configuration nothing.toml"),
        (["run", "x.toml", "--algorithm", "squad"], "leave --algorithm out"),
        (["run", "lp-easy", "--init", "nothing.npz"], "init:"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(
    capsys, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    assert message in complaint(capsys, *arguments)
    assert not (tmp_path / "runs").exists()


def test_existing_folder_needs_resume(capsys, folder):
    line = complaint(capsys, *SMALL_RUN, "--seed", "3", "--out", folder)
    assert "already holds a run; add --resume" in line


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--set", "gamma_sq=9"], "algorithm gamma_sq=0.1, this one has 9.0"),
        (["--seed", "4"], "run seed=3, this one has 4"),
    ],
)
def test_resume_under_other_settings_changes_nothing(capsys, folder, change, message):
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    base = [*SMALL_RUN, "--seed", "3", "--out", folder, "--resume"]
    assert message in complaint(capsys, *base, *change)
    assert before == {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_refused_start_does_not_block_the_folder(capsys, folder, tmp_path):
    out = ["--out", tmp_path / "a"]
    wrong = [
        "run",
        "lp-easy",
        *SMALL,
        "--set",
        "population_size=16",
        "--iterations",
        "1",
    ]
    line = complaint(capsys, *wrong, "--init", folder / "population.npz", *out)
    assert "but population_size is 16" in line
    assert invoke(capsys, *wrong, *out)[0] == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_unwritable_folder(capsys, tmp_path):
    tmp_path.chmod(0o500)
    assert "cannot write to" in complaint(capsys, *SMALL_RUN, "--out", tmp_path / "a")


def test_folder_that_is_a_file(capsys, tmp_path):
    (tmp_path / "a").write_text("")
    assert "cannot write to" in complaint(capsys, *SMALL_RUN, "--out", tmp_path / "a")


def test_failed_run_has_status_1(capsys, tmp_path):
    arguments = [*SMALL_RUN, "--set", "optimizer=sgd(1e30)", "--out", tmp_path / "a"]
    status, _, err = invoke(capsys, *arguments)
    assert status == 1
    assert "is not finite" in err


def test_interrupt_keeps_the_checkpoint_and_says_how_to_go_on(tmp_path):
    command = [sys.executable, "-m", "softqd.cli", "run", "lp-easy", *SMALL]
    command += ["--iterations", "1000000", "--out", str(tmp_path / "a")]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "a" / "config.toml").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "continue with the same command and --resume" in err
    assert (tmp_path / "a" / "checkpoint" / "state.npz").exists()


def test_bare_command_shows_help(capsys):
    status, out, err = invoke(capsys)
    assert status == 2
    assert "Usage" in out + err
    assert "softqd: ;" not in err


def test_evaluate_equals_the_metrics_of_the_run(capsys, folder, tmp_path):
    path = tmp_path / "m.json"
    status, out, _ = invoke(
        capsys, "evaluate", folder / "population.npz", "--json", path
    )
    assert status == 0
    found = json.loads(path.read_text())
    expected = json.loads((folder / "metrics.json").read_text())
    for name in softqd.metrics.METRICS:
        assert found[name] == expected[name]
    for word in ("soft_qd_score", "sigma", "cells 512", "linear_projection", "seed 0"):
        assert word in out


def test_evaluate_needs_bounds_where_nothing_says_them(capsys, tmp_path):
    np.savez(tmp_path / "p.npz", quality=np.ones(3), behavior=np.full((3, 2), 5.0))
    line = complaint(capsys, "evaluate", tmp_path / "p.npz")
    assert "behaviors span 5 to 5" in line
    assert "give --bounds LOW,HIGH" in line
    assert invoke(capsys, "evaluate", tmp_path / "p.npz", "--bounds", "0,10")[0] == 0
    assert "wants LOW,HIGH" in complaint(
        capsys, "evaluate", tmp_path / "p.npz", "--bounds", "3"
    )
    assert "LOW below HIGH" in complaint(
        capsys, "evaluate", tmp_path / "p.npz", "--bounds", "3,1"
    )


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"quality": np.ones(0), "behavior": np.ones((0, 2))}, "holds no solutions"),
        ({"quality": np.array([1, np.nan]), "behavior": np.ones((2, 2))}, "row 1"),
        (
            {"quality": np.ones(2), "behavior": np.ones((3, 2))},
            "quality must have shape",
        ),
        ({"fitness": np.ones(2)}, "has no array 'quality'; it holds fitness"),
    ],
)
def test_evaluate_bad_files(capsys, tmp_path, arrays, message):
    np.savez(tmp_path / "p.npz", **arrays)
    assert message in complaint(capsys, "evaluate", tmp_path / "p.npz")


def test_evaluate_missing_file(capsys, tmp_path):
    assert "nothing.npz" in complaint(capsys, "evaluate", tmp_path / "nothing.npz")


def test_select_writes_the_members_that_matter(capsys, tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"quality": rng.random(50), "behavior": rng.random((50, 2))}
    np.savez(tmp_path / "p.npz", solutions=np.arange(50.0)[:, None], **arrays)
    out = tmp_path / "small.npz"
    status, text, _ = invoke(
        capsys, "select", tmp_path / "p.npz", "--size", "5", "--out", out
    )
    assert status == 0
    small = softqd.load_population(out)
    chosen, share = softqd.select(
        arrays["quality"], arrays["behavior"], 5, return_share=True
    )
    assert small.solutions[:, 0].astype(int).tolist() == chosen.tolist()
    assert f"{share:.1%} of the Soft QD Score" in text
    line = complaint(capsys, "select", tmp_path / "p.npz", "--size", "51", "--out", out)
    assert "size must be a whole number between 1 and 50; got 51" in line
