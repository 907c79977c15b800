"""Reading run folders for the report page: what is missing becomes a note."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from softqd.experiment import checkpoint
from softqd.experiment import config as configs
from softqd.experiment.result import Result, load, load_history, versions
from softqd.types import Problem


class Run(NamedTuple):
    """A run folder as it was read, and what to know about it."""

    result: Result
    metrics: dict[str, Any]
    problem: Problem | None  # None where it cannot be built again
    notes: tuple[str, ...] = ()


class Header(NamedTuple):
    """What a comparison needs of a run."""

    config: dict[str, Any]
    seed: int
    history: dict[str, np.ndarray]


def read_run(folder: str | Path, problem: Problem | None = None) -> Run:
    """Read a run folder; what is missing beyond the run itself becomes a note.

    Args:
        folder: As ``softqd run`` or `Result.save` wrote it.
        problem: Of the run, if it is at hand; else built from ``config.toml``.

    Raises:
        ValueError: If the folder holds no finished run, or one that cannot be read.
    """
    folder = Path(folder)
    with _reading(folder):
        result = load(folder)
    notes = [*_version_notes(result)]
    metrics: dict[str, Any] = {}
    if (folder / "metrics.json").exists():
        metrics = _read_metrics(folder / "metrics.json")
    else:
        file = folder / "population.npz"
        notes.append(f"There is no metrics.json; softqd evaluate {file} computes them.")
    if problem is None:
        dim = result.population.behavior.shape[1]
        problem, why = _rebuilt(folder / "config.toml", dim)
        notes += why
    return Run(result, metrics, problem, tuple(notes))


def read_header(folder: Path) -> Header:
    """Read what a comparison needs of a run folder, without its population.

    Raises:
        ValueError: If the folder holds no finished run, or one that cannot be read.
    """
    with _reading(folder):
        config = tomllib.loads((folder / "config.toml").read_text())
        seed = json.loads((folder / "result.json").read_text())["seed"]
        return Header(config, seed, load_history(folder))


def _check_folder(folder: Path) -> None:
    if (folder / "population.npz").exists():
        return
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}; give a run folder")
    if checkpoint.exists(folder / "checkpoint"):
        raise ValueError(
            f"{folder} holds a run that has not finished; continue it with 'softqd run "
            f"{folder}/config.toml --out {folder} --resume'"
        )
    if any(folder.glob("*/seed_*")) or (folder / "unfinished").exists():
        raise ValueError(
            f"{folder} holds a comparison that has not finished; call the same 'softqd "
            f"compare' again, or give its finished runs, such as {folder}/*/seed_0"
        )
    raise ValueError(
        f"{folder} is neither a run folder (it has no population.npz) nor a comparison "
        f"(no comparison.json); make one with 'softqd run PROBLEM --out {folder}'"
    )


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """Turn whatever goes wrong in reading a run folder into one sentence."""
    _check_folder(folder)
    try:
        yield
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{folder} cannot be read by softqd {versions()['softqd']} ({error}); run "
            "it again, or make the report with the version that wrote it"
        ) from None


def _version_notes(result: Result) -> list[str]:
    now = versions()["softqd"]
    then = result.versions.get("softqd", "unknown")
    return [] if then == now else [f"Run by softqd {then}, page by softqd {now}."]


def _read_metrics(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read ({error}); run it again") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds no table of metrics; run it again")
    return found


def _rebuilt(path: Path, dim: int) -> tuple[Problem | None, list[str]]:
    """The problem of a configuration, or why there is none."""
    try:
        problem = configs.build_problem(configs.from_file(path))
        if problem.behavior_dim != dim:
            raise ValueError(f"it has {problem.behavior_dim} behaviors now, not {dim}")
        return problem, []
    except Exception as error:  # a user's module may fail in any way
        reason = " ".join(str(error).split()) or type(error).__name__
        return None, [
            f"The problem could not be built again ({reason}), so that there are no "
            "pictures, and the axes span the population."
        ]
