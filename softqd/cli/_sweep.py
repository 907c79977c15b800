"""``softqd sweep``: search for the settings of an algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from softqd.cli._deterministic import Deterministic
from softqd.cli._errors import interruptible
from softqd.cli._metrics import say
from softqd.cli._tables import sweep_table


def sweep(
    problem: Annotated[
        str, typer.Argument(help="A name from 'softqd list', or module:factory.")
    ],
    grid: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=VALUE,VALUE", help="Values to try; may be repeated."
        ),
    ],
    algorithm: Annotated[str, typer.Option(help="The one to tune.")] = "squad",
    seeds: Annotated[
        str, typer.Option(metavar="N|FIRST-LAST", help="How many, or which.")
    ] = "3",
    metric: Annotated[str, typer.Option(help="What must be high.")] = "qvs",
    iterations: Annotated[int | None, typer.Option(min=1)] = None,
    evaluations: Annotated[
        int | None, typer.Option(min=1, help="Budget of every run instead.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A setting that all runs have."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the experiment.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes, on the CPU.")] = 1,
    deterministic: Deterministic = False,
) -> int:
    """Find the best settings of an algorithm; called again, it continues."""
    from softqd.experiment.many.grid import parse_grid
    from softqd.experiment.many.plan import parse_seeds
    from softqd.experiment.many.sweep import PRESET_FILE
    from softqd.experiment.many.sweep import sweep as run_sweep
    from softqd.experiment.words import LEGEND
    from softqd.plot import save_figure, setting_curves

    name = f"{problem}-{algorithm}-sweep".replace(":", ".")
    folder = out or Path("runs") / name
    with interruptible():
        found = run_sweep(
            problem,
            algorithm,
            parse_grid(grid),
            parse_seeds(seeds),
            metric=metric,
            iterations=iterations,
            evaluations=evaluations,
            settings=settings or [],
            out=folder,
            jobs=jobs,
            progress=True,
        )
    Console().print(sweep_table(found))
    picture = save_figure(setting_curves(found), folder / "figures" / "sweep.png")
    preset = folder / PRESET_FILE
    trust = " --trust" * (":" in problem or ":" in algorithm)
    lines = [LEGEND, *(f"warning: {text}" for text in found.warnings)]
    lines += [f"best by {metric}: {found.best}"]
    lines += [f"wrote {folder / 'sweep.json'}, comparison.csv and {picture}"]
    lines += [
        f"use it with 'softqd run {preset}{trust}', or in a comparison, with other "
        f"seeds: softqd compare {problem} --algorithms {algorithm},... "
        f"--preset {preset} --seeds 100-109"
    ]
    for line in lines:
        say(line)
    return int(any(e.failures for e in found.comparison.algorithms.values()))
