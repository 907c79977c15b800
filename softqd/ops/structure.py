"""Solutions in the structure that a problem samples, by the names of their leaves."""

from __future__ import annotations

import jax
from jaxtyping import PyTree

from softqd.types import Problem, named_leaves


def solution_like(like: Problem | PyTree) -> PyTree | None:
    """Shapes of one solution: of what a problem samples, or of a solution itself.

    None for a problem that cannot sample.
    """
    if not isinstance(like, Problem):
        return jax.eval_shape(lambda: like)
    if like.sample is None:
        return None
    return jax.eval_shape(like.sample, jax.random.key(0))


def as_like(solutions: PyTree, one: PyTree) -> PyTree:
    """Solutions in the structure of one of them.

    Leaves are found by their paths, never by their order: a dictionary sorts its keys,
    a module does not.

    Args:
        solutions: Arrays with a leading axis, in any structure with these paths, such
            as the nested dictionaries that a file gives.
        one: One solution, or its shapes.

    Raises:
        ValueError: If a leaf is missing, of another shape, or not wanted.

    Examples:
        >>> import numpy as np
        >>> held = {"0": np.ones((5, 2)), "1": np.zeros((5, 3))}
        >>> [x.shape for x in as_like(held, (np.ones(2), np.zeros(3)))]
        [(5, 2), (5, 3)]
    """
    held = dict(named_leaves(solutions, "solutions"))
    wanted = dict(named_leaves(one, "solutions"))
    differing = sorted(held.keys() ^ wanted.keys())
    if differing:
        name = differing[0]
        is_extra = name in held
        raise ValueError(
            f"the solutions are of another structure: those given "
            f"{'have' if is_extra else 'lack'} {name!r}, a solution of the problem "
            f"{'does not' if is_extra else 'has it'}"
        )
    for name, leaf in wanted.items():
        shape = tuple(held[name].shape)
        if shape[1:] != tuple(leaf.shape) or not shape:
            raise ValueError(
                f"{name} have shape {shape}, expected (n, "
                f"{', '.join(map(str, leaf.shape))}), as the problem samples them"
            )
    structure = jax.tree.structure(one)
    return jax.tree.unflatten(structure, [held[name] for name in wanted])
