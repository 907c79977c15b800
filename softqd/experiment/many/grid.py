"""Grids of settings: read, spell out, and look at where the best one lies."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from softqd.experiment.config import ConfigError, complete_algorithm, parse_value

Grid = dict[str, list[Any]]


def parse_grid(texts: Sequence[str]) -> dict[str, list[str]]:
    """Read ``name=value,value,...`` texts; commas inside parentheses do not separate.

    Raises:
        ConfigError: If a text is something else, or a name comes twice.

    Examples:
        >>> parse_grid(["gamma_sq=0.1,1", "optimizer=adam(0.1,b1=0.5),sgd(0.1)"])
        {'gamma_sq': ['0.1', '1'], 'optimizer': ['adam(0.1,b1=0.5)', 'sgd(0.1)']}
    """
    grid: dict[str, list[str]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        found = _split(values)
        if not equals or not name.strip() or not all(found):
            raise ConfigError(
                f"--grid wants NAME=VALUE,VALUE,...; got {text!r}; write for example "
                "--grid gamma_sq=0.1,0.5,1.0"
            )
        if name.strip() in grid:
            raise ConfigError(
                f"--grid names {name.strip()!r} twice; give all its values at once"
            )
        grid[name.strip()] = found
    return grid


def _split(text: str) -> list[str]:
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def complete_grid(algorithm: str, grid: Mapping[str, Sequence[Any]]) -> Grid:
    """Values of a grid in the types that the algorithm's settings have.

    Args:
        algorithm: Its name.
        grid: Setting to values, as Python values or as they are typed.

    Raises:
        ConfigError: If there is none, a setting is unknown or without values, or a
            value has the wrong type or comes twice.

    Examples:
        >>> complete_grid("squad", {"gamma_sq": ["0.1", 1]})
        {'gamma_sq': [0.1, 1.0]}
    """
    check_grid(grid)
    completed = {
        name: [_complete(algorithm, name, value) for value in values]
        for name, values in grid.items()
    }
    return check_grid(completed)


def check_grid(grid: Mapping[str, Sequence[Any]]) -> Grid:
    """A grid whose settings all have values, and none twice.

    Raises:
        ConfigError: If it is empty, or one has no values or one of them twice.
    """
    if not grid:
        raise ConfigError(
            "grid is empty; give at least one setting and its values, as in --grid "
            "gamma_sq=0.1,0.5,1.0"
        )
    for name, values in grid.items():
        if isinstance(values, str) or not values:
            raise ConfigError(f"grid {name} must be a list of values; got {values!r}")
        twice = [v for i, v in enumerate(values) if v in values[:i]]
        if twice:
            raise ConfigError(
                f"grid {name} holds {twice[0]!r} twice; give every value once"
            )
    return {name: list(values) for name, values in grid.items()}


def _complete(algorithm: str, name: str, value: Any) -> Any:
    value = parse_value(value) if isinstance(value, str) else value
    return complete_algorithm({"name": algorithm, name: value})[name]


def points_of(grid: Grid) -> dict[str, dict[str, Any]]:
    """Every combination of a grid's values, by a label that can name a folder.

    Examples:
        >>> list(points_of({"gamma_sq": [0.1, 1.0], "batch_size": [64]}))
        ['gamma_sq=0.1,batch_size=64', 'gamma_sq=1.0,batch_size=64']
    """
    points = {}
    for values in itertools.product(*grid.values()):
        point = dict(zip(grid, values, strict=True))
        label = ",".join(f"{name}={value}" for name, value in point.items())
        label = label.replace(", ", ",").replace("/", "_").replace(" ", "_")
        if label in points:
            raise ConfigError(f"two settings of the grid are both called {label!r}")
        points[label] = point
    return points


def edges(grid: Grid, point: Mapping[str, Any]) -> list[str]:
    """Warnings where a point lies at the end of a range of numbers.

    Examples:
        >>> grid = {"gamma_sq": [1.0, 0.1], "transform": ["logit", "probit"]}
        >>> edges(grid, {"gamma_sq": 0.1, "transform": "logit"})
        ['the best gamma_sq, 0.1, is the smallest of its grid; try smaller ones too']
    """
    warnings = []
    for name, values in grid.items():
        if len(values) < 2 or not all(_is_number(v) for v in values):
            continue
        for end, word, more in (
            (min, "smallest", "smaller"),
            (max, "largest", "larger"),
        ):
            if point[name] == end(values):
                warnings.append(
                    f"the best {name}, {point[name]}, is the {word} of its grid; try "
                    f"{more} ones too"
                )
    return warnings


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
