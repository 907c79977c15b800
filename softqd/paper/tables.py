"""Tables and verdicts of a reproduction, for the terminal and for pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from rich import box
from rich.table import Table

from softqd.experiment.words import NAMES
from softqd.paper.agreement import Agreement, agreement, mean_of, paper_tables
from softqd.paper.cases import LP_ROWS, LSI_ROWS, METHODS, Case, Cell
from softqd.paper.catalog import Reproduction
from softqd.paper.claims import CLAIMS, Claim
from softqd.paper.record import Record, is_quick

QUICK = "quick"
QUICK_NOTE = (
    "Quick version: a small problem, few iterations and few seeds. The paper's numbers "
    "are shown for orientation and cannot be compared with these."
)
LEGEND = (
    "± standard error over seeds; apart: the difference in combined standard errors, "
    "after half a printed digit; it agrees up to 3; of one seed, in percent"
)
_NUMBERS = ("softqd", "paper", "apart", "verdict")
# The paper's columns of run times.
WALLCLOCK = {p: p.replace("-", "_") for p in (*LP_ROWS, "ic", *LSI_ROWS)}


class Sheet(NamedTuple):
    """A table of texts."""

    title: str
    heads: list[str]
    rows: list[list[str]]


def title_of(spec: Reproduction, records: Iterable[Record]) -> str:
    """The title, labeled where the runs were a small version."""
    return spec.title + (f" ({QUICK})" if any(map(is_quick, records)) else "")


def beside_paper(case: Case, record: Record) -> dict[str, Agreement]:
    """A record against the paper's cells, metric by metric."""
    return {
        metric: agreement(record["metrics"][metric], cell)
        for metric, cell in case.paper.items()
    }


def units_of(spec: Reproduction) -> dict[str, Cell]:
    """Metric to a cell in the unit and with the digits that its column is shown in."""
    units = {metric: Cell((), 2) for metric in spec.metrics}
    units |= {"coverage": Cell((), 2, 100.0), "qd_score": Cell((), 0)}
    for case in spec.cases:
        units |= case.paper
    return {metric: units[metric] for metric in spec.metrics}


def heads_of(spec: Reproduction) -> dict[str, str]:
    """Metric to the head of its column, with its unit."""
    marks = {100.0: " %", 1e-3: " / 1000"}
    units = units_of(spec)
    return {m: NAMES[m] + marks.get(cell.factor, "") for m, cell in units.items()}


def found_cases(
    spec: Reproduction, records: Mapping[str, Record]
) -> list[tuple[Case, Record]]:
    """Cases with their records, those there are."""
    named = {(r["preset"], _algorithm(r), r["variant"]): r for r in records.values()}
    pairs = [(c, named.get((c.preset, c.algorithm, c.variant))) for c in spec.cases]
    return [(case, record) for case, record in pairs if record is not None]


def table_of(spec: Reproduction, records: Mapping[str, Record]) -> Sheet:
    """One row per case and metric: ours, the paper's, how far apart, and a verdict."""
    units, heads = units_of(spec), heads_of(spec)
    rows = []
    for case, record in found_cases(spec, records):
        found = beside_paper(case, record)
        for metric, cell in units.items():
            ours = mean_of(record["metrics"][metric], cell.factor)
            start = [case.preset, case.label, str(len(record["seeds"])), heads[metric]]
            end = _end(found.get(metric), cell, is_quick(record))
            rows.append([*start, ours.text(cell.digits), *end])
    heads_all = ["problem", "case", "seeds", "metric", *_NUMBERS]
    return Sheet(title_of(spec, records.values()), heads_all, rows)


def _end(found: Agreement | None, cell: Cell, quick: bool) -> list[str]:
    if found is None:
        return ["-", "-", QUICK if quick else "-"]
    paper = found.paper.text(cell.digits)
    return [
        paper,
        *(["-", QUICK] if quick else [found.apart, found.verdict]),
    ]


def wide_table(spec: Reproduction, records: Mapping[str, Record]) -> Sheet:
    """One row per case: ours, the paper's and the distance in one cell."""
    units, rows = units_of(spec), []
    for case, record in found_cases(spec, records):
        found = beside_paper(case, record)
        cells = []
        for metric, cell in units.items():
            ours = mean_of(record["metrics"][metric], cell.factor).text(cell.digits)
            beside = found.get(metric)
            if beside is not None:
                ours = f"**{ours}**" if beside.verdict == "differs" else ours
                ours += f"<br>{beside.paper.text(cell.digits)}<br>{beside.apart}"
            cells.append(ours)
        rows.append([case.preset, case.label, str(len(record["seeds"])), *cells])
    heads = ["problem", "case", "seeds", *heads_of(spec).values()]
    return Sheet(title_of(spec, records.values()), heads, rows)


def wallclock_table(records: Mapping[str, Record], title: str) -> Sheet:
    """Methods by problems: seconds of all our seeds together, the paper's minutes."""
    published = {
        (_algorithm(r), r["preset"]): r
        for r in records.values()
        if r["variant"] == "published"
    }
    paper = paper_tables()["tab:wallclock (minutes)"]
    rows = []
    for algorithm, name in METHODS.items():
        row = [name]
        for preset, column in WALLCLOCK.items():
            minutes = paper[name][paper["columns"].index(column)]
            record = published.get((algorithm, preset))
            ours = "not run"
            if record is not None:
                ours = f"{record['seconds']:.1f} s for {len(record['seeds'])}"
            row.append(f"{ours}; {minutes} min")
        rows.append(row)
    return Sheet(title, ["ours, all seeds; the paper's, one", *WALLCLOCK], rows)


def claims_of(spec: Reproduction, records: Mapping[str, Record]) -> list[Claim]:
    """What the paper's text says of it, and whether that holds in these records."""
    named = {
        (case.preset, case.algorithm, case.variant): record
        for case, record in found_cases(spec, records)
    }
    return [claim for name in spec.claims for claim in CLAIMS[name](named)]


def summary_of(spec: Reproduction, records: Mapping[str, Record]) -> str:
    """How many cells agree with the paper's; empty where it prints none."""
    pairs = found_cases(spec, records)
    found = [a for case, r in pairs for a in beside_paper(case, r).values()]
    if not found or any(is_quick(record) for _, record in pairs):
        return ""
    single = [abs(a.percent) for a in found if a.is_one_seed]
    texts = []
    if judged := [a.is_within for a in found if not a.is_one_seed]:
        texts.append(
            f"{sum(judged)} of {len(judged)} cells are within three combined standard "
            "errors of the paper's."
        )
    if single:
        texts.append(
            f"{len(single)} cells come from one seed and cannot be judged so; they "
            f"differ from the paper's by {np.median(single):.1f}% in the median, "
            f"{max(single):.1f}% at most."
        )
    return " ".join(texts)


def notes_of(spec: Reproduction, records: Mapping[str, Record]) -> list[str]:
    """What to know before believing it: quick runs, few seeds, what was not run."""
    pairs = found_cases(spec, records)
    notes = [QUICK_NOTE] if any(is_quick(r) for _, r in pairs) else []
    fewer = [
        f"{case.label} on {case.preset} ({len(record['seeds'])} of {len(case.seeds)})"
        for case, record in pairs
        if len(record["seeds"]) < len(case.seeds) and not is_quick(record)
    ]
    if fewer:
        # Said once where it is the same everywhere.
        counts = {(len(record["seeds"]), len(case.seeds)) for case, record in pairs}
        (num, wanted), *more = counts
        text = ", ".join(fewer) if more else f"{num} of {wanted} in every case"
        notes.append(f"Fewer seeds than the paper's: {text}.")
    there = {id(case) for case, _ in pairs}
    missing = [
        f"{case.label} on {case.preset}" for case in spec.cases if id(case) not in there
    ]
    if missing and pairs:
        notes.append(f"Not run: {', '.join(missing)}.")
    return notes


def claim_lines(claims: Iterable[Claim], quick: bool = False) -> list[str]:
    """One line per claim; what holds in a small version is said to hold there."""
    mark = f" ({QUICK})" if quick else ""
    return [f"{c.verdict}{mark}: {c.text}. Found: {c.found}." for c in claims]


def markdown(sheet: Sheet) -> str:
    """A sheet as a table of Markdown."""
    lines = ["| " + " | ".join(sheet.heads) + " |", "|---" * len(sheet.heads) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in sheet.rows]
    return "\n".join(lines)


def rich_table(sheet: Sheet) -> Table:
    """A sheet for the terminal."""
    table = Table(
        title=sheet.title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=0,
        pad_edge=False,
    )
    for head in sheet.heads:
        # Names may wrap, and be cut where they must.
        table.add_column(head, no_wrap=head in _NUMBERS, overflow="fold")
    for row in sheet.rows:
        table.add_row(*row)
    return table


def sheet_of(spec: Reproduction, records: Mapping[str, Record]) -> Sheet:
    """The table that a reproduction prints: of metrics, or of run times."""
    if not spec.metrics:
        return wallclock_table(records, title_of(spec, records.values()))
    return table_of(spec, records)


def page_of(spec: Reproduction, records: Mapping[str, Record]) -> str:
    """Table, claims and notes as Markdown."""
    sheet = sheet_of(spec, records)
    quick = any(map(is_quick, records.values()))
    claims = claim_lines(claims_of(spec, records), quick)
    parts = [
        f"# {sheet.title}",
        spec.about,
        *notes_of(spec, records),
        markdown(sheet),
        summary_of(spec, records),
        "\n".join(f"- {line}" for line in claims),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _algorithm(record: Record) -> str:
    return record["config"]["algorithm"]["name"]
