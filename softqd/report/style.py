"""What all figures share."""

from __future__ import annotations

from typing import Any

STYLE: dict[Any, Any] = {
    "figure.dpi": 120,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
}
