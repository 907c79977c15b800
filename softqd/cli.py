"""The command line: parse, call, print."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from softqd import (
    cli_compare,
    cli_figure,
    cli_report,
    cli_reproduce,
    cli_sweep,
    cli_weights,
)
from softqd.cli_errors import Interrupted, UsageError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Quality-diversity optimization without a grid.",
)
app.add_typer(cli_weights.app, name="weights")
app.command()(cli_compare.compare)
app.command()(cli_sweep.sweep)
app.command()(cli_figure.figure)
app.command()(cli_report.report)
app.command()(cli_reproduce.reproduce)


_INTERRUPTED = 130


def main() -> None:
    """Entry point: run a command and turn failures into exit statuses."""
    status = invoke(sys.argv[1:])
    if status == _INTERRUPTED:
        # An interrupted compilation may crash while Python takes itself down.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def invoke(arguments: list[str]) -> int:
    """Run a command and return its exit status.

    0 on success, 2 on wrong usage or bad input, 1 on a failed run, 130 on Ctrl-C.
    """
    try:
        return app(arguments, standalone_mode=False) or 0
    except (KeyboardInterrupt, Interrupted) as interrupt:
        how = str(interrupt) or "continue with the same command and --resume"
        _complain(f"interrupted; {how}")
        return _INTERRUPTED
    except (ValueError, OSError) as error:
        _complain(str(error))
        return 2
    except (ArithmeticError, RuntimeError, MemoryError) as error:
        _complain(f"the run failed: {error}")
        return 1
    except Exception as error:
        # Typer's own complaints, whichever click it is built on.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        if not message():  # no command: the help has been shown
            return 2
        text = message().rstrip(".")
        _complain(f"{text}; run 'softqd --help' or 'softqd COMMAND --help'")
        return 2


def _console() -> Console:
    return Console()


def _complain(message: str) -> None:
    line = " ".join(message.split())
    print(f"softqd: {line}", file=sys.stderr)


@app.callback()
def _root() -> None:
    """Quality-diversity optimization without a grid."""


@app.command(name="list")
def list_names() -> None:
    """List problems, presets, algorithms and what they take."""
    from softqd import registry
    from softqd.experiment import config

    presets = Table(
        "run", "about", "SQUAD setting", title="Problems", title_justify="left"
    )
    for name, preset in registry.PRESETS.items():
        settings = preset.algorithm_settings.get("squad", {})
        needs = f"; weights: {', '.join(preset.weights)}" if preset.weights else ""
        presets.add_row(name, preset.about + needs, _settings_text(settings))
    _console().print(presets)
    for title, table, known in (
        ("Problem settings", "problem", registry.PROBLEMS),
        ("Algorithms", "algorithm", registry.ALGORITHMS),
    ):
        rows = Table("name", "settings and defaults", title=title, title_justify="left")
        for name in known:
            wanted = dict.fromkeys(config.required_of(table, name), "...")
            defaults = config.defaults_of(table, name)
            rows.add_row(name, _settings_text(wanted | defaults))
        _console().print(rows)
    _console().print(
        "Change any setting with --set name=value. Fetch weights once, with 'softqd "
        "weights fetch NAME'.",
        highlight=False,
    )


@app.command()
def run(
    problem: Annotated[
        str,
        typer.Argument(
            help="A name from 'softqd list', module:factory, or a config.toml."
        ),
    ],
    algorithm: Annotated[str | None, typer.Option(help="Default: squad.")] = None,
    seed: Annotated[int | None, typer.Option(help="Default: 0.")] = None,
    iterations: Annotated[int | None, typer.Option(min=0)] = None,
    evaluations: Annotated[
        int | None, typer.Option(min=0, help="Stop before exceeding this many.")
    ] = None,
    max_seconds: Annotated[float | None, typer.Option(min=0)] = None,
    log_every: Annotated[int | None, typer.Option(min=1)] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Any argument of problem or algorithm."
        ),
    ] = None,
    init: Annotated[
        Path | None,
        typer.Option(help="Start from the solutions of this population file."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the folder's checkpoint.")
    ] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Draw the population while it runs.")
    ] = False,
) -> None:
    """Run an algorithm on a problem and write a run folder."""
    from softqd.experiment import config as configs
    from softqd.experiment.folder import run_into_folder

    is_file = problem.endswith(".toml")
    if is_file and algorithm is not None:
        raise UsageError("a config.toml names its algorithm; leave --algorithm out")
    config = (
        configs.from_file(problem)
        if is_file
        else configs.from_name(problem, algorithm or "squad")
    )
    limits = {
        "iterations": iterations,
        "evaluations": evaluations,
        "max_seconds": max_seconds,
    }
    if any(value is not None for value in limits.values()):
        config["run"] = {k: v for k, v in config["run"].items() if k not in limits}
    options = {**limits, "seed": seed, "log_every": log_every}
    options["init"] = str(init.resolve()) if init else None
    config["run"] |= {k: v for k, v in options.items() if v is not None}
    config = configs.with_settings(config, settings or [])
    folder = out or Path("runs") / _folder_name(config)
    try:
        outcome = run_into_folder(
            config, folder, resume=resume, progress=True, live=live
        )
    except KeyboardInterrupt as interrupt:
        raise Interrupted from interrupt
    problem_name = config["run"].get("preset", config["problem"]["name"])
    title = f"{config['algorithm']['name']} on {problem_name}"
    _print_metrics(title, outcome.metrics)
    from softqd.report.plots import save_run_figures

    for path in save_run_figures(folder / "figures", outcome.result, outcome.problem):
        _console().print(f"figure     {path}", highlight=False, soft_wrap=True)
    _console().print(f"run folder {folder}", highlight=False, soft_wrap=True)
    cli_report.announce_run(folder, *outcome)


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


@app.command()
def evaluate(
    file: _File,
    quality: _Quality = None,
    behavior: _Behavior = None,
    bounds: _Bounds = None,
    sigma: Annotated[float | None, typer.Option(help="In unit coordinates.")] = None,
    cells: Annotated[int, typer.Option(min=1)] = 512,
    seed: Annotated[int, typer.Option(help="Of the score's points.")] = 0,
    json_path: Annotated[
        Path | None, typer.Option("--json", help="Write the metrics here.")
    ] = None,
) -> None:
    """Compute all metrics of a population file."""
    from softqd.metrics import evaluate_population

    population, source = _read(file, quality, behavior)
    limits, origin = _bounds_of(file, bounds, population.behavior)
    metrics = evaluate_population(
        population, limits, cells=cells, sigma=sigma, seed=seed
    )
    metrics["settings"]["bounds"] = origin
    _print_metrics(f"{len(population.quality)} solutions of {file}", metrics)
    metrics["settings"]["source"] = source
    if json_path is not None:
        json_path.write_text(json.dumps(metrics, indent=1) + "\n")


@app.command(name="select")
def select_members(
    file: _File,
    size: Annotated[int, typer.Option(min=1, help="Members to keep.")],
    out: Annotated[Path, typer.Option(help="Where to write the smaller population.")],
    quality: _Quality = None,
    behavior: _Behavior = None,
    bounds: _Bounds = None,
    sigma: Annotated[float | None, typer.Option(help="In unit coordinates.")] = None,
    seed: Annotated[int, typer.Option(help="Of the score's points.")] = 0,
) -> None:
    """Keep the members that keep most of the Soft QD Score, best first."""
    import jax
    import numpy as np

    from softqd.experiment.result import save_population
    from softqd.metrics import default_sigma, select, to_unit

    population, _ = _read(file, quality, behavior)
    limits, origin = _bounds_of(file, bounds, population.behavior)
    b = to_unit(limits, np.asarray(population.behavior))
    if b is None:
        raise UsageError(f"{file}: the behavior space is unbounded; give --bounds")
    f = np.maximum(np.asarray(population.quality), 0.0)
    width = default_sigma(b.shape[1]) if sigma is None else sigma
    chosen, share = select(f, b, size, width, seed=seed, return_share=True)
    save_population(out, jax.tree.map(lambda x: np.asarray(x)[chosen], population))
    _console().print(
        f"kept {size} of {len(f)} solutions and {share:.1%} of the Soft QD Score "
        f"(sigma {width:.4g}, bounds {origin}): {out}",
        highlight=False,
        soft_wrap=True,
    )


def _read(file: Path, quality: str | None, behavior: str | None) -> tuple[Any, str]:
    """A population and where its parts came from, which is said."""
    from softqd.experiment.readers import read_population

    names = [name.strip() for name in behavior.split(",")] if behavior else None
    population, source = read_population(file, quality=quality, behavior=names)
    _console().print(f"read {source}", highlight=False, markup=False, soft_wrap=True)
    return population, source


def _bounds_of(file: Path, text: str | None, behavior: Any) -> tuple[Any, str]:
    """Bounds given, of the run the file belongs to, or [0, 1] if that is possible."""
    import numpy as np

    from softqd.experiment import config as configs

    dim = behavior.shape[1]
    if text is not None:
        pairs = _parse_bounds(text, dim)
        shown = " x ".join(f"[{low:g}, {high:g}]" for low, high in pairs)
        low, high = np.array(pairs, behavior.dtype).T
        outside = int(((behavior < low) | (behavior > high)).any(1).sum())
        note = f", {outside} of {len(behavior)} outside put on the border"
        return (low, high), f"{shown} as given{note if outside else ''}"
    neighbor = file.parent / "config.toml"
    if neighbor.exists():
        problem, _ = configs.build(configs.from_file(neighbor))
        return problem.bounds(dim), f"of {problem.name}, from {neighbor}"
    if behavior.min() < 0 or behavior.max() > 1:
        raise UsageError(
            f"{file}: behaviors span {behavior.min():g} to {behavior.max():g} and no "
            "run folder says their bounds; give --bounds LOW,HIGH or LOW:HIGH for each"
        )
    return (0.0, 1.0), "[0, 1], assumed"


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


def _folder_name(config: dict[str, dict[str, Any]]) -> str:
    run = config["run"]
    name = run.get("preset", config["problem"]["name"])
    text = f"{name}-{config['algorithm']['name']}-seed{run['seed']}"
    return text.replace(":", ".")


def _settings_text(settings: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _print_metrics(title: str, metrics: dict[str, Any]) -> None:
    table = Table("metric", "value", title=title, title_justify="left")
    notes = metrics["notes"]
    for name, value in metrics.items():
        hidden = ("settings", "notes", "seeds_together")
        if name in hidden or name.endswith("_stderr"):
            continue
        if value is None:
            text = f"- ({notes.get(name, 'not available')})"
        elif isinstance(value, int):
            text = f"{value:,}"
        else:
            text = f"{value:.6g}"
        error = metrics.get(f"{name}_stderr")
        table.add_row(name, text if error is None else f"{text} ± {error:.2g}")
    _console().print(table)
    used = ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in metrics["settings"].items()
    )
    _console().print(f"computed with {used}", highlight=False, soft_wrap=True)
    for name, note in notes.items():
        if metrics.get(name) is not None:
            _console().print(f"{name}: {note}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
