"""Figures of results, for notebooks and papers: every function returns a Figure.

`value_map(result, problem)` and the like take a `softqd.Result`, a `softqd.Population`
or a pair ``(quality, behavior)``; the figures of several runs take what
`softqd.compare` and `softqd.sweep` return. `figure.savefig` or `save_figure` write one.
"""

from softqd.plot._cells import archives, cells, cells_and_value
from softqd.plot._comparison import curves, distributions, setting_curves, tradeoff
from softqd.plot._history import bandwidth, histories, history
from softqd.plot._pictures import gallery, picture_table, representatives
from softqd.plot._population import parallel_coordinates, quality_histogram, scatter
from softqd.plot._style import PALETTE, STYLE, Figure, drawing, look, save_figure
from softqd.plot._value import surfaces, value_map, value_maps

__all__ = [
    "PALETTE",
    "STYLE",
    "Figure",
    "archives",
    "bandwidth",
    "cells",
    "cells_and_value",
    "curves",
    "distributions",
    "drawing",
    "gallery",
    "histories",
    "history",
    "look",
    "parallel_coordinates",
    "picture_table",
    "quality_histogram",
    "representatives",
    "save_figure",
    "scatter",
    "setting_curves",
    "surfaces",
    "tradeoff",
    "value_map",
    "value_maps",
]
