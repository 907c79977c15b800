"""Maps of a population over two behavior dimensions: soft field and lit cells.

The behavior value is a maximum over solutions of Gaussian bumps, and a bump is a
product over dimensions. Maximizing over a dimension therefore leaves the bump of the
others (each solution is best at its own coordinate, where the factor is 1), and fixing
it multiplies the quality by one factor. Either way a map of a population in d
dimensions is the behavior value of one in two dimensions.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from softqd.metrics._archive import best_of_cells, cell_of
from softqd.metrics._soft_qd import behavior_value
from softqd.ops.checks import check_count, check_population, check_sigma
from softqd.ops.distances import squared_distances
from softqd.ops.kernels import bump


class ValueMap(NamedTuple):
    """A map over two behavior dimensions: ``value[i, j]`` is at ``(x[j], y[i])``."""

    x: Float[np.ndarray, " r"]
    y: Float[np.ndarray, " r"]
    value: Float[np.ndarray, "r r"]


def value_map(
    quality: Any,
    behavior: Any,
    sigma: float,
    *,
    dims: tuple[int, int] = (0, 1),
    others: Literal["max"] | Any = "max",
    bounds: Any = (0.0, 1.0),
    resolution: int = 200,
) -> ValueMap:
    r"""The behavior value over two dimensions, the other ones maximized over or fixed.

    With $u$ the two dimensions and $w$ the others, the map is $\max_w v(u, w)$, or
    $v(u, w)$ at the $w$ given.

    Args:
        quality: Qualities ``(n,)``, not negative.
        behavior: Behaviors ``(n, d)``, d >= 2; in one dimension, use `behavior_value`.
        sigma: Width of a solution's light, positive.
        dims: The dimensions along x and y.
        others: "max", or the values at which the other dimensions are fixed, in their
            order: ``(d - 2,)``, or one number for all of them.
        bounds: ``(low, high)`` of the space, numbers or ``(d,)``; finite in ``dims``.
        resolution: Points along each side, ends included.

    Raises:
        ValueError: If the population or a setting cannot be used.

    Examples:
        >>> import numpy as np
        >>> light = value_map([3.0], np.array([[0.5, 1.0, 0.2]]), 0.1, resolution=3)
        >>> light.value[2].round(4).tolist()  # brightest at x = 0.5, y = 1
        [0.0, 3.0, 0.0]
    """
    quality, behavior = check_population(quality, behavior)
    check_sigma(sigma)
    dim, dtype = behavior.shape[1], jnp.result_type(behavior, float)
    x, y = _sides(dims, bounds, dim, resolution)
    if not (isinstance(others, str) and others == "max"):
        rest = np.delete(np.arange(dim), dims)
        fixed = jnp.asarray(_fixed(others, len(rest)), dtype)[None]
        dist_sq = squared_distances(fixed, behavior[:, rest])[0]
        quality = quality * bump(dist_sq, sigma)
    points = jnp.asarray(_points(x, y), dtype)
    value = behavior_value(points, quality, behavior[:, np.array(dims)], sigma)
    return ValueMap(x, y, np.asarray(value).reshape(len(y), len(x)))


def cell_map(
    quality: Float[Array | np.ndarray, " n"],
    behavior: Float[Array | np.ndarray, "n 2"],
    centroids: Float[Array | np.ndarray, "m 2"],
    *,
    bounds: Any = (0.0, 1.0),
    resolution: int = 200,
) -> ValueMap:
    """What an archive sees: every point at its cell's best quality, NaN where empty.

    Args:
        quality: Qualities; negative ones count too.
        behavior: Behaviors in two dimensions.
        centroids: A point belongs to the cell of the nearest one. The centers of the
            squares of a grid make the grid.
        bounds: ``(low, high)`` of the map, numbers or ``(2,)``.
        resolution: Points along each side, ends included.

    Raises:
        ValueError: If the behavior space is not two-dimensional, or a setting cannot be
            used.

    Examples:
        >>> import numpy as np
        >>> two = np.array([[0.25, 0.5], [0.75, 0.5]])  # a left and a right half
        >>> lit = cell_map(np.array([1.0, 3.0]), two[[0, 0]], two, resolution=2)
        >>> lit.value.tolist()
        [[3.0, nan], [3.0, nan]]
    """
    if np.shape(behavior)[1:] != (2,):
        raise ValueError(
            f"behavior must have shape (n, 2) for a map of cells; got "
            f"{np.shape(behavior)}"
        )
    x, y = _sides((0, 1), bounds, 2, resolution)
    best = best_of_cells(quality, behavior, centroids)
    value = np.where(np.isfinite(best), best, np.nan)[cell_of(_points(x, y), centroids)]
    return ValueMap(x, y, value.reshape(len(y), len(x)))


def _sides(dims: Any, bounds: Any, dim: int, resolution: int) -> list[np.ndarray]:
    """Coordinates along x and y."""
    check_count("resolution", resolution, 2)
    if dim < 2:
        raise ValueError(
            "a map needs two behavior dimensions, and behavior has one; use "
            "behavior_value at points along it"
        )
    if np.shape(dims) != (2,) or len(set(dims)) != 2:
        raise ValueError(f"dims must be two different dimensions; got {dims!r}")
    for index in dims:
        check_count("dims", index, 0, dim - 1)
    low, high = (np.broadcast_to(np.asarray(side, float), (dim,)) for side in bounds)
    for index in dims:
        if not -np.inf < low[index] < high[index] < np.inf:
            raise ValueError(
                f"bounds of dimension {index} must be finite, low before high; got "
                f"{low[index]} and {high[index]}"
            )
    return [np.linspace(low[i], high[i], resolution) for i in dims]


def _points(x: np.ndarray, y: np.ndarray) -> Float[np.ndarray, "m 2"]:
    return np.stack(np.meshgrid(x, y), -1).reshape(-1, 2)


def _fixed(others: Any, num_others: int) -> Float[np.ndarray, " o"]:
    """Fixed values of the other dimensions, one for each."""
    if isinstance(others, str):
        raise ValueError(
            f"others must be 'max' or the values of the other dimensions; got "
            f"{others!r}"
        )
    values = np.asarray(others, float)
    if values.shape not in ((), (num_others,)) or not np.isfinite(values).all():
        raise ValueError(
            f"others must hold {num_others} finite values, one for each dimension that "
            f"is not in dims, or be 'max'; got {others!r}"
        )
    return np.broadcast_to(values, (num_others,))
