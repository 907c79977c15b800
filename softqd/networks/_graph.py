"""What the readers of network files have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

Params = dict[str, Array]


class Network(NamedTuple):
    """A network read from a file: a pure function, what it needs, what it takes."""

    apply: Callable  # (params, batch) -> array, or a tuple of arrays
    params: Params
    input_shape: tuple[int, ...]  # of one example, without the batch


def split_constants(
    path: Path, constants: dict[str, np.ndarray]
) -> tuple[Params, dict[str, np.ndarray]]:
    """Weights, which are arguments of the program, and shapes and axes, which are not.

    Raises:
        ValueError: If a weight is not finite.

    Examples:
        >>> import numpy as np
        >>> constants = {"w": np.ones(2), "axis": np.array(1)}
        >>> weights, rest = split_constants(Path("some.bin"), constants)
        >>> list(weights), rest
        (['w'], {'axis': array(1)})
    """
    is_weight = {k: np.issubdtype(v.dtype, np.floating) for k, v in constants.items()}
    for name, values in constants.items():
        if is_weight[name] and not np.isfinite(values).all():
            raise ValueError(
                f"{path}: {name!r} holds values that are not finite; the file is "
                "damaged, fetch or copy it again"
            )
    weights = {k: jnp.asarray(v) for k, v in constants.items() if is_weight[k]}
    return weights, {k: v for k, v in constants.items() if not is_weight[k]}


def compute(
    where: tuple[Path, str, str],
    operation: Callable,
    attributes: dict,
    inputs: Iterable,
) -> Any:
    """The outputs of one operation; ``where`` names file, kind and layer in errors.

    Raises:
        ValueError: If an input is not there, or its attributes or the shapes of its
            inputs do not fit.
    """
    try:
        return operation(attributes, *inputs)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        path, kind, name = where
        raise ValueError(
            f"{path}: {kind} {name!r} cannot be computed: {error}"
        ) from error


def xp(*values: Any) -> Any:
    """NumPy for what is known before the program runs: shapes. JAX for the rest."""
    is_known = all(isinstance(value, (np.ndarray, np.generic)) for value in values)
    return np if is_known else jnp


def elementwise(name: str) -> Callable:
    """An operation on two arrays of which the one of lower rank is repeated."""

    def operation(_: dict, a: Any, b: Any) -> Any:
        rank = max(a.ndim, b.ndim)
        a, b = (x.reshape((1,) * (rank - x.ndim) + x.shape) for x in (a, b))
        return getattr(xp(a, b), name)(a, b)

    return operation
