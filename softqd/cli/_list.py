"""``softqd list``: what there is."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table


def list_names() -> None:
    """List problems, presets, algorithms and what they take."""
    from softqd import registry
    from softqd.experiment import config

    presets = Table(
        "run", "about", "published SQUAD", title="Problems", title_justify="left"
    )
    for name, preset in registry.PRESETS.items():
        settings = preset.algorithm_settings.get("squad_published", {})
        needs = f"; weights: {', '.join(preset.weights)}" if preset.weights else ""
        needs += f"; extra: {preset.extra}" if preset.extra else ""
        presets.add_row(name, preset.about + needs, _settings_text(settings))
    Console().print(presets)
    for title, table, known in (
        ("Problem settings", "problem", registry.PROBLEMS),
        ("Algorithms", "algorithm", registry.ALGORITHMS),
    ):
        rows = Table("name", "settings and defaults", title=title, title_justify="left")
        for name in known:
            settings = config.settings_of(table, name)
            wanted = {k: "..." for k, s in settings.items() if s.is_required}
            defaults = {k: s.default for k, s in settings.items() if k not in wanted}
            rows.add_row(name, _settings_text(wanted | defaults))
        Console().print(rows)
    Console().print(
        "Change any setting with --set name=value. Fetch weights once, with 'softqd "
        "weights fetch NAME', and install extras with 'pip install softqd[NAME]'.",
        highlight=False,
    )


def _settings_text(settings: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())
