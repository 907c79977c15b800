"""The command group ``softqd weights``: list, fetch, convert, check."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from softqd.cli._errors import interruptible

app = typer.Typer(
    no_args_is_help=True,
    help="Pretrained weights of image problems: fetched once, kept in the cache.",
)

_PIP = "pip download --no-deps --only-binary=:all: "
_Name = Annotated[str, typer.Argument(help="A name from 'softqd weights list'.")]


@app.command(name="list")
def list_weights() -> None:
    """Show what can be fetched, from where and under which license."""
    from softqd.networks import weights

    for name in weights.CATALOG:
        _describe(name)


@app.command()
def fetch(name: _Name) -> None:
    """Download a model into the cache, verify it and convert it if need be."""
    from softqd.networks import weights

    _describe(name)
    how = f"'softqd weights fetch {name}' continues there"
    with interruptible(how), _progress() as report:
        path = weights.fetch(name, report=report)
    _say(f"{name}: {path}")


@app.command()
def convert(
    file: Annotated[Path, typer.Argument(help="A pickle of stylegan2-ada-pytorch.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="A .safetensors file. Default: the cache for an official file, beside "
            "FILE for another."
        ),
    ] = None,
) -> None:
    """Turn an official StyleGAN2 pickle into safetensors, executing nothing of it."""
    from softqd.networks import weights

    path, note = weights.convert(file, out)
    _say(f"{path}: {note}")


@app.command()
def check(
    name: Annotated[str | None, typer.Argument(help="Default: all.")] = None,
) -> None:
    """Say of each model whether it is in the cache and sound."""
    from softqd.networks import weights

    found = {
        each: weights.check(each) for each in ([name] if name else weights.CATALOG)
    }
    for each, status in found.items():
        _say(f"{each}: {status.state}; {status.note}")
    for each, status in found.items():
        # A model not fetched is a fault only if it was asked for.
        if status.state == "damaged" or (name and status.state == "absent"):
            raise ValueError(f"{each} is {status.state}: {status.note}")


def _describe(name: str) -> None:
    from softqd.networks import weights
    from softqd.networks.weights import PIP

    entry = weights.entry(name)
    size = sum(file.size for file in entry.files) / 1e6
    there = "in the cache" if weights.is_present(name) else "not in the cache"
    _say(f"[bold]{name}[/bold]  {escape(entry.about)}", markup=True)
    _say(f"  license   {entry.license}")
    _say(f"  source    {entry.source}")
    for file in entry.files:
        _say(f"  download  {file.url.replace(PIP, _PIP)}")
    _say(f"  size      {size:,.0f} MB, {there}")


def _say(text: str, markup: bool = False) -> None:
    Console().print(text, highlight=False, markup=markup, soft_wrap=True)


@contextmanager
def _progress() -> Any:
    """Yields what makes a progress bar on standard error for each file."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    progress = Progress(*columns, console=Console(stderr=True))

    def report(file: str) -> Any:
        progress.start()  # not before: pip shows its own
        task = progress.add_task(file, total=None)
        return lambda done, total: progress.update(task, completed=done, total=total)

    try:
        yield report
    finally:
        progress.stop()
