"""``softqd evaluate`` and ``softqd select``: population files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from softqd.cli._errors import UsageError
from softqd.cli._metrics import print_metrics, say

_File = Annotated[Path, typer.Argument(help="A population file: .npz or CSV.")]
_Quality = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Column or array of the quality."),
]
_Behavior = Annotated[
    str | None,
    typer.Option(metavar="NAME,NAME", help="Columns or arrays of the behavior."),
]
_Bounds = Annotated[
    str | None,
    typer.Option(
        metavar="LOW,HIGH",
        help="Of every behavior, or one LOW:HIGH each; else from the run folder.",
    ),
]
_Level = Annotated[
    float | None,
    typer.Option(
        help="From where quality is measured; else from the run folder, or 0."
    ),
]


def evaluate(
    file: _File,
    quality: _Quality = None,
    behavior: _Behavior = None,
    bounds: _Bounds = None,
    sigma: Annotated[float | None, typer.Option(help="In unit coordinates.")] = None,
    cells: Annotated[int, typer.Option(min=1)] = 512,
    seed: Annotated[int, typer.Option(help="Of the score's points.")] = 0,
    level: _Level = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", help="Write the metrics here.")
    ] = None,
) -> None:
    """Compute all metrics of a population file."""
    from softqd.experiment.files.whole import write_whole
    from softqd.metrics import evaluate_population

    population, source = _read(file, quality, behavior)
    run = _run_of(file)
    limits, origin = _bounds_of(file, run, bounds, population.behavior)
    metrics = evaluate_population(
        population,
        limits,
        cells=cells,
        sigma=sigma,
        seed=seed,
        level=_level_of(run, level),
        units=_units_of(run, population.behavior),
    )
    metrics["settings"]["bounds"] = origin
    print_metrics(f"{len(population.quality)} solutions of {file}", metrics)
    metrics["settings"]["source"] = source
    if json_path is not None:
        write_whole(json_path, json.dumps(metrics, indent=1) + "\n")


def select_members(
    file: _File,
    size: Annotated[int, typer.Option(min=1, help="Members to keep.")],
    out: Annotated[Path, typer.Option(help="Where to write them: .npz or .csv.")],
    quality: _Quality = None,
    behavior: _Behavior = None,
    bounds: _Bounds = None,
    sigma: Annotated[float | None, typer.Option(help="In unit coordinates.")] = None,
    seed: Annotated[int, typer.Option(help="Of the score's points.")] = 0,
    level: _Level = None,
) -> None:
    """Keep the members that keep most of the Soft QD Score, best first."""
    import numpy as np

    from softqd.experiment.run_folder import write_population
    from softqd.metrics import select, selection_sigma, to_unit

    population, _ = _read(file, quality, behavior)
    if out.suffix.lower() not in (".npz", ".csv"):
        raise UsageError(f"--out wants a .npz or .csv; got {out}; write {out}.npz")
    run, behaviors = _run_of(file), np.asarray(population.behavior)
    limits, origin = _bounds_of(file, run, bounds, behaviors)
    b = to_unit(limits, behaviors)
    if b is None and (units := _units_of(run, behaviors)) is not None:
        b = to_unit(units, behaviors, is_limit=False)
    if b is None:
        raise UsageError(f"{file}: the behavior space is unbounded; give --bounds")
    f = np.maximum(np.asarray(population.quality) - _level_of(run, level), 0.0)
    width = selection_sigma(f, b, size) if sigma is None else sigma
    chosen, share = select(f, b, size, width, seed=seed, return_share=True)
    write_population(out, population[chosen])
    say(
        f"kept {size} of {len(f)} solutions and {share:.1%} of the Soft QD Score "
        f"(sigma {width:.4g}, bounds {origin}): {out}"
    )


def _read(file: Path, quality: str | None, behavior: str | None) -> tuple[Any, str]:
    """A population and where its parts came from, which is said."""
    from softqd.experiment.files.readers import read_population

    names = [name.strip() for name in behavior.split(",")] if behavior else None
    population, source = read_population(file, quality=quality, behavior=names)
    say(f"read {source}")
    return population, source


def _bounds_of(
    file: Path, run: Any, text: str | None, behavior: Any
) -> tuple[Any, str]:
    """Bounds given, of the run the file belongs to, or [0, 1] if that is possible."""
    import numpy as np

    dim = behavior.shape[1]
    if text is not None:
        pairs = _parse_bounds(text, dim)
        shown = " x ".join(f"[{low:g}, {high:g}]" for low, high in pairs)
        low, high = np.array(pairs, behavior.dtype).T
        outside = int(((behavior < low) | (behavior > high)).any(1).sum())
        note = f", {outside} of {len(behavior)} outside put on the border"
        return (low, high), f"{shown} as given{note if outside else ''}"
    if run is not None:
        problem = run.problem
        if problem is None:
            raise UsageError(
                f"{run.path} is of an earlier version, which kept no bounds; give "
                f"--bounds, or 'softqd run {run.path}/config.toml --out {run.path} "
                "--resume' once"
            )
        if problem.behavior_dim != dim:
            raise UsageError(
                f"{file}: {dim} behaviors are chosen, and the run in {run.path} has "
                f"{problem.behavior_dim}; give --bounds"
            )
        return problem.bounds(dim), f"of {problem.name}, from {run.path}"
    if behavior.min() < 0 or behavior.max() > 1:
        raise UsageError(
            f"{file}: behaviors span {behavior.min():g} to {behavior.max():g} and no "
            "run folder says their bounds; give --bounds LOW,HIGH or LOW:HIGH for each"
        )
    return (0.0, 1.0), "[0, 1], assumed"


def _run_of(file: Path) -> Any:
    """The run folder that a population file lies in, if it does."""
    from softqd.experiment.run_folder import SUMMARY, RunFolder

    return RunFolder(file.parent) if (file.parent / SUMMARY).exists() else None


def _level_of(run: Any, level: float | None) -> float:
    """From where quality is measured: as given, or as in the run."""
    if level is not None:
        return level
    return 0.0 if run is None else run.quality_level


def _units_of(run: Any, behavior: Any) -> Any:
    """In which behaviors are measured, if the run says so of as many."""
    units = None if run is None else run.behavior_units
    return units if units and len(units[0]) == behavior.shape[1] else None


def _parse_bounds(text: str, dim: int) -> list[tuple[float, float]]:
    """One pair LOW,HIGH for all behaviors, or LOW:HIGH,LOW:HIGH,... a pair for each."""
    is_each = ":" in text
    parts = (
        [part.split(":") for part in text.split(",")] if is_each else [text.split(",")]
    )
    try:
        pairs = [(float(low), float(high)) for low, high in parts]
    except ValueError:
        raise UsageError(
            f"--bounds wants LOW,HIGH or a LOW:HIGH for each behavior; got {text!r}"
        ) from None
    if is_each and len(pairs) != dim:
        raise UsageError(f"--bounds wants {dim} pairs LOW:HIGH; got {text!r}")
    if not all(low < high for low, high in pairs):
        raise UsageError(f"--bounds wants LOW below HIGH; got {text!r}")
    return pairs
