"""Inputs at random: damaged files, settings and options, in process and as processes.

A kind of file is covered by its name in `READERS`; files of real folders that are not
named there are an error.
"""

import contextlib
import io
import shutil
import signal
import subprocess
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from damage import TEXTS, VALUES, damaged, pick

from campaign import material
from campaign.verdict import End, Tally, verdict
from softqd import cli, registry
from softqd.experiment import checkpoint, folder
from softqd.experiment import config as configs
from softqd.experiment.program import Lanes, program_of

# Seconds after which a command hangs.
PATIENCE = 60
# Nothing reads these.
UNREAD = (".png", ".html", ".pdf", "comparison.csv")
_EVALUATE = ["evaluate", "{file}", "--cells", "16"]
_REPORT = ["report", "{top}", "--pictures", "4", "--out", "{out}/page.html"]
# What reads a file of this name.
READERS = {
    "config.toml": [_REPORT, ["run", "{file}", "--out", "{out}"]],
    "population.npz": [
        _EVALUATE,
        ["select", "{file}", "--size", "3", "--out", "{out}/few.csv"],
        _REPORT,
    ],
    "history.csv": [_REPORT, ["figure", "history", "{folder}", "--out", "{out}/a.svg"]],
    "result.json": [_REPORT, ["evaluate", "{folder}/population.npz", "--cells", "16"]],
    "metrics.json": [_REPORT],
    "state.npz": [["run", "{folder}/../config.toml", "--out", "{top}", "--resume"]],
    "comparison.json": [
        _REPORT,
        ["figure", "distributions", "{top}", "--out", "{out}/a.svg"],
    ],
    "sweep.json": [["figure", "sweep", "{top}", "--out", "{out}/a.svg"]],
    "preset.toml": [["run", "{file}", "--out", "{out}"]],
}
_NUMBERS = ("0", "1", "2", "-1", "0.5", "1e-300", "1e999", "nan", "2**3", "1_0", "0x10")
_WORDS = (
    *("true", "none", "adam", "adam(0.1)", "adam(", "chain(1)", "MultiSteps(1,2)"),
    *("linear_schedule(1.0,0.1,10)", "{[]:1}", "[1,2]", "[[1],[2,3]]", "lambda: 0"),
    *("x[/red]y", "nearest", "'", '"', "(" * 300, "-" * 3000 + "1", "()", "1j", "b''"),
    *("sgd(1e308)", "adam(nan)", "scale(None)", "apply_if_finite(adam(0.1),3)"),
)


class Hung(BaseException):
    """A command took longer than `PATIENCE`."""


def _hang(*_):
    raise Hung


def invoked(arguments: list[str]) -> End:
    """The end of a command in this process."""
    err, before = io.StringIO(), signal.signal(signal.SIGALRM, _hang)
    signal.alarm(PATIENCE)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
            status = cli.invoke(arguments)
    except Hung:
        return End(None, "")
    except BaseException as error:  # what would be a traceback
        told = f"Traceback (most recent call last): {type(error).__name__}: {error}"
        return End(1, told[:300])
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return End(status, err.getvalue())


@contextlib.contextmanager
def reading_alone():
    """Have ``softqd run`` build what it would run, and look at its folder, no more."""

    def build(config, place, *, resume=False, **_):
        folder.check_seed(config["run"]["seed"])
        algorithm = configs.build(config)[1]
        folder._refuse_taken(place, config, resume)
        if resume:
            program = program_of(algorithm, Lanes([config["run"]["seed"]], None, True))
            identity = folder._full_identity(config)
            template = program.shape_of_state(None)
            checkpoint.load(place / folder.CHECKPOINT, template, identity)

    before, folder.run_into_folder = folder.run_into_folder, build
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        folder.run_into_folder = before


def damaged_files(place: Path, count: int, seed: int, tally: Tally) -> None:
    """Damage files of the folders in ``place`` in turn, and have commands read them."""
    rng, names = np.random.default_rng([seed, 1]), _readable(place)
    with tempfile.TemporaryDirectory() as out, reading_alone():
        for i in range(count):
            path = names[i % len(names)]
            top = place / path.relative_to(place).parts[0]
            words = {"file": path, "folder": path.parent, "top": top, "out": out}
            command = [part.format(**words) for part in pick(READERS[path.name], rng)]
            data = path.read_bytes()
            path.write_bytes(damaged(path.name, data, rng))
            try:
                end = invoked(command)
            finally:
                path.write_bytes(data)
            kind = f"damaged `{path.name}`, in process"
            tally.count(kind, verdict(end, (0, 2)), (command, end))


def _readable(place: Path) -> list[Path]:
    """A file of every kind in every folder; an error for a kind without a reader."""
    files = [p for p in sorted(place.rglob("*")) if p.is_file()]
    files = [p for p in files if not p.name.startswith(".")]
    unknown = {
        p.name for p in files if p.name not in READERS and not p.name.endswith(UNREAD)
    }
    if unknown - {"lanes.json"}:
        raise LookupError(f"nothing reads {sorted(unknown)}: name them in READERS")
    first = {(p.relative_to(place).parts[0], p.name): p for p in reversed(files)}
    return [p for p in first.values() if p.name in READERS]


def random_text(rng: np.random.Generator) -> str:
    """What somebody may type for a value."""
    kind = int(rng.integers(5))
    if kind == 0:
        return str(pick(_NUMBERS, rng))
    if kind == 1:
        return str(pick(_WORDS, rng))
    if kind == 2:
        return _text(pick(VALUES, rng))
    if kind == 3:
        return pick(TEXTS, rng).decode("latin-1")
    letters = "0123456789.e+-*/()[]{}:,= 'abcxyz_\\\n\t\x00é[/]"
    return "".join(pick(letters, rng) for _ in range(int(rng.integers(1, 12))))


def _text(value) -> str:
    is_long = isinstance(value, int) and value > 10**300
    return "1" + "0" * 400 if is_long else str(value)  # Python writes no more


def settings_command(rng: np.random.Generator) -> list[str]:
    """``softqd run`` with a setting or two at random."""
    problem = pick(("sphere", "linear_projection", "arm"), rng)
    method = pick(sorted(registry.ALGORITHMS), rng)
    known = [
        *configs.settings_of("problem", problem),
        *configs.settings_of("algorithm", method),
        *("nonsense", "", "problem.x", "algorithm.population_size", "a=b"),
    ]
    command = ["run", problem, "--algorithm", method, "--iterations", "1"]
    for _ in range(int(rng.integers(1, 3))):
        command += ["--set", f"{pick(known, rng)}={random_text(rng)}"]
    return command


def options_command(place: Path, out: str, rng: np.random.Generator) -> list[str]:
    """A command with an option at random."""
    population = str(place / "run" / "population.npz")
    commands = (
        (["evaluate", population, "--cells", "16"], "bounds quality behavior sigma"),
        (["evaluate", population], "seed level cells json"),
        (["select", population, "--out", f"{out}/a.csv"], "size bounds sigma seed"),
        (["report", str(place / "run")], "out pictures"),
        (["figure", "history", str(place / "run")], "out metric dpi"),
        (["run", "sphere"], "seed iterations evaluations max-seconds log-every init"),
        (["run", "sphere"], "algorithm set out"),
        (["list"], "x"),
        (["figure"], "out"),
    )
    command, options = pick(commands, rng)
    option = pick(options.split(), rng)
    text = random_text(rng)
    if option in ("out", "json"):  # written in this folder alone
        text = f"{out}/{text.replace('/', '_').replace(chr(0), '')[:60]}"
    if rng.random() < 0.2:
        return [*command, text]
    return [*command, f"--{option}", text]


def settings_and_options(place: Path, count: int, seed: int, tally: Tally) -> None:
    """Commands with settings, then with options, at random."""
    rng = np.random.default_rng([seed, 2])
    with tempfile.TemporaryDirectory() as out, reading_alone():
        options = partial(options_command, place, out)
        kinds = (("`--set`, in process", settings_command),)
        kinds += (("options, in process", options),)
        for i in range(count):
            kind, make = kinds[i % 4 == 3]
            command = make(rng)
            end = invoked(command)
            tally.count(kind, verdict(end, (0, 2)), (command, end))


def as_processes(place: Path, count: int, seed: int, store: Path, tally: Tally) -> None:
    """The same as commands of their own, which are run to their end."""
    rng = np.random.default_rng([seed, 3])
    names = _readable(place)
    for i in range(count):
        with tempfile.TemporaryDirectory() as out:
            copy = Path(shutil.copytree(place, f"{out}/material"))
            if i % 3 == 0:
                path = copy / pick(names, rng).relative_to(place)
                top = copy / path.relative_to(copy).parts[0]
                words = {"file": path, "folder": path.parent, "top": top, "out": out}
                command = pick(READERS[path.name], rng)
                command = [part.format(**words) for part in command]
                path.write_bytes(damaged(path.name, path.read_bytes(), rng))
            elif i % 3 == 1:
                command = settings_command(rng)
                command += ["--set", "cells=16"] * (rng.random() < 0.3)
            else:
                command = options_command(copy, out, rng)
            command = [part.replace("\x00", "0") for part in command]
            if command[:1] == ["run"] and "--out" not in command:
                command += ["--out", f"{out}/run"]
            end = ended(command, store, Path(out))
            # A run may fail; what only reads may not.
            statuses = (0, 1, 2) if command[:1] == ["run"] else (0, 2)
            tally.count("as processes", verdict(end, statuses), (command, end))


def ended(arguments: list[str], store: Path, place: Path, **how) -> End:
    """The end of a command in a process of its own, in a folder."""
    with (
        open(place / "stderr", "w+b") as err,
        material.start(arguments, store, stderr=err, cwd=place, **how) as process,
    ):
        return end_of(process, err)


def end_of(process: subprocess.Popen, err: Any) -> End:
    """The end of a process, which is killed if it does not come; what it said."""
    try:
        status = process.wait(10 * PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        status = None
    err.seek(0)
    return End(status, err.read().decode(errors="replace"))
