"""How a method's functions, its settings and a problem become an `Algorithm`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax.numpy as jnp
from jax.tree_util import Partial

from softqd.types import Algorithm, Population, Problem

_Parts = TypeVar("_Parts", bound=tuple)


def given(arguments: dict[str, Any]) -> dict[str, Any]:
    """The settings among a factory's ``locals()``, as reports show them."""
    return {k: v for k, v in arguments.items() if k not in ("problem", "centroids")}


def picked(kind: type[_Parts], settings: dict[str, Any]) -> _Parts:
    """A NamedTuple of those settings that it has fields for."""
    return kind(**{k: settings[k] for k in kind.__annotations__ if k in settings})


def assemble(
    name: str, problem: Problem, settings: dict, parts: Any, *how: Callable, arrays=()
) -> Algorithm:
    """Bind a method's three pure functions to its parts, a problem and arrays.

    They are ``init(parts, problem, *arrays, key, solutions=None)``,
    ``step(parts, problem, state)`` and ``population(problem, state)``.
    """
    init, step, population = how
    # Closures hold the parts: in a sweep some are traced, which a Partial cannot hash,
    # and as its leaves numbers would no longer be constants of the compiled program.
    return Algorithm(
        init=Partial(lambda *args, **kw: init(parts, *args, **kw), problem, *arrays),
        step=Partial(lambda problem, state: step(parts, problem, state), problem),
        population=lambda state: population(problem, state),
        problem=problem,
        name=name,
        settings=settings,
    )


def everyone(problem: Problem, state: Any) -> Population:
    """The answer of a state whose rows all hold solutions."""
    occupied = jnp.ones(state.quality.shape, bool)
    return Population(state.solutions, state.quality, state.behavior, occupied)
