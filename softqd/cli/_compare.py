"""``softqd compare``: algorithms against each other on one problem."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from softqd.cli._deterministic import Deterministic
from softqd.cli._errors import UsageError, interruptible
from softqd.cli._metrics import say
from softqd.cli._report import announce
from softqd.cli._tables import budget_table, comparison_table
from softqd.cli._workers import Dask, Workers, working


def compare(
    problem: Annotated[
        str,
        typer.Argument(help="A name from 'softqd list', or module:factory."),
    ],
    algorithms: Annotated[
        str, typer.Option(metavar="NAME,NAME", help="Names from 'softqd list'.")
    ],
    seeds: Annotated[
        str, typer.Option(metavar="N|FIRST-LAST", help="How many, or which.")
    ] = "10",
    evaluations: Annotated[
        int | None,
        typer.Option(min=1, help="Of every run; default: the smallest preset's."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[ALGORITHM.]NAME=VALUE",
            help="A setting of the problem, or of one algorithm.",
        ),
    ] = None,
    preset: Annotated[
        list[Path] | None,
        typer.Option(help="Tuned settings that 'softqd sweep' wrote."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the experiment.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes, on the CPU.")] = 1,
    figures: Annotated[
        bool, typer.Option("--figures", help="Also draw those of every run.")
    ] = False,
    workers: Workers = None,
    dask: Dask = None,
    deterministic: Deterministic = False,
) -> int:
    """Compare algorithms on a problem; called again, it continues."""
    from softqd.experiment.config import from_name
    from softqd.experiment.many.compare import compare as run_comparison
    from softqd.experiment.many.experiment_folder import ExperimentFolder
    from softqd.experiment.many.plan import parse_seeds
    from softqd.experiment.words import LEGEND
    from softqd.page.figures import save_experiment_figures
    from softqd.page.report import write_report

    folder = out or Path("runs") / f"{problem.replace(':', '.')}-comparison"
    if jobs > 1 and (workers or dask):
        raise UsageError(
            "--jobs shares out runs, --workers and --dask the evaluations of each; "
            "leave --jobs out"
        )
    config = from_name(problem)
    with interruptible(), working(config, workers, dask):
        found = run_comparison(
            problem,
            [name.strip() for name in algorithms.split(",")],
            parse_seeds(seeds),
            evaluations=evaluations,
            settings=settings or [],
            presets=preset or [],
            out=folder,
            jobs=jobs,
            progress=True,
        )
    Console().print(budget_table(found), comparison_table(found))
    lines = [LEGEND, *(f"warning: {text}" for text in found.warnings)]
    lines += [f"{metric}: {why}" for metric, why in found.notes.items()]
    lines += [f"wrote {folder / 'comparison.json'} and comparison.csv"]
    paths = save_experiment_figures(ExperimentFolder(folder), each_run=figures)
    lines += [f"figure {path}" for path in paths]
    for line in lines:
        say(line)
    announce(write_report([folder], pictures=100))
    return int(any(entry.failures for entry in found.algorithms.values()))
