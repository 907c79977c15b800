"""What notebooks show of a population, a result and the like: numbers and a picture.

Plain HTML and SVG, so that nothing but NumPy is loaded. Colors follow the notebook's,
light or dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from jaxtyping import Float

WIDTH, HEIGHT, _MARGIN = 220, 150, 6
# More dots would make files of notebooks large.
_MOST_DOTS, _MOST_BEHAVIORS = 400, 4
# Viridis at five places, from low to high.
_COLORS = np.array(
    [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]]
)


def number(value: Any) -> str:
    """A number to four digits, thousands apart.

    Examples:
        >>> number(36864), number(0.123456)
        ('36,864', '0.1235')
    """
    whole = isinstance(value, (int, np.integer))
    return f"{value:,}" if whole else f"{value:.4g}"


def span(values: Any) -> str:
    """The least and the largest finite number.

    Examples:
        >>> span(np.array([1.0, np.nan, 0.25]))
        '0.25 to 1'
    """
    values = np.asarray(values)
    values = values[np.isfinite(values)]
    return f"{values.min():.4g} to {values.max():.4g}" if len(values) else "none"


def card(
    title: str, rows: Mapping[str, Any], picture: str = "", then: Sequence[str] = ()
) -> str:
    """A title, names and numbers beside a picture, and what to type next.

    Args:
        title: Plain text, as everything but the picture.
        rows: Name to number or text.
        picture: HTML.
        then: Lines of code.
    """
    cells = "".join(
        f"<tr><td style='opacity:.7'>{escape(name)}</td><td>{escape(str(value))}</td>"
        "</tr>"
        for name, value in rows.items()
    )
    code = "".join(f"<code>{escape(line)}</code><br>" for line in then)
    return (
        f"<div><b>{escape(title)}</b><div style='display:flex;gap:1.5em'>"
        f"<table>{cells}</table>{picture}</div>{code}</div>"
    )


def rows_of(population: Any) -> dict[str, str]:
    """What is said of a population: how many, and how far they reach."""
    quality, behavior = _occupied(population)
    names = [f"behavior {i + 1}" for i in range(behavior.shape[1])][:_MOST_BEHAVIORS]
    spans = {name: span(b) for name, b in zip(names, behavior.T, strict=False)}
    count = {"solutions": f"{len(quality):,}", "quality": span(quality)}
    more = behavior.shape[1] - len(names)
    return {**count, **spans, **({"more behaviors": str(more)} if more else {})}


def picture_of(population: Any) -> str:
    """The first two behaviors of a population, or one and the quality."""
    quality, behavior = _occupied(population)
    columns = np.column_stack([behavior, quality])[:, :2]
    up = "behavior 2" if behavior.shape[1] > 1 else "quality"
    return dots(columns, quality, f"behavior 1, {up} upwards; color: quality")


def _occupied(population: Any) -> tuple[np.ndarray, np.ndarray]:
    arrays = population.quality, population.behavior, population.occupied
    quality, behavior, occupied = map(np.asarray, arrays)
    return quality[occupied].astype(float), behavior[occupied].astype(float)


def dots(
    points: Float[np.ndarray, "n 2"], values: Float[np.ndarray, " n"], label: str = ""
) -> str:
    """Points as an SVG picture, colored from the least to the largest value."""
    points, values = np.asarray(points, float), np.asarray(values, float)
    keep = np.flatnonzero(np.isfinite(points).all(1) & np.isfinite(values))
    if not len(keep):
        return ""
    if len(keep) > _MOST_DOTS:
        keep = keep[np.linspace(0, len(keep) - 1, _MOST_DOTS).astype(int)]
    x, y = _shares(points[keep]).T
    colors = _colors(_shares(values[keep, None])[:, 0])
    room = np.array([WIDTH, HEIGHT]) - 2 * _MARGIN
    marks = "".join(
        f"<circle cx='{_MARGIN + a * room[0]:.1f}' r='2.5' "
        f"cy='{HEIGHT - _MARGIN - b * room[1]:.1f}' fill='{color}'/>"
        for a, b, color in zip(x, y, colors, strict=True)
    )
    return _picture(marks, label)


def strips(rows: Mapping[str, Sequence[float]], label: str = "") -> str:
    """Numbers as dots, a line for each name, on one scale."""
    arrays = {name: np.asarray(x, float) for name, x in rows.items()}
    finite = {name: x[np.isfinite(x)] for name, x in arrays.items()}
    everything = np.concatenate([*finite.values(), np.zeros(0)])
    if not len(everything):
        return ""
    low, width = everything.min(), np.ptp(everything) or 1.0
    step, marks = HEIGHT / len(finite), []
    for i, (name, values) in enumerate(finite.items()):
        y = (i + 0.7) * step
        marks.append(
            f"<text x='0' y='{y - 8:.1f}' font-size='10' fill='currentColor'>"
            f"{escape(name)}</text>"
        )
        marks += [
            f"<circle cx='{_MARGIN + (v - low) / width * (WIDTH - 2 * _MARGIN):.1f}' "
            f"cy='{y:.1f}' r='3' fill='#31688e' fill-opacity='.6'/>"
            for v in values
        ]
    return _picture("".join(marks), label)


def _picture(marks: str, label: str) -> str:
    return (
        f"<figure style='margin:0'><svg width='{WIDTH}' height='{HEIGHT}' "
        f"style='border:1px solid #8886'>{marks}</svg>"
        f"<figcaption style='opacity:.7'>{escape(label)}</figcaption></figure>"
    )


def _shares(columns: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    low, width = columns.min(0), np.ptp(columns, axis=0)
    return np.where(width > 0, (columns - low) / np.where(width > 0, width, 1.0), 0.5)


def _colors(shares: Float[np.ndarray, " n"]) -> list[str]:
    places = np.linspace(0, 1, len(_COLORS))
    parts = [np.interp(shares, places, column) for column in _COLORS.T]
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in np.stack(parts, 1).astype(int)]
