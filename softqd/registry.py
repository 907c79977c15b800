"""Names for the command line and configurations: problems, algorithms, presets."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from softqd import algorithms, problems

PROBLEMS: dict[str, Callable] = {
    "arm": problems.arm,
    "image_composition": problems.image_composition,
    "linear_projection": problems.linear_projection,
    "sphere": problems.sphere,
}

ALGORITHMS: dict[str, Callable] = {
    "dns": algorithms.dns,
    "dns_g": algorithms.dns_g,
    "squad": algorithms.squad,
}

# What can be fetched once: each returns the path in the cache.
DOWNLOADS: dict[str, Callable] = {"vermeer": problems.fetch_vermeer}

# Defaults of arguments that are objects, as configurations spell them.
DEFAULT_TEXTS: dict[str, dict[str, Any]] = {"squad": {"optimizer": "adam(0.05)"}}


class Preset(NamedTuple):
    """A problem with settings, and how the algorithms are set for it."""

    about: str
    problem: str
    problem_settings: Mapping[str, Any]
    algorithm_settings: Mapping[str, Mapping[str, Any]]
    iterations: int = 1000
    cells: int = 512  # of the tessellation behind QD score and coverage


# gamma_sq: the paper's section "Hyperparameters", confirmed by its released settings.
PRESETS: dict[str, Preset] = {
    "lp-easy": Preset(
        "Linear Projection, 4 behavior dimensions (published settings)",
        "linear_projection",
        {"behavior_dim": 4},
        {"squad": {"gamma_sq": 0.1}},
    ),
    "lp-medium": Preset(
        "Linear Projection, 8 behavior dimensions (published settings)",
        "linear_projection",
        {"behavior_dim": 8},
        {"squad": {"gamma_sq": 0.5}},
    ),
    "lp-hard": Preset(
        "Linear Projection, 16 behavior dimensions (published settings)",
        "linear_projection",
        {"behavior_dim": 16},
        {"squad": {"gamma_sq": 1.0}},
    ),
    "ic": Preset(
        "Image Composition, 1024 circles repaint Vermeer (published settings)",
        "image_composition",
        {"target": "vermeer"},
        {"squad": {"gamma_sq": 1.0}},
        cells=1024,
    ),
    "ic-small": Preset(
        "Image Composition, 128 circles and a portrait that comes along",
        "image_composition",
        {"num_circles": 128},
        {"squad": {"gamma_sq": 1.0, "population_size": 128, "batch_size": 32}},
        iterations=300,
        cells=1024,
    ),
    "sphere": Preset(
        "one smooth peak, 2 behavior dimensions",
        "sphere",
        {},
        {"squad": {"gamma_sq": 0.005}},
        iterations=500,
    ),
    "arm": Preset(
        "planar arm reaching every point of a disc, 2 behavior dimensions",
        "arm",
        {},
        {"squad": {"gamma_sq": 0.02}},
        iterations=500,
    ),
}


class UnknownNameError(ValueError):
    """A name that is not registered; the message holds the nearest known one."""


def lookup(kind: str, name: str, known: Mapping[str, Any], see: str) -> Any:
    """Return ``known[name]``, or say what was probably meant.

    Raises:
        UnknownNameError: If the name is unknown.
    """
    if name in known:
        return known[name]
    raise UnknownNameError(unknown_message(kind, name, known, see))


def unknown_message(kind: str, name: str, known: Iterable[str], see: str) -> str:
    """One line that names the nearest known name and where to find the others."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"unknown {kind} {name!r}; {hint}{see}"
