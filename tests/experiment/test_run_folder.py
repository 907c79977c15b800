"""Run folders are data: read without running anything, whole, and from Python too."""

import dataclasses
import errno
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from damage import damaged
from toys import climb, make_bowl

import softqd
from softqd import cli
from softqd.experiment import checkpoint
from softqd.experiment import config as configs
from softqd.experiment.files import lock
from softqd.experiment.files.lock import LOCK_FILE, InUseError, locked
from softqd.experiment.files.schema import FileError
from softqd.experiment.files.whole import write_whole
from softqd.experiment.loop import Ledger
from softqd.experiment.many.experiment_folder import ExperimentFolder
from softqd.experiment.result import load, plain_settings
from softqd.experiment.run_folder import write_population
from softqd.page.run_data import run_data

OLD = Path(__file__).parents[1] / "fixtures" / "run_format_1"


def pictured(**settings):
    names, target = ("left", "right (m)"), np.ones((4, 4, 3)) / 2
    render = lambda x: jnp.ones((4, 4, 3)) * jax.nn.sigmoid(x[0])  # noqa: E731
    parts = {"behavior_names": names, "target": target, "render": render}
    return make_bowl(behavior_bounds=(0.0, 2.0), **(parts | settings))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run made in Python, its folder, and a comparison."""
    place = tmp_path_factory.mktemp("made")
    result = softqd.run(
        climb(pictured(), size=16),
        num_iterations=6,
        log_every=2,
        checkpoint_dir=place / "run" / "checkpoint",
    )
    result.save(place / "run")
    options = {"evaluations": 60, "settings": ["toys:climb.size=8"]}
    softqd.compare("toys:make_bowl", ["toys:climb"], 2, out=place / "all", **options)
    return result, place


@pytest.fixture
def folder(made, tmp_path):
    """A copy of the run folder, to be changed."""
    return shutil.copytree(made[1] / "run", tmp_path / "run")


def invoke(capsys, *arguments):
    status = cli.invoke([str(a) for a in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


# --- nothing executes ---------------------------------------------------------------

EVIL = """
[problem]
name = "os:system"
command = "touch pwned"
[algorithm]
name = "evil:algorithm"
"""


def test_reading_runs_nothing_that_a_file_names(capsys, folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    (folder.parent / "evil.py").write_text("raise SystemExit('imported')")
    (folder / "config.toml").write_text(EVIL)
    population = folder / "population.npz"
    for command in (
        ["report", folder],
        ["evaluate", population],
        ["figure", "scatter", folder, "--out", "a.png"],
        ["figure", "gallery", folder, "--out", "b.png"],
        ["select", population, "--size", 3, "--out", "small.npz"],
    ):
        assert invoke(capsys, *command)[0] == 0
    assert softqd.load(folder).problem.name == "bowl"
    for config in (folder / "config.toml",):
        status, _, err = invoke(capsys, "run", config, "--out", "again")
        assert status == 2
        assert "names 'os:system', a module whose code would run; add --trust" in err
    assert not (folder.parent / "pwned").exists()
    assert not (folder.parent / "again").exists()


@pytest.mark.parametrize("preset", ["/x", "../x", ".x", "a\\b"])
def test_names_are_no_paths(capsys, tmp_path, monkeypatch, preset):
    monkeypatch.chdir(tmp_path)
    tables = '[problem]\nname="arm"\n[algorithm]\nname="squad"\n[run]\niterations=0\n'
    (tmp_path / "c.toml").write_text(f"{tables}preset={json.dumps(preset)}\n")
    status, _, err = invoke(capsys, "run", "c.toml")
    assert status == 2
    assert "run.preset must be a name, which is no path" in err
    assert [path.name for path in tmp_path.iterdir()] == ["c.toml"]
    with pytest.raises(ValueError, match="not the name of a module"):
        configs.from_name("../x:y")


def test_declared_sizes_are_looked_at_first(tmp_path, monkeypatch):
    path = tmp_path / "p.npz"
    zeros = np.zeros((50_000, 20))  # 8 MB that take 8 kB on disk
    np.savez_compressed(path, quality=zeros[:, 0], behavior=zeros)
    monkeypatch.setenv("SOFTQD_MAX_BYTES", "1000000")
    with pytest.raises(FileError, match=r"takes 84\d+ bytes .* SOFTQD_MAX_BYTES=84"):
        softqd.load_population(path)
    np.savez(path, quality=zeros[:, 0], behavior=zeros)  # as large as it says
    assert len(softqd.load_population(path)) == 50_000


def test_a_pipe_is_not_waited_for(folder):
    (folder / "config.toml").unlink()
    os.mkfifo(folder / "config.toml")
    with pytest.raises(FileError, match="is not a file"):
        softqd.load(folder)


# --- whole at any moment ------------------------------------------------------------


def test_a_folder_in_use_is_refused(capsys, folder, tmp_path):
    out = ["--out", folder]
    with locked(folder):
        for arguments in (
            ["run", "toys:make_bowl", "--algorithm", "toys:climb", "--resume", *out],
            ["compare", "toys:make_bowl", "--algorithms", "toys:climb", *out],
            ["sweep", "toys:make_bowl", "--grid", "overlap=0.1", *out],
        ):
            status, _, err = invoke(capsys, *arguments)
            assert status == 2
            assert f"{folder} is in use by process {os.getpid()}" in err
            assert len(err.strip().splitlines()) == 1
        with pytest.raises(InUseError, match="is in use"):
            softqd.load(folder).save(folder)
    softqd.load(folder).save(folder)
    assert not (folder / LOCK_FILE).exists()


def write_lock(folder, **changes):
    with locked(folder):
        owner = json.loads((folder / LOCK_FILE).read_text())
    (folder / LOCK_FILE).write_text(json.dumps(owner | changes))
    return folder / LOCK_FILE


def is_free(folder):
    try:
        with locked(folder):
            return True
    except InUseError:
        return False


def test_a_lock_of_a_process_that_is_gone_is_stale(tmp_path):
    done = subprocess.Popen(["true"])
    done.wait()
    write_lock(tmp_path, process=done.pid)
    assert is_free(tmp_path)
    # Its number may be another's by now, which was started at another time.
    write_lock(tmp_path, began="1")
    assert is_free(tmp_path)
    write_lock(tmp_path)
    assert not is_free(tmp_path)


@pytest.mark.parametrize("content", [None, "", "{", '{"process": "x"}'])
def test_a_lock_of_another_host_is_stale_when_nobody_touches_it(tmp_path, content):
    path = write_lock(tmp_path, place="another start", host="elsewhere")
    if content is not None:
        path.write_text(content)
    assert not is_free(tmp_path)
    before = time.time() - lock.STALE_SECONDS - 10
    os.utime(path, (before, before))
    assert is_free(tmp_path)


def test_a_lock_is_touched_as_long_as_it_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "BEAT_SECONDS", 0.01)
    with locked(tmp_path):
        path = tmp_path / LOCK_FILE
        os.utime(path, (0, 0))
        deadline = time.time() + 5
        while path.stat().st_mtime == 0 and time.time() < deadline:
            time.sleep(0.01)
        assert path.stat().st_mtime > 0


def test_a_killed_owner_leaves_nothing_in_the_way(tmp_path):
    code = "import sys, time; from pathlib import Path; "
    code += (
        "from softqd.experiment.files.lock import locked; folder = Path(sys.argv[1])"
    )
    code += "\nwith locked(folder):\n  print('held', flush=True); time.sleep(60)"
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        assert not is_free(tmp_path)
        process.kill()
        process.wait()
    for name in (f".{'0' * 16}.softqd-part", "checkpoint/.state.npz.123"):
        write_whole(tmp_path / name, "torn")
    assert is_free(tmp_path)
    assert list(tmp_path.rglob("*")) == [tmp_path / "checkpoint"]


def test_a_full_disk_names_the_file_and_leaves_the_old_one(tmp_path, monkeypatch):
    path = write_whole(tmp_path / "a.json", "old")

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*a\.json"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_replaced_and_not_followed(folder):
    outside = folder.parent / "outside"
    outside.write_text("kept")
    for name in ("report.html", "config.toml", "metrics.json"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(outside)
    softqd.load(make_sound(folder)).save(folder)
    assert cli.invoke(["report", str(folder)]) == 0
    assert outside.read_text() == "kept"


def make_sound(folder):
    """A copy in which links are files again."""
    copy = shutil.copytree(folder, folder.parent / "sound")
    for name, text in (("config.toml", ""), ("metrics.json", "{}")):
        (copy / name).unlink()
        (copy / name).write_text(text or "[run]\nseed = 0\n")
    return copy


def test_an_emptied_config_does_not_hide_a_sound_checkpoint(capsys, tmp_path):
    command = ["run", "toys:make_bowl", "--algorithm", "toys:climb"]
    command += ["--out", tmp_path / "a"]
    assert invoke(capsys, *command, "--iterations", 2)[0] == 0
    (tmp_path / "a" / "config.toml").write_text("")
    assert invoke(capsys, *command, "--iterations", 4, "--resume")[0] == 0
    assert softqd.load(tmp_path / "a").history["iteration"][-1] == 4
    other = [*command, "--set", "size=4", "--resume"]
    status, _, err = invoke(capsys, *other)
    assert status == 2
    assert "holds a run with algorithm size=16, this one has 4" in err


# --- one way to read ----------------------------------------------------------------


def look(folder):
    run_data(load(folder), 5)


def look_at_checkpoint(folder):
    place = folder / "checkpoint"
    state = jax.eval_shape(climb(make_bowl(), size=16).init, jax.random.key(0))
    identity = checkpoint.saved_identity(place)
    Ledger.from_json(checkpoint.load(place, state, identity)[1], place)


LOOKS = {
    **dict.fromkeys(
        ("result.json", "metrics.json", "history.csv", "config.toml"), look
    ),
    **dict.fromkeys(("population.npz", "pictures.npz"), look),
    "checkpoint/state.npz": look_at_checkpoint,
    "comparison.json": lambda folder: ExperimentFolder(folder).comparison,
    "toys.climb/seed_0/config.toml": lambda folder: configs.from_file(
        folder / "toys.climb" / "seed_0" / "config.toml"
    ),
}


@pytest.mark.parametrize("name", LOOKS)
def test_damage_of_any_kind_is_one_line(made, tmp_path, name):
    """Read, or refused by an error of this room; anything else would be raised."""
    is_run = (made[1] / "run" / name).exists()
    copy = shutil.copytree(made[1] / ("run" if is_run else "all"), tmp_path / "copy")
    data, rng = (copy / name).read_bytes(), np.random.default_rng(0)
    lines = []
    for _ in range(60):
        (copy / name).write_bytes(damaged(Path(name).name, data, rng))
        try:
            LOOKS[name](copy)
        except (FileError, softqd.CheckpointError, configs.ConfigError) as error:
            lines.append(str(error))
    assert max(map(len, lines)) <= 300
    assert not any("\n" in line for line in lines)
    assert len(lines) > 10


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("result.json", '{"seed": "3"}', "seed must be a whole number; got '3'"),
        ("result.json", '{"format": 9, "seed": 3}', "has format 9, and this softqd"),
        ("metrics.json", '{"qvs": [1]}', r"qvs must be a number or null; got \[1\]"),
        ("metrics.json", "[" * 9999, "is not a JSON file: maximum recursion depth"),
        ("config.toml", "run = 5", "run must be a table; got 5"),
        ("config.toml", "", "is empty"),
        ("history.csv", "", "is empty or no table of columns"),
        ("history.csv", "iteration\r\n", "a header of different names, and a row"),
        ("history.csv", "iteration\r\n0\r\n", "column evaluations is missing"),
        ("history.csv", "a,b\r\n1\r\n", "line 2 must have 2 cells; got 1"),
        (
            "history.csv",
            "iteration,evaluations,mean_quality,max_quality\r\ninf,1,1,1\r\n",
            "column iteration must hold whole numbers",
        ),
    ],
)
def test_a_schema_says_place_expected_and_got(folder, name, text, message):
    (folder / name).write_text(text)
    with pytest.raises(FileError, match=f"{name}.* {message}|{name}: {message}"):
        softqd.load(folder)


def test_files_must_fit_each_other(folder):
    population = softqd.load(folder).population
    wide = dataclasses.replace(population, behavior=np.zeros((16, 3)))
    write_population(folder / "population.npz", wide)
    with pytest.raises(FileError, match="problem has 2 behaviors, and"):
        softqd.load(folder)
    write_population(folder / "population.npz", population[:4])
    with pytest.raises(FileError, match="do not fit each other, or 4 solutions"):
        softqd.load(folder)


# --- complete from Python -----------------------------------------------------------


def test_a_run_from_python_is_kept_as_one_of_the_command_line(capsys, made, tmp_path):
    result, place = made
    folder = place / "run"
    back = softqd.load(folder)
    problem = back.problem
    assert problem.name == "bowl"
    assert problem.behavior_names == ("left", "right (m)")
    np.testing.assert_array_equal(problem.bounds(2), [[0, 0], [2, 2]])
    np.testing.assert_allclose(problem.target, 0.5, atol=1 / 255)
    expected = softqd.metrics.evaluate_population(result.population, ([0, 0], [2, 2]))
    assert back.metrics["qvs"] == expected["qvs"]
    assert back.metrics["evaluations"] == 16 * 7
    path = tmp_path / "m.json"
    command = ["evaluate", folder / "population.npz", "--json", path]
    assert invoke(capsys, *command)[0] == 0
    assert json.loads(path.read_text())["qvs"] == expected["qvs"]
    figure = softqd.plot.gallery(back)
    assert "left, low" in figure.axes[3].get_title()
    with pytest.raises(ValueError, match="holds no code"):
        problem.evaluate(np.zeros(6))


def test_pictures_are_those_of_the_solutions(made):
    result, place = made
    pictures = softqd.load(place / "run").pictures
    best = int(result.population.quality.argmax())
    assert next(iter(pictures.small)) == best
    assert len(pictures.small) == 16
    shade = jax.nn.sigmoid(result.population.solutions[best, 0])
    np.testing.assert_allclose(pictures.image(best), float(shade), atol=3 / 255)


def test_settings_are_kept_as_text(folder, bowl):
    optimizer = optax.chain(optax.clip(1.0), optax.adam(0.125))
    algorithm = softqd.squad_published(
        bowl, population_size=4, batch_size=4, num_neighbors=1, optimizer=optimizer
    )
    text = plain_settings(algorithm)["optimizer"]
    assert "max_delta=1.0" in text
    assert "step_size=-0.125" in text
    assert " at 0x" not in text  # the same in every process
    assert softqd.load(folder).config["algorithm"] == {"name": "climb", "size": 16}
    with pytest.raises(configs.ConfigError, match="was started from Python"):
        configs.from_file(folder / "config.toml")


# --- solutions of any structure -----------------------------------------------------


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: jax.Array  # not in the order of the alphabet
    bias: jax.Array


class Net(NamedTuple):
    layers: list
    scale: dict


def net_problem():
    def evaluate(net):
        first, second = net.layers
        y = first.weight @ jnp.array([0.5, -0.5]) + first.bias
        return second.bias.sum() - jnp.sum(y**2), jax.nn.sigmoid(net.scale["a/b"])

    def sample(key):
        w = jax.random.normal(key, (2, 2))
        layers = [Layer(w, w[0] + 10), Layer(w + 20, w[1] + 30)]
        return Net(layers, {"a/b": w[:, 0], "a": {"b": w[0] + 40}})

    return softqd.Problem(evaluate, sample, (0, 1), name="net")


def equal(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(np.testing.assert_array_equal, a, b)


def test_structures_are_put_back_by_path(tmp_path):
    problem = net_problem()
    algorithm = softqd.dns(problem, population_size=4, batch_size=4)
    settings = {"num_iterations": 2, "checkpoint_dir": tmp_path / "c"}
    result = softqd.run(algorithm, **settings)
    result.save(tmp_path / "run")
    solutions = result.population.solutions
    equal(softqd.load(tmp_path / "run", like=problem).population.solutions, solutions)
    bare = softqd.load(tmp_path / "run").population.solutions
    assert bare["layers"]["0"].keys() == {"weight", "bias"}
    np.testing.assert_array_equal(bare["layers"]["1"]["bias"], solutions.layers[1].bias)
    np.testing.assert_array_equal(bare["scale"]["a/b"], solutions.scale["a/b"])
    again = softqd.run(algorithm, num_iterations=0, solutions=bare)  # by path, too
    equal(again.population.solutions, solutions)
    resumed = softqd.run(algorithm, **settings, resume=True)
    equal(resumed.population.solutions, solutions)


def test_a_start_of_another_shape_or_structure_is_refused(tmp_path):
    problem = net_problem()
    algorithm = softqd.dns(problem, population_size=4, batch_size=4)
    sampled = jax.vmap(problem.sample)(jax.random.split(jax.random.key(0), 4))
    wide = sampled._replace(scale={**sampled.scale, "a/b": jnp.ones((4, 3))})
    with pytest.raises(ValueError, match=r"scale/a~1b have shape \(4, 3\), expected"):
        softqd.run(algorithm, num_iterations=0, solutions=wide)
    less = sampled._replace(scale={"a/b": jnp.ones((4, 2))})
    with pytest.raises(ValueError, match="given lack 'solutions/scale/a/b'"):
        softqd.run(algorithm, num_iterations=0, solutions=less)


def test_half_precision_survives(tmp_path):
    x = jnp.arange(6, dtype=jnp.bfloat16).reshape(3, 2) / 3
    population = softqd.Population(x, np.ones(3), np.zeros((3, 1)), np.ones(3, bool))
    softqd.Result(population, _HISTORY).save(tmp_path)
    assert softqd.load(tmp_path).population.solutions.dtype == np.float32
    back = softqd.load(tmp_path, like=jnp.zeros(2, jnp.bfloat16)).population.solutions
    np.testing.assert_array_equal(back, np.asarray(x))
    checkpoint.save(tmp_path / "c", {"x": x}, _META)
    state, _ = checkpoint.load(tmp_path / "c", {"x": x}, _META["identity"])
    assert state["x"].dtype == jnp.bfloat16
    np.testing.assert_array_equal(state["x"], x)


_HISTORY = {
    name: np.zeros(1, int if name in ("iteration", "evaluations") else float)
    for name in ("iteration", "evaluations", "mean_quality", "max_quality")
}
_META = {"identity": {"seeds": [0], "config": {}}, "history": {}}


# --- warm start ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def warm():
    problem = softqd.Problem(
        lambda x: (10.0 - 0.01 * jnp.sum(x**2), jax.nn.sigmoid(x)),
        lambda key: jax.random.normal(key, (2,)),
        (0, 1),
    )
    return softqd.dns(problem, population_size=8, batch_size=8)


def test_fewer_solutions_are_completed(warm):
    given = np.full((3, 2), 0.25, np.float32)
    one, two = softqd.run(warm, seed=[0, 1], num_iterations=0, solutions=given)
    for result in (one, two):
        np.testing.assert_array_equal(result.population.solutions[:3], given)
        assert len(np.unique(result.population.solutions, axis=0)) == 6  # drawn: 5
        assert result.history["evaluations"].tolist() == [8]
    assert (one.population.solutions[3:] != two.population.solutions[3:]).all()


def test_of_more_solutions_the_score_chooses(warm):
    """Eight places far apart in behavior space, each with seven weaker neighbors."""
    corners = np.array([[x, y] for x in (-4, -1, 1, 4) for y in (-2, 2)], np.float32)
    many = np.concatenate(
        [corners, *(corners * (1 + s) for s in np.linspace(0.01, 0.02, 7))]
    )
    order = np.random.default_rng(0).permutation(len(many))
    result = softqd.run(warm, num_iterations=0, solutions=many[order])
    found = result.population.solutions
    near = np.abs(found[:, None] - corners).max(2).argmin(1)
    assert sorted(near) == list(range(8))  # one of each place
    # To choose, all 64 are evaluated, and then the 8 again.
    assert result.history["evaluations"].tolist() == [64 + 8]


# --- the format before this one -----------------------------------------------------


def test_a_folder_of_the_first_format_is_read(capsys, tmp_path):
    folder = shutil.copytree(OLD, tmp_path / "old")
    result = softqd.load(folder)
    assert result.population.solutions.shape == (16, 4)
    assert result.problem is None
    assert invoke(capsys, "report", folder)[0] == 0
    assert "does not say the bounds" in (folder / "report.html").read_text("utf-8")
    figure = ["figure", "scatter", folder, "--out", tmp_path / "a.png"]
    assert invoke(capsys, *figure)[0] == 0
    status, _, err = invoke(capsys, "evaluate", folder / "population.npz")
    assert status == 2
    assert "which kept no bounds; give --bounds, or 'softqd run" in err
    command = ["evaluate", folder / "population.npz", "--bounds", "0,1"]
    assert invoke(capsys, *command)[0] == 0


@pytest.mark.slow  # SQUAD is compiled
def test_a_folder_of_the_first_format_becomes_one_of_this(capsys, tmp_path):
    """Its checkpoint continues, with no iteration left."""
    folder = shutil.copytree(OLD, tmp_path / "old")
    before = softqd.load(folder)
    config = folder / "config.toml"
    assert invoke(capsys, "run", config, "--out", folder, "--resume")[0] == 0
    after = softqd.load(folder)
    np.testing.assert_array_equal(
        after.population.solutions, before.population.solutions
    )
    assert after.metrics["qvs"] == pytest.approx(before.metrics["qvs"])
    np.testing.assert_array_equal(after.problem.bounds(2), [[0, 0], [1, 1]])
    assert invoke(capsys, "evaluate", folder / "population.npz")[0] == 0
