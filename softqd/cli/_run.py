"""``softqd run``: one run into a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from softqd.cli._deterministic import Deterministic
from softqd.cli._devices import Devices, Distributed, mesh_over
from softqd.cli._errors import UsageError, interruptible
from softqd.cli._metrics import print_metrics, say
from softqd.cli._report import announce_run
from softqd.cli._workers import Dask, Workers, working


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
    workers: Workers = None,
    dask: Dask = None,
    devices: Devices = None,
    distributed: Distributed = False,
    deterministic: Deterministic = False,
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Import the modules that a config.toml names."),
    ] = False,
) -> None:
    """Run an algorithm on a problem and write a run folder."""
    from softqd.experiment import config as configs
    from softqd.experiment.folder import run_into_folder
    from softqd.page.figures import save_run_figures

    mesh = mesh_over(devices, distributed)  # first: processes meet before JAX is used
    is_file = problem.endswith(".toml")
    if is_file and algorithm is not None:
        raise UsageError("a config.toml names its algorithm; leave --algorithm out")
    config = (
        configs.from_file(problem, trust=trust)
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

    def show(result: Any) -> None:
        problem_name = config["run"].get("preset", config["problem"]["name"])
        title = f"{config['algorithm']['name']} on {problem_name}"
        print_metrics(title, result.metrics)
        for path in save_run_figures(folder / "figures", result):
            say(f"figure     {path}")
        say(f"run folder {folder}")
        announce_run(folder, result)

    with (
        interruptible("continue with the same command and --resume"),
        working(config, workers, dask),
    ):
        run_into_folder(
            config,
            folder,
            resume=resume,
            progress=True,
            live=live,
            mesh=mesh,
            then=show,
        )


def _folder_name(config: dict[str, dict[str, Any]]) -> str:
    run = config["run"]
    name = run.get("preset", config["problem"]["name"])
    text = f"{name}-{config['algorithm']['name']}-seed{run['seed']}"
    return text.replace(":", ".")
