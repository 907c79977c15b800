"""How commands show the metrics of a population."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table


def print_metrics(title: str, metrics: dict[str, Any]) -> None:
    """A table, and what the metrics were computed with."""
    console = Console()
    table = Table("metric", "value", title=title, title_justify="left")
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
        table.add_row(name, text if error is None else f"{text} ± {error:.2g}")
    console.print(table)
    used = ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in metrics["settings"].items()
        if name != "behavior_units"
    )
    console.print(f"computed with {used}", highlight=False, soft_wrap=True)
    for name, note in notes.items():
        if name not in metrics or metrics[name] is not None:
            console.print(f"{name}: {note}", highlight=False, soft_wrap=True)
