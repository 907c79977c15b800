"""What all figures share: sizes, fonts, colors, and how they are saved.

Quality is viridis and light is inferno, both readable in print and with color-blind
eyes; things that are told apart have the colors of Okabe and Ito, and markers too.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure as _Figure

from softqd.experiment.files.whole import write_whole

STYLE: dict[Any, Any] = {
    "figure.dpi": 120,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "pdf.fonttype": 42,  # text stays text, as journals ask
    "svg.hashsalt": "softqd",
}
QUALITY = "viridis"
LIGHT = "inferno"
# Steps of viridis, for a single thing and for mean and best of one.
ONE, MEAN, BEST = "#31688e", "#35b779", "#440154"
# Okabe and Ito (2008), without yellow, which is too light for lines.
PALETTE = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)
MARKERS = "os^Dv*P"
FORMATS = (".pdf", ".png", ".svg")
# Above so many marks, they are pixels in a vector file, which stays small.
MAX_VECTOR_MARKS = 2000


class Figure(_Figure):
    """A figure of matplotlib that notebooks show by themselves."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


@contextmanager
def drawing(width: float, height: float, **changes: Any) -> Iterator[Figure]:
    """An empty figure to draw on, in the style of all others.

    Args:
        width: In inches.
        height: In inches.
        **changes: Settings of matplotlib over `STYLE`, with ``_`` for dots.

    Examples:
        >>> with drawing(4.2, 2.8, axes_grid=False) as figure:
        ...     line, = figure.subplots().plot([1, 2, 4], **look(0))
        >>> line.get_color()
        '#0072B2'
    """
    settings = dict(STYLE)
    settings |= {name.replace("_", "."): value for name, value in changes.items()}
    with matplotlib.rc_context(settings):
        yield Figure(figsize=(width, height), layout="constrained")


def color_bar(
    figure: Figure, grid: Any, span: tuple[float, float], label: str, colors: str
) -> None:
    """A scale from low to high beside some axes."""
    scale = ScalarMappable(Normalize(*span), colors)
    figure.colorbar(scale, ax=list(grid), label=label, shrink=0.8)


def plain(text: str) -> str:
    r"""A user's words as they are: matplotlib takes what is between dollars for math.

    Examples:
        >>> print(plain("$5 to $10"))
        \$5 to \$10
    """
    return text.replace("$", r"\$")


def look(number: int) -> dict[str, Any]:
    """Color and marker of a line or group of marks, counted from 0.

    Examples:
        >>> look(1)
        {'color': '#D55E00', 'marker': 's'}
    """
    place = number % len(PALETTE)
    marker = MARKERS[(number + number // len(PALETTE)) % len(MARKERS)]
    return {"color": PALETTE[place], "marker": marker}


def save_figure(figure: Figure, path: str | Path, dpi: int | None = None) -> Path:
    """Write a figure as PDF, PNG or SVG, the same bytes every time.

    Args:
        figure: From any function of `softqd.plot`.
        path: Where to; its ending says the format.
        dpi: Pixels per inch of a PNG, and of what is pixels in the others.

    Raises:
        ValueError: If the ending is another.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(
            f"a figure is written as {', '.join(FORMATS)}; got {path.name!r}; write "
            f"for example {path.stem}.pdf"
        )
    no_date = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
    kind = path.suffix.lower()
    options = {
        "format": kind[1:],
        "metadata": no_date.get(kind),
        "dpi": dpi or "figure",
    }
    with matplotlib.rc_context(STYLE):
        return write_whole(path, lambda file: figure.savefig(file, **options))
