"""The middle between a population file and a population: what was found, checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from softqd.types import Population


class Parts(NamedTuple):
    """What a file holds.

    Attributes:
        quality: Shape ``(n,)``.
        behavior: Shape ``(n, d)``.
        solutions: Arrays of ``n`` rows by the leaf's path; '' for a single array.
        origin: A sentence on what was taken from where.
        row_name: Where a person looking into the file finds row i.
    """

    quality: np.ndarray
    behavior: np.ndarray
    solutions: dict[str, np.ndarray]
    origin: str
    row_name: Callable[[int], str]


def to_population(path: Path, parts: Parts) -> Population:
    """Assemble a population, refusing what no metric can use.

    Raises:
        ValueError: If there are no solutions or a value is not finite.
    """
    if not parts.behavior.size:
        shape = parts.behavior.shape
        raise ValueError(
            f"{path} holds no solutions: its behavior has shape {shape}; {parts.origin}"
        )
    for name, values in (("quality", parts.quality), ("behavior", parts.behavior)):
        is_finite = np.isfinite(values.reshape(len(values), -1)).all(1)
        if not is_finite.all():
            row = int((~is_finite).argmax())
            text = np.array2string(values[row], max_line_width=10_000, threshold=20)
            where = parts.row_name(row)
            raise ValueError(f"{path}: {name} must be finite; {where} is {text}")
    occupied = np.ones(parts.quality.shape, dtype=bool)
    solutions = _nest(path, parts.solutions)
    return Population(solutions, parts.quality, parts.behavior, occupied)


def _nest(path: Path, leaves: dict[str, np.ndarray]) -> Any:
    """One array, or nested dictionaries from paths such as 'layer/weight'."""
    if "" in leaves:
        return leaves[""]
    tree: dict[str, Any] = {}
    for name, leaf in leaves.items():
        *parents, last = (
            key.replace("~1", "/").replace("~0", "~") for key in name.split("/")
        )
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {}) if isinstance(node, dict) else node
        if not isinstance(node, dict) or last in node:
            raise ValueError(
                f"{path}: solutions {name!r} cannot be both an array and a group of "
                "arrays"
            )
        node[last] = leaf
    return tree


def origin_text(
    kind: str,
    quality: str,
    behavior: Sequence[str],
    solutions: Sequence[str],
    guessed: Sequence[str] = (),
) -> str:
    """The sentence on what was taken from where.

    Examples:
        >>> origin_text("CSV", "fitness", ["b0", "b1"], [], guessed=["behavior"])
        "CSV: quality from 'fitness', behavior from 'b0', 'b1' (guessed), no solutions"
    """
    parts = []
    for name, columns in (
        ("quality", [quality]),
        ("behavior", behavior),
        ("solutions", solutions),
    ):
        note = " (guessed)" if name in guessed else ""
        parts.append(f"{name} from {span(columns)}{note}" if columns else f"no {name}")
    return f"{kind}: {', '.join(parts)}"


def span(names: Sequence[str]) -> str:
    """Names, quoted; of many, the first and the last.

    Examples:
        >>> span(["x_0", "x_1"]), span([f"x_{i}" for i in range(10)])
        ("'x_0', 'x_1'", "'x_0' ... 'x_9'")
    """
    quoted = [repr(name) for name in names]
    return ", ".join(quoted) if len(quoted) <= 4 else f"{quoted[0]} ... {quoted[-1]}"


def not_readable(path: Path, why: Any) -> str:
    """The line about a file that is damaged, or of another kind."""
    reason = " ".join(str(why).split())
    return f"{path} is not a readable population file (.npz or CSV): {reason}"
