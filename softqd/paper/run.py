"""Runs what a reproduction lists, and keeps a record of every case.

In ``out``: ``runs/<record>/seed_<n>``, a run folder each, and
``records/<record>.json``, written as soon as a case is done. Called again, finished
cases and runs are kept and interrupted runs continue. Reproductions that share a case
share its record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from softqd.experiment import config as configs
from softqd.experiment.config import Config, ConfigError
from softqd.experiment.files.lock import locked
from softqd.experiment.many.group import is_finished
from softqd.experiment.many.plan import check_seeds, folder_of, method_of, refuse_other
from softqd.experiment.many.runs import Runs, check_jobs, run_all
from softqd.experiment.run_folder import RunFolder
from softqd.paper import record as records
from softqd.paper.cases import Case
from softqd.paper.catalog import find
from softqd.paper.record import Record
from softqd.types import Problem

# Settings that only say where a file is.
FILES = ("target", "generator", "scorer")
QUICK_SEEDS = 3

# The small version: what it changes, by problem and by algorithm, and its iterations.
_QUICK_PROBLEM: dict[str, tuple[str, ...]] = {
    "linear_projection": ("solution_dim=64",),
    "image_composition": ("num_circles=16", "size=16", "target=none"),
    "latent_space": (),
}
_SMALL_ARCHIVE = ("cells=256", "shared_cells=true")
_SMALL_EMITTERS = (*_SMALL_ARCHIVE, "num_emitters=2", "algorithm.batch_size=18")
_QUICK_ALGORITHM: dict[str, tuple[str, ...]] = {
    "squad": ("population_size=64",),
    "squad_published": ("population_size=64", "algorithm.batch_size=32"),
    "cma_maega": _SMALL_EMITTERS,
    "cma_mega": _SMALL_EMITTERS,
    "sep_cma_mae": _SMALL_EMITTERS,
    "ga_me": (*_SMALL_ARCHIVE, "algorithm.batch_size=32", "start_size=64"),
    "dns": ("population_size=64", "algorithm.batch_size=32"),
    "dns_g": (
        "population_size=64",
        "algorithm.batch_size=32",
        "grad_batch_size=16",
    ),
}
_QUICK_ITERATIONS = {"squad": 112, "squad_published": 60}
_QUICK_BASELINE_ITERATIONS = 400


class Outcome(NamedTuple):
    """What a reproduction found."""

    records: dict[str, Record]  # by case name, those there are
    failures: dict[str, dict[int, str]]  # by case name and seed
    runs: Path | None = None  # where the run folders are


def reproduce(
    name: str,
    out: str | Path,
    *,
    quick: bool = False,
    seeds: int | Sequence[int] | None = None,
    files: Sequence[str] = (),
    jobs: int = 1,
    progress: bool = False,
) -> Outcome:
    """Run what a reproduction needs and is not there yet.

    Args:
        name: A name of `softqd reproduce --list`.
        out: Folder for run folders and records; may hold those of other reproductions.
        quick: A small version, for a CPU and some minutes; says nothing about the
            paper's numbers and is labeled wherever it appears.
        seeds: How many of the published seeds, or which; by default all of them, and 3
            with ``quick``.
        files: ``target=PATH``, ``generator=PATH`` or ``scorer=PATH``, where a problem's
            files are not in the cache.
        jobs: Processes at once, on the CPU.
        progress: Show a progress bar over all runs.

    Raises:
        ValueError: If the name is unknown, a problem's files are missing, or ``out``
            holds runs or records with other settings.
    """
    cases = {case.name(quick): case for case in find(name).cases}
    check_jobs(jobs)
    out = Path(out)
    wanted = {key: _seeds(case, seeds, quick) for key, case in cases.items()}
    table = {key: config_of(case, quick, files) for key, case in cases.items()}
    done = {
        key: entry
        for key, config in table.items()
        if (entry := _kept(out / "records", key, config, wanted[key]))
    }
    open_cases = {key: case for key, case in cases.items() if key not in done}
    runs = _runs(out / "runs", open_cases, table, wanted)

    def keep(key: str) -> None:
        folders = {s: folder_of(out / "runs", runs[key].method, s) for s in wanted[key]}
        folders = {s: folder for s, folder in folders.items() if is_finished(folder)}
        if folders:
            variant = cases[key].variant
            done[key] = records.from_folders(table[key], variant, folders, quick)
            records.save(done[key], out / "records")

    with locked(out / "runs"):
        failures = run_all(out / "runs", list(runs.values()), jobs, progress, keep)
    for key in runs:  # also those whose runs were all there
        keep(key)
    ordered = {key: done[key] for key in cases if key in done}
    failed = {key: found for key, found in failures.items() if found}
    return Outcome(ordered, failed, out / "runs")


def from_records(name: str, directory: str | Path, *, quick: bool = False) -> Outcome:
    """What a folder of records holds of a reproduction, without running anything.

    Raises:
        ValueError: If the name is unknown, or the folder holds none of its records.
    """
    wanted = [case.name(quick) for case in find(name).cases]
    found = {entry["name"]: entry for entry in records.load_all(directory)}
    kept = {key: found[key] for key in wanted if key in found}
    if not kept:
        raise ValueError(
            f"{directory} holds no record of {name!r}, such as {wanted[0]}.json; leave "
            "--from out to run it"
        )
    return Outcome(kept, {})


def config_of(case: Case, quick: bool = False, files: Sequence[str] = ()) -> Config:
    """The configuration of a case, without seed.

    Raises:
        ValueError: If a setting is unknown or is not a file's.
    """
    config = configs.from_name(case.preset, case.algorithm)
    iterations = config["run"]["iterations"]
    settings: list[str] = []
    if quick:
        settings += _QUICK_PROBLEM[config["problem"]["name"]]
        settings += _QUICK_ALGORITHM[case.algorithm]
        iterations = _QUICK_ITERATIONS.get(case.algorithm, _QUICK_BASELINE_ITERATIONS)
    settings += case.settings
    for text in files:
        name = text.partition("=")[0]
        if name not in FILES:
            raise ConfigError(
                f"a reproduction runs the published settings; got {text!r}, and only "
                f"{', '.join(FILES)} can be set. Use 'softqd compare' for your own"
            )
        settings += [text] if name in config["problem"] else []
    config = configs.with_settings(config, settings)
    points = records.HISTORY_POINTS - 1
    config["run"] |= {"iterations": iterations}
    config["run"] |= {"log_every": max(1, iterations // points)}
    return {**config, "run": {k: v for k, v in config["run"].items() if k != "seed"}}


def _seeds(case: Case, seeds: int | Sequence[int] | None, quick: bool) -> list[int]:
    """The first so many of the case's seeds, counting on after its last, or those."""
    if seeds is None:
        return list(case.seeds[:QUICK_SEEDS] if quick else case.seeds)
    if isinstance(seeds, int):
        return [case.seeds[0] + s for s in check_seeds(seeds)]
    return check_seeds(seeds)


def _kept(
    folder: Path, key: str, config: Config, seeds: Sequence[int]
) -> Record | None:
    """The record of a case if it is there and has these seeds."""
    path = folder / f"{key}.json"
    if not path.exists():
        return None
    entry = records.check(json.loads(path.read_text()))
    # Settings may have been added since.
    if configs.complete(entry["config"]) != config:
        raise ConfigError(
            f"{path} is a record with other settings; remove it, or give another --out"
        )
    return entry if entry["seeds"] == list(seeds) else None


def _runs(
    out: Path,
    cases: Mapping[str, Case],
    table: Mapping[str, Config],
    seeds: Mapping[str, list[int]],
) -> dict[str, Runs]:
    """Methods that are ready to run; every problem is built once."""
    problems: dict[str, Problem] = {}
    build: Callable[[Config], Problem] = configs.build_problem
    runs = {}
    for key, case in cases.items():
        config = table[key]
        text = json.dumps(config["problem"])
        problem = problems[text] = problems.get(text) or build(config)
        method = method_of(key, config, problem)._replace(curves=case.curves)
        if method.algorithm is None:
            raise ConfigError(f"{case.algorithm} on {case.preset}: {method.error}")
        runs[key] = Runs(method, seeds[key], problem)
        place = out / method.folder_name
        tables = {"problem": None, "algorithm": None, "run": ["iterations", "cells"]}
        for file in sorted(place.glob("**/config.toml")):
            saved = RunFolder(file.parent).config
            refuse_other(file.parent, saved, config, tables)
    return runs
