"""``softqd report``: one HTML page about runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from softqd.cli._metrics import say

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
        int, typer.Option(min=0, help="Most pictures to show, where there are any.")
    ] = 1000,
) -> None:
    """Write one self-contained HTML page about a run, or about several."""
    from softqd.page.report import write_report

    announce(write_report(folders, out, pictures=pictures))


def announce_run(folder: Path, result: Any) -> None:
    """Write the page of a run that has just ended, and say where it is."""
    from softqd.page.report import write_run_report

    path = folder / "report.html"
    announce(write_run_report(path, result, pictures=_PICTURES_OF_A_RUN))


def announce(path: Path) -> None:
    """Say where a page is."""
    say(f"report     {path}")
