"""The central types: what a problem is, what it says, and what an algorithm is.

An algorithm is three pure functions, as in optax and blackjax; a problem is a plain
function of one solution. Batching, chunking and differentiation belong to the library.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float, PyTree

from softqd import html

Key = Array
Bounds = tuple[float | tuple[float, ...], float | tuple[float, ...]]


class Evaluation(NamedTuple):
    """What a problem says about one solution, or about a batch of them."""

    quality: Float[Array, "*n"]
    behavior: Float[Array, "*n d"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Population:
    """A set of solutions with their evaluations.

    Rows where ``occupied`` is false hold no solution and never count; the other fields
    may contain anything there. ``len(population)`` is the number of solutions, and
    ``population[...]`` the population of some of them, chosen by an index, indices, a
    slice or a mask with one entry per solution.

    Examples:
        >>> import numpy as np
        >>> quality, behavior = np.array([3.0, 1.0, 2.0]), np.zeros((3, 1))
        >>> population = Population(np.eye(3), quality, behavior, np.ones(3, bool))
        >>> len(population), population[quality > 1.5].quality.tolist()
        (3, [3.0, 2.0])
        >>> population[np.argsort(quality)].quality.tolist()
        [1.0, 2.0, 3.0]
    """

    solutions: Any
    quality: Float[Array | np.ndarray, "*n"]
    behavior: Float[Array | np.ndarray, "*n d"]
    occupied: Bool[Array | np.ndarray, "*n"]

    def __len__(self) -> int:
        return int(np.asarray(self.occupied).sum())

    def __repr__(self) -> str:
        arrays = (self.quality, self.behavior, self.occupied)
        if not all(map(_is_known, arrays)):  # within a transformation of JAX
            shapes = ", ".join(str(getattr(x, "shape", x)) for x in arrays)
            return f"Population(shapes {shapes})"
        rows = ", ".join(f"{k} {v}" for k, v in html.rows_of(self).items())
        return f"Population({rows})"

    def _repr_html_(self) -> str:
        then = ["softqd.select(population, 20)", "softqd.plot.scatter(population)"]
        return html.card("Population", html.rows_of(self), html.picture_of(self), then)

    def __iter__(self) -> Iterator[Population]:
        kept = self.compact()
        return (kept[i] for i in range(len(kept)))

    def __getitem__(self, index: Any) -> Population:
        rows = np.flatnonzero(np.asarray(self.occupied))
        try:
            chosen = np.atleast_1d(rows[index])
        except IndexError:
            raise IndexError(
                f"a population of {len(rows)} solutions has no solutions "
                f"{_shown(index)}; give an index, indices, a slice, or a mask with one "
                "entry per solution"
            ) from None
        return jax.tree.map(lambda leaf: leaf[chosen], self)

    def compact(self) -> Population:
        """Keep the occupied rows only, as NumPy arrays."""
        keep = np.asarray(self.occupied)
        return jax.tree.map(lambda leaf: np.asarray(leaf)[keep], self)

    def to_pandas(self) -> Any:
        """The occupied rows as a pandas DataFrame of float64.

        Columns are ``quality``, ``behavior_0``, ..., ``solution_0``, ... in the order
        of the raveled solution; for a pytree ``solution/<name>_0``, ... for each leaf.
        `softqd.load_population` reads what its ``to_csv`` writes.

        Raises:
            ImportError: If pandas is not installed.

        Examples:
            >>> import numpy as np
            >>> quality, behavior = np.array([1.0, 2.0]), np.array([[0.1], [0.2]])
            >>> population = Population(np.eye(2), quality, behavior, np.ones(2, bool))
            >>> population.to_pandas().columns.tolist()
            ['quality', 'behavior_0', 'solution_0', 'solution_1']
        """
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_pandas needs pandas: pip install pandas") from None
        return pd.DataFrame(self.to_columns())

    def to_columns(self) -> dict[str, np.ndarray]:
        """The columns of `to_pandas`, and of a CSV file, by name."""
        kept = self.compact()
        columns = {"quality": np.asarray(kept.quality, np.float64)}
        parts = [("behavior", kept.behavior)]
        for name, part in parts + named_leaves(kept.solutions, "solution"):
            flat = _raveled(part).astype(np.float64)
            columns |= {f"{name}_{i}": flat[:, i] for i in range(flat.shape[1])}
        return columns

    def to_ribs(self) -> dict[str, np.ndarray]:
        """The occupied rows as the arguments of a pyribs archive's ``add``.

        ``archive.add(**population.to_ribs())``; a pytree is raveled leaf by leaf.

        Examples:
            >>> import numpy as np
            >>> solutions = {"a": np.ones((2, 3)), "b": np.zeros((2, 2, 2))}
            >>> population = Population(
            ...     solutions, np.ones(2), np.zeros((2, 1)), np.array([True, False]))
            >>> {name: array.shape for name, array in population.to_ribs().items()}
            {'solution': (1, 7), 'objective': (1,), 'measures': (1, 1)}
        """
        kept = self.compact()
        none = np.zeros((len(kept.quality), 0), np.float32)  # as files may hold none
        leaves = [none, *map(_raveled, jax.tree.leaves(kept.solutions))]
        return {
            "solution": np.concatenate(leaves, axis=1),
            "objective": np.asarray(kept.quality),
            "measures": np.asarray(kept.behavior),
        }


def named_leaves(tree: PyTree, root: str) -> list[tuple[str, Any]]:
    """Leaves with their paths, such as ``root/layer/weight``; ``root`` if it is one.

    A slash in a key is written ``~1``, a tilde ``~0``, as in JSON pointers.

    Examples:
        >>> named_leaves({"a": {"w": 1}, "b/c": [2]}, "solutions")
        [('solutions/a/w', 1), ('solutions/b~1c/0', 2)]
    """
    return [
        ("/".join([root, *map(_key_name, keys)]), leaf)
        for keys, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]


def _shown(index: Any) -> str:
    shape = np.shape(index)
    return f"of an index of shape {shape}" if shape else f"{index!r}"


def _raveled(rows: Any) -> np.ndarray:
    return rows.reshape(len(rows), math.prod(rows.shape[1:]))


def _key_name(key: Any) -> str:
    for attribute in ("key", "name", "idx"):
        if hasattr(key, attribute):
            key = getattr(key, attribute)
            break
    return str(key).replace("~", "~0").replace("/", "~1")


class Algorithm(NamedTuple):
    """Three pure functions, and what they were built from.

    Attributes:
        init: ``(key, solutions=None) -> State``. Evaluates the first population. Every
            State carries ``init_evaluations``, the number of evaluations this took,
            and ``init_gradient_evaluations`` and ``init_vector_jacobian_products``
            if it took any.
        step: ``(state) -> (State, Info)``. One iteration. Every Info begins with
            ``evaluations`` and ``gradient_evaluations`` of this iteration and carries
            ``vector_jacobian_products`` and ``is_finite``, one flag per row.
        population: ``(state) -> Population``. The current answer.
        problem: The problem being solved, for checks and reports.
        name: The algorithm's name, for reports.
        settings: The arguments the algorithm was built with, for reports and for
            refusing to resume another algorithm's run.
        plan: ``(state, num_iterations, max_evaluations) -> State`` or None. Called once
            before a run, for algorithms whose schedules follow the budget; what does
            not limit the run is None.
    """

    init: Callable[..., Any]
    step: Callable[[Any], tuple[Any, Any]]
    population: Callable[[Any], Population]
    problem: Problem | None = None
    name: str = "algorithm"
    settings: Mapping[str, Any] = {}
    plan: Callable[[Any, int | None, int | None], Any] | None = None


@dataclass(frozen=True)
class _Rebuild:
    """Calls a callable pytree whose arrays arrive as arguments."""

    treedef: Any
    static: tuple

    def __call__(self, arrays: list, *args: Any) -> Any:
        arrays = list(arrays)
        leaves = [arrays.pop(0) if is_array else leaf for is_array, leaf in self.static]
        return jax.tree.unflatten(self.treedef, leaves)(*args)


def lift_arrays(function: Callable) -> Partial:
    """Turn a callable into a `Partial` whose leaves are the arrays it carries.

    A plain function carries none. A callable pytree (a `Partial`, a module of a neural
    network library) keeps its non-array leaves as static data. What has been lifted can
    be passed to a compiled function as an argument, so that weights are not compiled in
    as constants.
    """
    leaves, treedef = jax.tree.flatten(function)
    if len(leaves) == 1 and leaves[0] is function:
        return Partial(function)
    if isinstance(function, Partial) and all(map(_is_array, leaves)):
        return function
    static = tuple((_is_array(x), None if _is_array(x) else x) for x in leaves)
    return Partial(_Rebuild(treedef, static), [x for x in leaves if _is_array(x)])


def _is_known(array: Any) -> bool:
    """Whether numbers can be looked at."""
    return _is_array(array) and not isinstance(array, Tracer)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray))


class _FoundDim(int):
    """A number of behavior dimensions that was found, not declared."""


class _BehaviorDim:
    """The number of behavior dimensions: as declared, or found when it is needed."""

    def __get__(self, problem: Problem | None, _: Any = None) -> Any:
        if problem is None:  # the default of the field
            return None
        known = vars(problem)
        if known.get("behavior_dim") is None:
            found = _find_behavior_dim(problem)
            known["behavior_dim"] = None if found is None else _FoundDim(found)
        return known["behavior_dim"]

    def __set__(self, problem: Problem, value: int | None) -> None:
        # What was found of one problem is not declared of its copy.
        is_found = isinstance(value, _FoundDim)
        vars(problem)["behavior_dim"] = None if is_found else value


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True)
class Problem:
    """A quality-diversity problem, written as a function of one solution.

    Args:
        evaluate: One solution (any pytree of arrays) to ``(quality, behavior)``, a
            scalar and a vector ``(d,)``. Pure and, for gradient-based algorithms,
            differentiable. A stochastic problem is ``evaluate(solution, key)``. Arrays
            carried by a `jax.tree_util.Partial` or any callable pytree are passed to
            compiled code as arguments.
        sample: Key to one random solution; needed unless a run is given its start.
        behavior_bounds: ``(low, high)``, scalars or one value per dimension, infinite
            where a dimension is unbounded. ``None``: the whole space is unbounded.
        name: For reports. Defaults to the name of ``evaluate``.
        quality_bounds: ``(low, high)`` of the quality, for reports; its low end is the
            level from which quality is measured.
        quality_level: From where quality is measured, in place of the low end of
            ``quality_bounds``. Neither given: 0 if the first population is nowhere
            negative, else a low quantile of it.
        solution_bounds: ``(low, high)`` of solutions, numbers or pytrees like one,
            infinite where a coordinate is free. Algorithms reflect what would leave.
        is_differentiable: Whether gradients of ``evaluate`` are of use. None: this is
            found out when a run starts.
        render: One solution to an image ``(height, width, 3)`` in [0, 1].
        sample_evaluations: Evaluations that one call of ``sample`` spends.
        behavior_names: One word or two per behavior dimension, for figures, with the
            unit in brackets where there is one: ``"age (years)"``. Shown as they are:
            dollars make no formulas.
        target: Image ``(height, width, 3)`` to show beside rendered solutions.
        behavior_dim: Number of behavior dimensions, where neither ``sample`` nor the
            bounds tell it. The attribute is None where nothing does.

    Raises:
        TypeError: If a function is not callable.
        ValueError: If the bounds are not an increasing pair.

    Examples:
        >>> import jax, jax.numpy as jnp, softqd
        >>> def evaluate(x):
        ...     return -jnp.sum(x**2), jnp.tanh(x[:2])
        >>> problem = softqd.Problem(
        ...     evaluate, lambda key: jax.random.normal(key, (8,)), (-1, 1))
        >>> problem.behavior_dim
        2
    """

    evaluate: Callable[..., Any]
    sample: Callable[[Key], Any] | None = None
    behavior_bounds: Any = None
    name: str | None = None
    quality_bounds: tuple[float, float] | None = None
    render: Callable[[Any], Any] | None = None
    sample_evaluations: int = 0
    behavior_names: tuple[str, ...] | None = None
    target: Any = None
    quality_level: float | None = None
    is_differentiable: bool | None = None
    solution_bounds: Any = None
    behavior_dim: Any = _BehaviorDim()  # a whole number

    def __post_init__(self):
        if not callable(self.evaluate):
            raise TypeError(
                "evaluate must be a function of one solution that returns (quality, "
                f"behavior); got {type(self.evaluate).__name__}"
            )
        name = self.name or getattr(self.evaluate, "__name__", "problem")
        set_field = functools.partial(object.__setattr__, self)
        set_field("name", name)
        for field in ("evaluate", "sample", "render"):
            function = getattr(self, field)
            if function is not None and not callable(function):
                raise TypeError(
                    f"{field} must be a function or None; got {type(function).__name__}"
                )
            if function is not None:
                set_field(field, lift_arrays(function))
        if self.behavior_bounds is not None:
            set_field("behavior_bounds", _check_bounds(self.behavior_bounds))
        if self.quality_level is not None:
            set_field("quality_level", _check_level(self.quality_level))
        if self.solution_bounds is not None:
            set_field("solution_bounds", _check_box(self.solution_bounds))
        _check_dim(vars(self)["behavior_dim"])

    def __repr__(self) -> str:
        rows = ", ".join(f"{name} {value}" for name, value in self._rows().items())
        return f"Problem({self.name!r}, {rows})"

    def _repr_html_(self) -> str:
        then = ["result = softqd.run(softqd.squad(problem), progress=True)"]
        return html.card(f"Problem {self.name}", self._rows(), "", then)

    def _rows(self) -> dict[str, str]:
        # Nothing is evaluated for it: that may take minutes.
        names = ", ".join((self.behavior_names or ())[:8])
        level = self.quality_level
        rows = {
            "behaviors": names,
            "behavior_bounds": _short(self.behavior_bounds),
            "quality_bounds": self.quality_bounds and _short(self.quality_bounds),
            "quality_level": None if level is None else f"{level:g}",
        }
        return {name: value for name, value in rows.items() if value}

    @property
    def is_stochastic(self) -> bool:
        """Whether ``evaluate`` takes a key beside the solution."""
        return _num_required(self.evaluate) >= 2

    def draw(self, key: Key) -> Any:
        """One random solution of ``sample``.

        Raises:
            ValueError: If it does not consist of arrays.
        """
        assert self.sample is not None  # whoever draws has looked
        solution = self.sample(key)
        check_leaves(f"sample of problem {self.name!r} returned a solution", solution)
        return solution

    def bounds(self, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """The bounds as two arrays ``(dim,)``, infinite where there are none."""
        low, high = (-np.inf, np.inf)
        if self.behavior_bounds is not None:
            low, high = self.behavior_bounds
        return np.broadcast_to(low, (dim,)), np.broadcast_to(high, (dim,))

    def tree_flatten(self):
        """Split into functions, whose arrays are leaves, and static data."""
        children = (
            self.evaluate,
            self.sample,
            self.render,
            self.target,
            self.solution_bounds,
        )
        static = (
            self.behavior_bounds,
            self.name,
            self.quality_bounds,
            self.sample_evaluations,
            self.behavior_names,
            self.quality_level,
            self.is_differentiable,
            _declared_dim(self),
        )
        return children, static

    @classmethod
    def tree_unflatten(cls, static, children):
        """Put the parts together again."""
        # Not through __init__: JAX also builds trees whose leaves are placeholders.
        problem = object.__new__(cls)
        names = [
            "evaluate",
            "sample",
            "render",
            "target",
            "solution_bounds",
            "behavior_bounds",
            "name",
            "quality_bounds",
            "sample_evaluations",
            "behavior_names",
            "quality_level",
            "is_differentiable",
            "behavior_dim",
        ]
        for name, value in zip(names, (*children, *static), strict=True):
            object.__setattr__(problem, name, value)
        return problem


def _short(bounds: Any) -> str:
    """Bounds in a few words."""
    if bounds is None:
        return "none"
    low, high = map(np.ravel, bounds)
    pairs = [f"{a:g} to {b:g}" for a, b in zip(low, high, strict=True)]
    shown = ", ".join(dict.fromkeys(pairs[:4]))
    return shown if len(pairs) <= 4 or len(set(pairs)) == 1 else f"{shown}, ..."


def _num_required(function: Callable) -> int:
    """How many positional arguments a callable cannot do without."""
    if isinstance(function, Partial) and isinstance(function.func, _Rebuild):
        rebuild = function.func
        dummies = [None if is_array else leaf for is_array, leaf in rebuild.static]
        function = jax.tree.unflatten(rebuild.treedef, dummies)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin or a ufunc: one solution, no key
        return 1
    positional = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    return sum(p.kind in positional and p.default is p.empty for p in parameters)


def _check_bounds(bounds: Any) -> Bounds:
    try:
        low, high = (np.asarray(side, dtype=float) for side in bounds)
    except (TypeError, ValueError):
        raise ValueError(
            "behavior_bounds must be a pair (low, high) of numbers or of vectors (d,); "
            f"got {bounds!r}"
        ) from None
    if low.ndim > 1 or high.ndim > 1 or not np.all(low < high):
        raise ValueError(
            "behavior_bounds must be (low, high) with low < high in every dimension, "
            f"each a number or a vector (d,); got low={low.tolist()}, "
            f"high={high.tolist()}"
        )
    if low.ndim or high.ndim:
        low, high = np.broadcast_arrays(low, high)
        return tuple(low.tolist()), tuple(high.tolist())
    return float(low), float(high)


def _declared_dim(problem: Problem) -> int | None:
    dim = vars(problem)["behavior_dim"]
    return None if isinstance(dim, _FoundDim) else dim


def _check_dim(dim: Any) -> None:
    is_count = isinstance(dim, (int, np.integer)) and not isinstance(dim, bool)
    if dim is not None and not (is_count and dim >= 1):
        raise ValueError(
            f"behavior_dim must be a whole number from 1 on, or None; got {dim!r}"
        )


def known_behavior_dim(problem: Problem) -> int:
    """The number of behavior dimensions.

    Raises:
        ValueError: If the problem does not tell.
    """
    if problem.behavior_dim is not None:
        return problem.behavior_dim
    raise ValueError(
        f"problem {problem.name!r} does not say how many behavior dimensions it has; "
        "give it sample=, behavior_dim=, or behavior_bounds= with one value per "
        "dimension"
    )


def _find_behavior_dim(problem: Problem) -> int | None:
    """From ``sample``, or else from the bounds; None where neither tells."""
    if problem.sample is not None:
        solution = jax.eval_shape(problem.draw, jax.random.key(0))
        return check_evaluate(problem, solution)
    low = problem.behavior_bounds[0] if problem.behavior_bounds is not None else 0.0
    return len(low) if isinstance(low, tuple) else None


def _check_level(level: Any) -> float:
    try:
        if np.isfinite(level):
            return float(level)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"quality_level must be a finite number or None; got {level!r}")


def _check_box(bounds: Any) -> tuple[PyTree, PyTree]:
    """Both sides as NumPy arrays, in trees of one structure."""
    wanted = "solution_bounds must be a pair (low, high) of numbers or of pytrees"
    try:
        low, high = bounds
        low, high = (
            jax.tree.map(lambda x: np.asarray(x, np.float32), side)
            for side in (low, high)
        )
    except (TypeError, ValueError):
        raise ValueError(f"{wanted} like a solution; got {bounds!r}") from None
    if jax.tree.structure(low) != jax.tree.structure(high):
        raise ValueError(f"{wanted} of the same structure; got {bounds!r}")
    for a, b in zip(jax.tree.leaves(low), jax.tree.leaves(high), strict=True):
        if not np.all(a < b):  # NaN too
            raise ValueError(
                f"{wanted} with low < high everywhere; got low={a.tolist()}, "
                f"high={b.tolist()}"
            )
    return low, high


def check_leaves(what: str, solution: PyTree) -> None:
    """Refuse solutions with leaves that are no arrays, such as functions of a module.

    Raises:
        ValueError: Naming the first such leaf.
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path(solution):
        if not (hasattr(leaf, "dtype") or isinstance(leaf, (bool, int, float))):
            raise ValueError(
                f"{what} with a leaf that is no array, {jax.tree_util.keystr(path)} = "
                f"{leaf!r:.40}. Leave it out; with equinox, params, static = "
                "equinox.partition(model, equinox.is_array): params is the solution, "
                "and evaluate begins with model = equinox.combine(params, static)"
            )


def check_evaluate(problem: Problem, solution: PyTree) -> int:
    """Check what ``evaluate`` returns for one solution, without computing it.

    Args:
        problem: The problem.
        solution: One solution, or its shapes and dtypes.

    Returns:
        The number of behavior dimensions.

    Raises:
        ValueError: Naming what was expected and what came.
    """
    args = (jax.random.key(0),) if problem.is_stochastic else ()
    where = f"evaluate of problem {problem.name!r}"
    try:
        output = jax.eval_shape(problem.evaluate, solution, *args)
    except TypeError as error:  # JAX's own are of this type, and other libraries'
        if "Tracer" in repr(error) or isinstance(error, jax.errors.JAXTypeError):
            error.add_note(
                f"{where} must be written with operations of JAX. For one on NumPy "
                "arrays use softqd.interop.host.problem, for one on tensors of PyTorch "
                "softqd.interop.torch.problem"
            )
        raise
    if not isinstance(output, tuple) or len(output) != 2:
        raise ValueError(
            f"{where} must return (quality, behavior); got "
            f"{jax.tree.map(lambda x: f'array{x.shape}', output)}"
        )
    quality, behavior = output
    for what, value, ndim, want in (
        ("quality", quality, 0, "a scalar, shape ()"),
        ("behavior", behavior, 1, "a vector, shape (d,)"),
    ):
        if not hasattr(value, "shape") or len(value.shape) != ndim:
            got = getattr(value, "shape", type(value).__name__)
            raise ValueError(
                f"{where} returned a {what} of shape {got} for one solution, expected "
                f"{want}; write evaluate for one solution, batching is done for you"
            )
        if not jnp.issubdtype(value.dtype, jnp.floating):
            raise ValueError(
                f"{where} returned a {what} of dtype {value.dtype}, expected a float; "
                f"return {what}.astype(float)"
            )
    dim = behavior.shape[0]
    if dim == 0:
        raise ValueError(f"{where} returned an empty behavior, expected d >= 1 values")
    low = problem.behavior_bounds[0] if problem.behavior_bounds is not None else 0.0
    if isinstance(low, tuple) and len(low) != dim:
        raise ValueError(
            f"{where} returned a behavior of shape ({dim},), but behavior_bounds "
            f"declare {len(low)} dimensions"
        )
    if _declared_dim(problem) not in (None, dim):
        raise ValueError(
            f"{where} returned a behavior of shape ({dim},), but it declares "
            f"behavior_dim={_declared_dim(problem)}"
        )
    return dim
