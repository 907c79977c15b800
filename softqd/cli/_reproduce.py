"""``softqd reproduce``: tables and figures of the paper, ours beside the paper's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from softqd.cli._errors import UsageError, interruptible

if TYPE_CHECKING:
    from softqd.paper.run import Outcome


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="A name that --list shows.")
    ] = None,
    show_names: Annotated[
        bool, typer.Option("--list", help="Show what can be reproduced.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version, minutes on a CPU.")
    ] = False,
    seeds: Annotated[
        str | None,
        typer.Option(metavar="N|FIRST-LAST", help="Default: the paper's, 3 if quick."),
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=PATH",
            help="Where a file is: target, generator or scorer.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of runs, records and figures.")] = (
        Path("runs") / "reproduce"
    ),
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Run nothing: a folder of records."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes, on the CPU.")] = 1,
) -> int:
    """Rebuild a table or figure of the paper; called again, it continues."""
    if show_names:
        _print_names()
        return 0
    if name is None:
        raise UsageError("say what: run 'softqd reproduce --list' for all names")
    from softqd.experiment.many.plan import parse_seeds
    from softqd.paper import run

    if source is not None:
        outcome = run.from_records(name, source, quick=quick)
    else:
        with interruptible():
            outcome = run.reproduce(
                name,
                out,
                quick=quick,
                seeds=_seeds(seeds, parse_seeds),
                files=files or [],
                jobs=jobs,
                progress=True,
            )
    _print_outcome(name, outcome, quick)
    _write(name, outcome, out, source or out / "records", quick)
    return int(bool(outcome.failures))


def _seeds(text: str | None, parse) -> int | list[int] | None:
    """A bare number says how many of the published seeds; the rest says which."""
    if text is None:
        return None
    return int(text) if text.isdecimal() else parse(text)


def _print_names() -> None:
    from softqd.paper.catalog import REPRODUCTIONS

    table = Table("name", "what", "runs", title="Reproductions", title_justify="left")
    for name, spec in REPRODUCTIONS.items():
        runs = sum(len(case.seeds) for case in spec.cases)
        table.add_row(name, f"{spec.title}. {spec.about}", str(runs))
    Console().print(table)


def _print_outcome(name: str, outcome: Outcome, quick: bool) -> None:
    from softqd.paper import tables
    from softqd.paper.catalog import find

    spec, found = find(name), outcome.records
    console = Console()
    if found:
        console.print(tables.rich_table(tables.sheet_of(spec, found)))
    lines = [tables.LEGEND] if found and spec.metrics else []
    lines += [tables.summary_of(spec, found)]
    lines += tables.claim_lines(tables.claims_of(spec, found), quick)
    lines += tables.notes_of(spec, found)
    lines += [
        f"warning: {case} failed with seed {seed}: {error}"
        for case, failures in outcome.failures.items()
        for seed, error in failures.items()
    ]
    for line in filter(None, lines):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _write(name: str, outcome: Outcome, out: Path, records: Path, quick: bool) -> None:
    """The table as Markdown, and the figures where they can be drawn."""
    from softqd.experiment.files.whole import write_whole
    from softqd.paper.catalog import find
    from softqd.paper.tables import QUICK, page_of

    if not outcome.records:
        return
    spec = find(name)
    page = out / (f"{name}_{QUICK}.md" if quick else f"{name}.md")
    write_whole(page, page_of(spec, outcome.records))
    written = [page]
    console = Console()
    try:
        from softqd.paper.figure_files import write_figures
    except ImportError as error:
        console.print(
            f"no figures: {error}; draw them where matplotlib is installed with "
            f"'softqd reproduce {name} --from {records}'",
            highlight=False,
            soft_wrap=True,
        )
    else:
        found, runs = outcome.records, outcome.runs
        written += write_figures(name, spec, found, out / "figures", runs)
    for path in written:
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
