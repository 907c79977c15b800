"""Small pictures of solutions, for a page that shows many of them."""

from __future__ import annotations

import base64
import io
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int, PyTree
from PIL import Image

from softqd.ops.evaluation import render
from softqd.types import Problem, named_leaves

# Longest side of a picture, in pixels, and JPEG's quality: about 2 kB each.
SIDE = 96
_JPEG_QUALITY = 82
# Solutions drawn at once; full-size pictures of all would not fit in memory.
_CHUNK = 16


def members_to_draw(
    quality: Float[np.ndarray, " n"], most: int
) -> Int[np.ndarray, " m"]:
    """Rows to draw, best first: all of them, or even steps from best to worst.

    Examples:
        >>> members_to_draw(np.array([0.1, 0.9, 0.5, 0.7, 0.3]), 3).tolist()
        [1, 2, 0]
    """
    order = np.argsort(-quality, kind="stable")
    if len(order) <= most:
        return order
    return order[np.linspace(0, len(order) - 1, most).round().astype(int)]


def thumbnails(
    problem: Problem, solutions: PyTree, members: Int[np.ndarray, " m"]
) -> list[str]:
    """JPEG pictures of some solutions, in base64.

    Args:
        problem: A problem with ``render``.
        solutions: Leading axis ``n``; nested dictionaries, as a file holds them, are
            put back into the problem's own structure.
        members: Rows to draw.

    Raises:
        ValueError: If the solutions are not those of the problem.
    """
    solutions = _restored(problem, solutions)
    found: list[str] = []
    for start in range(0, len(members), _CHUNK):
        some = members[start : start + _CHUNK]
        # Always as many, so that one compiled program serves all.
        padded = np.resize(some, min(_CHUNK, len(members)))
        pictures = render(problem, solutions, padded)[: len(some)]
        found += [encode_picture(picture) for picture in pictures]
    return found


def encode_picture(picture: Float[np.ndarray, "h w 3"]) -> str:
    """A picture in [0, 1] as a small JPEG, in base64."""
    pixels = np.clip(np.nan_to_num(np.asarray(picture, np.float32)), 0.0, 1.0)
    image = Image.fromarray((pixels * 255).round().astype(np.uint8))
    image.thumbnail((SIDE, SIDE))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=_JPEG_QUALITY, optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def _restored(problem: Problem, solutions: PyTree) -> PyTree:
    """Solutions in the structure that the problem samples, matched by leaf names."""
    if problem.sample is None:
        return solutions
    wanted: Any = jax.eval_shape(problem.sample, jax.random.key(0))
    held = dict(named_leaves(solutions, ""))
    names = [name for name, _ in named_leaves(wanted, "")]
    if sorted(held) != sorted(names):
        raise ValueError("the solutions are not of the problem's structure")
    return jax.tree.unflatten(jax.tree.structure(wanted), [held[n] for n in names])
