"""``softqd report``: one HTML page about runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

# A run ends with a page at once; 'softqd report' draws more.
_PICTURES_OF_A_RUN = 100


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR", help="Run folders, or a folder of 'softqd compare'."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The file; default: report.html in DIR.")
    ] = None,
    pictures: Annotated[
        int, typer.Option(min=0, help="Most solutions to draw, where one can.")
    ] = 1000,
) -> None:
    """Write one self-contained HTML page about a run, or about several."""
    from softqd.page.report import write_report

    announce(write_report(folders, out, pictures=pictures))


def announce_run(
    folder: Path, result: Any, metrics: dict[str, Any], problem: Any
) -> None:
    """Write the page of a run that has just ended, and say where it is."""
    from softqd.page.reading import Run
    from softqd.page.report import write_run_report

    run = Run(result, metrics, problem)
    path = folder / "report.html"
    announce(write_run_report(path, run, pictures=_PICTURES_OF_A_RUN))


def announce(path: Path) -> None:
    """Say where a page is."""
    Console().print(f"report     {path}", highlight=False, markup=False, soft_wrap=True)
