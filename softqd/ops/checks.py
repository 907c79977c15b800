"""Checks at the door: first solutions and first evaluations of any algorithm.

Values are checked only where they are concrete; under `jit` or `vmap`, shapes still
are, and `softqd.run` looks at the first population again after compilation.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, PyTree

from softqd.ops.bounds import side_of
from softqd.ops.precision import wide
from softqd.ops.structure import as_like, solution_like
from softqd.ops.transforms import is_outside
from softqd.types import Problem, check_evaluate, check_leaves

# kDLCPU of the DLPack specification.
_DLPACK_CPU = 1
# Of anything that is counted: twice as many can be counted in 32 bits, and no more fit
# a memory.
MOST = 10**9


def as_array(x: Any) -> Any:
    """Turn an array of another library into one of NumPy or JAX, by DLPack.

    What NumPy and JAX know, tracers and lists included, passes as it is. Others, such
    as torch tensors, are copied, without their gradient: what is computed from them may
    still be under way when their owner changes them.

    Raises:
        ValueError: If the array is on a device that JAX does not have here, or of a
            type it does not know.

    Examples:
        >>> import numpy as np
        >>> as_array([1.0, 2.0]), as_array(np.float32(3.0))
        ([1.0, 2.0], np.float32(3.0))
    """
    if isinstance(x, (np.ndarray, np.generic, jax.Array)):
        return x
    if not hasattr(x, "__dlpack__"):
        return x
    x = x.detach() if hasattr(x, "detach") else x
    try:
        if x.__dlpack_device__()[0] == _DLPACK_CPU:
            return np.array(np.from_dlpack(x))
        return jax.block_until_ready(jnp.array(jnp.from_dlpack(x), copy=True))
    except Exception as error:
        raise ValueError(
            f"cannot read a {type(x).__name__} by DLPack ({error}); pass "
            "x.cpu().float(), or a NumPy array"
        ) from None


def check_count(name: str, value: Any, low: int, high: int | float = MOST) -> None:
    """Refuse a count that is not a whole number between ``low`` and ``high``."""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or not low <= value <= high:
        is_small = high in (MOST, np.inf) and not (is_whole and value > high)
        span = f"at least {low}" if is_small else f"between {low} and {high}"
        raise ValueError(f"{name} must be a whole number {span}; got {value!r}")


def check_solutions(
    problem: Problem, solutions: PyTree, num_solutions: int | None = None
) -> PyTree:
    """Return first solutions as arrays, refusing what cannot start a run.

    Args:
        problem: The problem.
        solutions: Pytree of arrays with a leading axis.
        num_solutions: How many there must be; None for as many as there are.

    Raises:
        ValueError: If they are not what the problem samples, a leaf has the wrong
            number of rows or a value is not finite, or if ``evaluate`` does not return
            (quality, behavior) for one of them.
    """
    check_leaves("solutions came", solutions)
    solutions = jax.tree.map(lambda x: jnp.asarray(as_array(x)), solutions)
    leaves = jax.tree_util.tree_leaves_with_path(solutions)
    if not leaves:
        raise ValueError("solutions hold no arrays; expected a pytree of arrays")
    if num_solutions is None:
        num_solutions = np.shape(leaves[0][1])[0] if leaves[0][1].ndim else 0
    for path, leaf in leaves:
        where = f"solutions{jax.tree_util.keystr(path)}"
        if leaf.ndim == 0 or leaf.shape[0] != num_solutions:
            raise ValueError(
                f"{where} has shape {leaf.shape}, but population_size is "
                f"{num_solutions}: the first axis must have that many rows"
            )
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ValueError(
                f"{where} has dtype {leaf.dtype}, expected floating point; pass "
                "solutions.astype(float)"
            )
        if is_concrete(leaf):
            flat = np.asarray(leaf).reshape(leaf.shape[0], -1)
            _refuse_nonfinite(np.isfinite(flat).all(1), where)
    one = solution_like(problem)
    solutions = solutions if one is None else as_like(solutions, one)
    check_evaluate(problem, jax.tree.map(lambda x: x[0], solutions))
    _check_inside(problem, solutions)
    return solutions


def _check_inside(problem: Problem, solutions: PyTree) -> None:
    """Refuse solutions outside of their bounds, or bounds that do not fit them."""
    if problem.solution_bounds is None:
        return
    where, structure = f"problem {problem.name!r}", jax.tree.structure(solutions)
    for side, sign in zip(problem.solution_bounds, (1, -1), strict=True):
        if jax.tree.structure(side) not in (structure, jax.tree.structure(0.0)):
            raise ValueError(
                f"solution_bounds of {where} are not like a solution: expected numbers "
                f"or {structure}, got {jax.tree.structure(side)}"
            )
        limits = jax.tree.leaves(side_of(side, solutions))
        for x, limit in zip(jax.tree.leaves(solutions), limits, strict=True):
            if np.shape(limit) not in ((), x.shape[1:]):
                raise ValueError(
                    f"solution_bounds of {where} have shape {np.shape(limit)} where "
                    f"solutions have {x.shape[1:]}"
                )
            if not is_concrete(x) or not is_concrete(limit):
                continue
            room = sign * (np.asarray(x) - np.asarray(limit)[None])
            if room.size and room.min() < 0:
                row = int(np.argmin(room.reshape(len(room), -1).min(1)))
                raise ValueError(
                    f"solution {row} at the start lies outside of the solution_bounds "
                    f"of {where}; move it inside"
                )


def check_first_evaluation(
    problem: Problem,
    quality: Float[Array | np.ndarray, " n"],
    behavior: Float[Array | np.ndarray, "n d"],
) -> None:
    """Refuse a first population that is not finite or outside its declared bounds.

    Raises:
        ValueError: Naming the first such solution.
    """
    if not (is_concrete(quality) and is_concrete(behavior)):
        return
    _refuse_nonfinite(np.isfinite(np.asarray(quality)), "quality")
    _refuse_nonfinite(np.isfinite(np.asarray(behavior)).all(1), "behavior")
    outside = is_outside(problem, behavior)
    if outside.any():
        i = int(outside.argmax())
        raise ValueError(
            f"behavior of solution {i} at the start is {np.asarray(behavior)[i]}, "
            f"outside the behavior_bounds {problem.behavior_bounds} of problem "
            f"{problem.name!r} ({int(outside.sum())} of {len(outside)} are); declare "
            "wider bounds, or None for an unbounded space"
        )


def _refuse_nonfinite(is_finite: Any, what: str) -> None:
    if not is_finite.all():
        i = int((~is_finite).argmax())
        raise ValueError(
            f"{what} of solution {i} at the start is not finite ("
            f"{int((~is_finite).sum())} of {len(is_finite)} are not); check sample, or "
            "the solutions given"
        )


def check_population(
    quality: Any, behavior: Any, level: Any = 0.0
) -> tuple[Float[Array, " n"], Float[Array, "n d"]]:
    """Return qualities above a level, and behaviors, as the theory can work with them.

    Half precision becomes single.

    Raises:
        ValueError: If shapes do not match, a value is not finite, or a quality is
            below the level.
    """
    quality, behavior = (wide(jnp.asarray(as_array(x))) for x in (quality, behavior))
    if quality.ndim != 1 or behavior.ndim != 2 or len(quality) != len(behavior):
        raise ValueError(
            "quality must have shape (n,) and behavior (n, d) with the same n; got "
            f"{quality.shape} and {behavior.shape}"
        )
    if behavior.size == 0:
        raise ValueError(
            f"the population is empty: behavior has shape {behavior.shape}"
        )
    if is_concrete(quality) and not np.isfinite(np.asarray(quality)).all():
        raise ValueError("quality must be finite")
    if is_concrete(behavior) and not np.isfinite(np.asarray(behavior)).all():
        raise ValueError("behavior must be finite")
    if not is_concrete(level) or level:
        quality -= jnp.asarray(level, quality.dtype)
    if is_concrete(quality) and (np.asarray(quality) < 0).any():
        above = f" {level:g} above its level" if is_concrete(level) and level else ""
        raise ValueError(
            f"quality must not be negative; the smallest is {float(quality.min()):g}"
            f"{above}. Pass level=, a lower bound of your quality"
        )
    return quality, behavior


def check_sigma(sigma: Any) -> None:
    """Refuse a width that is not positive and finite, where it can be looked at."""
    if is_concrete(sigma) and not 0 < float(sigma) < np.inf:
        raise ValueError(f"sigma must be positive and finite; got {sigma!r}")


def is_concrete(array: Any) -> bool:
    """Whether values can be looked at, not only shapes."""
    return not isinstance(array, Tracer)


def rows_finite(tree: PyTree) -> Bool[Array, " m"]:
    """Which rows hold only finite numbers, over all leaves of a batch.

    Examples:
        >>> import jax.numpy as jnp
        >>> rows_finite({"a": jnp.ones(2), "b": jnp.array([[0.0], [jnp.inf]])}).tolist()
        [True, False]
    """

    def check(leaf):
        return jnp.isfinite(leaf).reshape(leaf.shape[0], -1).all(1)

    return jnp.stack([check(leaf) for leaf in jax.tree.leaves(tree)]).all(0)
