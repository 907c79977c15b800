"""``softqd figure``: figures for papers, from folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from softqd.cli._metrics import say
from softqd.cli._tables import kinds_table


def figure(
    kind: Annotated[str, typer.Argument(help="What to draw; 'list' shows the kinds.")],
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DIR...", help="Of a run, a comparison or a sweep."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help=".pdf, .png or .svg.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="What to draw, in curves, distributions and sweep."),
    ] = None,
    dpi: Annotated[int, typer.Option(min=1, help="Of a PNG.")] = 300,
) -> None:
    """Draw a figure of a run, a comparison or a sweep."""
    from softqd.page.figures import KINDS, draw_figure
    from softqd.plot import save_figure

    if kind == "list":
        Console().print(kinds_table(KINDS))
        return
    path = out or Path(f"{kind}.pdf")
    drawn = draw_figure(kind, folders or [], metric)
    say(f"wrote {save_figure(drawn, path, dpi)}")
