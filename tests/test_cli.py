import json
import os
import pickle
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

import softqd
from softqd import cli
from softqd.experiment import progress

TINY_FACES = Path(__file__).parent / "fixtures" / "faces"
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
        "figures/bandwidth.png",
        "figures/behavior.png",
        "figures/quality.png",
        "figures/history.png",
        "figures/value_map.png",
        "report.html",
    }
    metrics = json.loads((folder / "metrics.json").read_text())
    result = softqd.load(folder)
    assert metrics["evaluations"] == 32 * 5 + 12 * (32 + 4)
    assert metrics["gradient_evaluations"] == 32 + 32 * 12
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
    """Of a method without a schedule that follows the length of a run."""
    plain = ["--algorithm", "squad_published"]
    short = ["run", "lp-easy", *SMALL, *plain, "--out", tmp_path / "short"]
    assert invoke(capsys, *short, "--iterations", "5")[0] == 0
    assert invoke(capsys, *short, "--iterations", "12", "--resume")[0] == 0
    assert invoke(capsys, *SMALL_RUN, *plain, "--out", tmp_path / "long")[0] == 0
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
    assert softqd.load(tmp_path / "a").history["evaluations"][-1] == 32 * 5 + 36
    config = tomllib.loads((tmp_path / "a" / "config.toml").read_text())
    assert "iterations" not in config["run"]


def test_list_names_everything(capsys):
    status, out, _ = invoke(capsys, "list")
    assert status == 0
    for name in ("lp-easy", "lp-hard", "sphere", "arm", "squad", "protect_quality"):
        assert name in out
    for need in ("prompt=..., pairs=...", "weights: faces", "clip-vit-b32"):
        assert need in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "lp-esy"], "unknown problem 'lp-esy'; did you mean 'lp-easy'"),
        (["run", "lp-easy", "--algorithm", "sqad"], "did you mean 'squad'"),
        (["run", "lp-easy", "--set", "gama=1"], "unknown setting 'gama'"),
        (["run", "lp-easy", "--set", "solution_dim=0"], "at least 1; got 0"),
        (["run", "arm", "--set", f"population_size={10**12}"], "and 1000000000; got"),
        (["run", "arm", "--set", "optimizer=chain(1)"], "'chain(1)' cannot be read"),
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


def test_sizes_that_overflow_are_bad_input(capsys, tmp_path, monkeypatch):
    """As a product of two settings may, while a run begins."""

    def overflow(*args, **kwargs):
        np.int32(2**40)

    monkeypatch.setattr("softqd.experiment.folder.run", overflow)
    line = complaint(capsys, *SMALL_RUN, "--out", tmp_path / "large")
    assert "a number is too large" in line
    assert "give smaller settings" in line


def test_existing_folder_needs_resume(capsys, folder):
    line = complaint(capsys, *SMALL_RUN, "--seed", "3", "--out", folder)
    assert "already holds a run; add --resume" in line


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--set", "gamma_sq=9"], "algorithm gamma_sq='none', this one has 9.0"),
        (["--seed", "4"], "seeds=[3], this one has [4]"),
    ],
)
def test_resume_under_other_settings_changes_nothing(capsys, folder, change, message):
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    base = [*SMALL_RUN, "--seed", "3", "--out", folder, "--resume"]
    assert message in complaint(capsys, *base, *change)
    assert before == {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_refused_start_does_not_block_the_folder(capsys, folder, tmp_path):
    out = ["--out", tmp_path / "a"]
    other = [*SMALL_RUN[:2], *SMALL[:4], "--set", "solution_dim=8"]
    other += ["--iterations", "1"]
    line = complaint(capsys, *other, "--init", folder / "population.npz", *out)
    assert "have shape (32, 16), expected (n, 8)" in line
    assert invoke(capsys, *other, *out)[0] == 0


def test_unwritable_folder(capsys, tmp_path):
    out = tmp_path / "a"
    if os.geteuid() == 0:  # root may write anywhere but among the processes
        out = Path("/proc/softqd")
    tmp_path.chmod(0o500)
    assert "cannot write to" in complaint(capsys, *SMALL_RUN, "--out", out)


def test_folder_that_is_a_file(capsys, tmp_path):
    (tmp_path / "a").write_text("")
    assert "cannot write to" in complaint(capsys, *SMALL_RUN, "--out", tmp_path / "a")


def test_failed_run_has_status_1(capsys, tmp_path):
    arguments = [*SMALL_RUN, "--set", "optimizer=sgd(1e30)", "--out", tmp_path / "a"]
    status, _, err = invoke(capsys, *arguments)
    assert status == 1
    assert "is not finite" in err


def interrupt_run(folder, awaited, how=signal.SIGINT):
    """Start a run and send a signal once the awaited file is there."""
    command = [sys.executable, "-m", "softqd.cli", "run", "lp-easy", *SMALL]
    command += ["--iterations", "1000000", "--out", str(folder)]
    log = folder.parent / "stderr.txt"
    with open(log, "w") as err:
        process = subprocess.Popen(command, stderr=err, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while not awaited.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(how)
        try:
            process.wait(timeout=120)
        finally:
            process.kill()  # nothing of it is left behind, whatever happened
    assert process.returncode == 128 + how
    word = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}[how]
    line = f"softqd: {word}; continue with the same command and --resume"
    assert log.read_text().splitlines()[-1] == line
    assert "Traceback" not in log.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_keeps_the_checkpoint_and_says_how_to_go_on(tmp_path, how):
    folder = tmp_path / "a"
    state = folder / "checkpoint" / "state.npz"
    interrupt_run(folder, state, how)
    assert state.exists()


def test_interrupt_while_compiling(tmp_path):
    folder = tmp_path / "a"
    interrupt_run(folder, awaited=folder / "config.toml")


def test_version_is_one_line(capsys):
    assert invoke(capsys, "--version") == (0, f"softqd {softqd.__version__}\n", "")


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


def write_bad_file(folder, kind):
    """A file that is bad in one way, and what the complaint about it says."""
    quality, behavior = np.ones(50), np.full((50, 2), 0.5)
    path = folder / "p.npz"
    np.savez(path, quality=quality, behavior=behavior)
    if kind == "truncated":
        path.write_bytes(path.read_bytes()[:700])
        return path, "is not a readable"
    if kind == "empty":
        path.write_bytes(b"")
        return path, "is empty"
    if kind == "mismatched":
        np.savez(path, quality=quality, behavior=behavior[1:])
        return path, "got (50,) and (49, 2)"
    if kind == "non-finite":
        np.savez(path, quality=quality, behavior=np.log(behavior - 0.5))
        return path, "behavior must be finite; row 0 is [-inf -inf]"
    if kind == "pickle":
        (folder / "p.pkl").write_bytes(pickle.dumps((quality, behavior)))
        return folder / "p.pkl", "where it was made, in pyribs: archive.data("
    path, text = folder / "p.csv", "fitness,measures_0,measures_1\n"
    if kind == "empty csv":
        text, message = "", "is empty"
    elif kind == "truncated csv":
        text, message = f"{text}1,0.5,0.5\n2,0.", "line 3 has 2 cells"
    elif kind == "mismatched csv":
        text, message = f"{text}1,0.5,0.5,9\n", "line 2 has 4 cells"
    else:
        text, message = f"{text}1,nan,0.5\n", "behavior must be finite; line 2 is [nan"
    path.write_text(text)
    return path, message


@pytest.mark.parametrize("command", ["evaluate", "select"])
@pytest.mark.parametrize(
    "kind",
    [
        "truncated",
        "empty",
        "mismatched",
        "non-finite",
        "pickle",
        "truncated csv",
        "empty csv",
        "mismatched csv",
        "non-finite csv",
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_bad_files_are_one_line_and_status_2(capsys, tmp_path, command, kind):
    path, message = write_bad_file(tmp_path, kind)
    options = ["--size", "2", "--out", tmp_path / "o"] if command == "select" else []
    line = complaint(capsys, command, path, *options)
    assert str(path) in line
    assert message in line
    assert not (tmp_path / "o").exists()


def write_archive(path):
    """Four solutions of another tool, one of them in the way of a better one."""
    lines = ["gain,left,right,solution_0", "1,0,-5,10", "2,1,5,11", "0,0.5,0,12"]
    path.write_text("\n".join([*lines, "3,0.5,0.01,13"]) + "\n")
    return path


ARCHIVE_OPTIONS = ["--quality", "gain", "--behavior", "left, right"]
ARCHIVE_OPTIONS += ["--bounds", "0:1,-5:5"]


def test_evaluate_a_csv_says_what_it_read_and_uses_each_bound(capsys, tmp_path):
    path, out = write_archive(tmp_path / "a.csv"), tmp_path / "m.json"
    status, text, _ = invoke(
        capsys, "evaluate", path, *ARCHIVE_OPTIONS, "--json", out, "--cells", 4
    )
    assert status == 0
    source = "CSV: quality from 'gain', behavior from 'left', 'right', solutions from "
    source += "'solution_0'"
    assert f"read {source}\n" in text
    metrics = json.loads(out.read_text())
    assert metrics["settings"]["source"] == source
    assert metrics["settings"]["bounds"] == "[0, 1] x [-5, 5] as given"
    assert metrics["mean_quality"] == 1.5
    unit = np.array([[0, 0], [1, 1], [0.5, 0.5], [0.5, 0.501]])
    np.testing.assert_allclose(
        metrics["vendi_score"], softqd.metrics.vendi_score(unit), rtol=1e-6
    )


def test_evaluate_wants_a_bound_for_each_behavior(capsys, tmp_path):
    command = ["evaluate", write_archive(tmp_path / "a.csv"), *ARCHIVE_OPTIONS[:4]]
    assert "outside" not in invoke(capsys, *command, "--bounds", "-9,9")[1]
    out = invoke(capsys, *command, "--bounds", "0:1,-1:1")[1]
    assert "[0, 1] x [-1, 1] as given, 2 of 4 outside put on the border" in out
    for bounds, message in (
        ("0:1", "--bounds wants 2 pairs LOW:HIGH; got '0:1'"),
        ("0:1,5", "--bounds wants LOW,HIGH or a LOW:HIGH for each behavior"),
        ("0:1,5:5", "--bounds wants LOW below HIGH"),
    ):
        assert message in complaint(capsys, *command, "--bounds", bounds)


def test_evaluate_asks_for_names_it_cannot_guess(capsys, tmp_path):
    path = write_archive(tmp_path / "a.csv")
    line = complaint(capsys, "evaluate", path)
    assert "the columns gain, left, right, solution_0" in line
    assert "say which with --quality NAME" in line
    line = complaint(capsys, "evaluate", path, "--quality", "gian")
    assert "did you mean 'gain'?" in line


def test_select_from_a_csv(capsys, tmp_path):
    path, out = write_archive(tmp_path / "a.csv"), tmp_path / "small.npz"
    status, text, _ = invoke(
        capsys, "select", path, *ARCHIVE_OPTIONS, "--size", 3, "--out", out
    )
    assert status == 0
    assert "read CSV: quality from 'gain'" in text
    small = softqd.load_population(out)
    assert small.quality.tolist() == [3, 2, 1]
    assert small.behavior.tolist() == [[0.5, 0.01], [1, 5], [0, -5]]
    assert small.solutions.tolist() == [[13], [11], [10]]


def test_warm_start_from_a_csv(capsys, folder, tmp_path):
    population = softqd.load(folder).population
    population.to_pandas().to_csv(tmp_path / "p.csv")
    arguments = [*SMALL_RUN[:-2], "--iterations", 0, "--init", tmp_path / "p.csv"]
    assert invoke(capsys, *arguments, "--out", tmp_path / "warm")[0] == 0
    warm = softqd.load(tmp_path / "warm").population
    np.testing.assert_array_equal(warm.solutions, population.solutions)


def test_evaluate_missing_file(capsys, tmp_path):
    path = tmp_path / "nothing.npz"
    assert f"there is no file {path}" in complaint(capsys, "evaluate", path)


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
    table = tmp_path / "small.csv"
    arguments = ["select", tmp_path / "p.npz", "--size", "5", "--out"]
    assert invoke(capsys, *arguments, table)[0] == 0
    np.testing.assert_array_equal(
        softqd.load_population(table).behavior, small.behavior
    )
    line = complaint(capsys, *arguments, tmp_path / "small")
    assert "--out wants a .npz or .csv" in line


def test_the_paper_run_is_refused_without_the_painting(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("SOFTQD_CACHE", str(tmp_path / "cache"))
    line = complaint(capsys, "run", "ic", "--out", tmp_path / "a")
    assert "run this again with a network, or download https://" in line
    assert "--set target=PATH" in line
    assert not (tmp_path / "a").exists()


def test_a_run_on_faces_is_refused_without_the_networks(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("SOFTQD_CACHE", str(tmp_path / "cache"))
    line = complaint(capsys, "run", "lsi-faces", "--out", tmp_path / "a")
    assert "run 'softqd weights fetch faces' once, or give --set weights=FOLDER" in line
    assert not (tmp_path / "a").exists()


@pytest.mark.networks
def test_a_run_on_faces_has_a_gallery(capsys, tmp_path):
    settings = [f"weights={TINY_FACES}", "population_size=6", "batch_size=3"]
    arguments = [part for text in settings for part in ("--set", text)]
    arguments += ["--iterations", "2", "--out", tmp_path / "a"]
    status, _, _ = invoke(capsys, "run", "lsi-faces", *arguments)
    assert status == 0
    assert (tmp_path / "a" / "figures" / "gallery.png").exists()


def test_image_runs_have_a_gallery_and_say_how_long_they_take(
    capsys, monkeypatch, tmp_path
):
    monkeypatch.setattr(progress, "_LONG", 0.0)
    settings = ["num_circles=8", "size=12", "population_size=6", "batch_size=3"]
    arguments = [part for text in settings for part in ("--set", text)]
    status, _, err = invoke(
        capsys,
        "run",
        "ic-small",
        *arguments,
        "--iterations",
        "12",  # more than two chunks: the second says how long the rest will take
        "--out",
        tmp_path / "a",
    )
    assert status == 0
    assert "this run will take about" in err
    assert (tmp_path / "a" / "figures" / "gallery.png").exists()
    metrics = json.loads((tmp_path / "a" / "metrics.json").read_text())
    assert metrics["settings"]["cells"] == 1024
