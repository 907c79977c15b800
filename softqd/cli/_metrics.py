"""How commands show the metrics of a population."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


def say(line: str) -> None:
    """A line as it is: no name in it is taken for markup, and it is not broken."""
    from softqd.experiment.files.schema import printable

    Console().print(printable(line), highlight=False, markup=False, soft_wrap=True)


def print_metrics(title: str, metrics: dict[str, Any]) -> None:
    """A table, and what the metrics were computed with."""
    table = Table("metric", "value", title=Text(title), title_justify="left")
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
        table.add_row(name, Text(text if error is None else f"{text} ± {error:.2g}"))
    Console().print(table)
    used = ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in metrics["settings"].items()
        if name != "behavior_units"
    )
    say(f"computed with {used}")
    for name, note in notes.items():
        if name not in metrics or metrics[name] is not None:
            say(f"{name}: {note}")
