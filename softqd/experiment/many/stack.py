"""Settings of one algorithm that advance together in one program.

Configurations that differ in numbers alone, those inside optimizers and schedules
included, make one algorithm whose state carries these numbers: a lane for every
setting and seed. The factory is called again while the program is traced, with the
lane's numbers, which is why factories look at values only where they are concrete.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jax.core import Tracer
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int, PyTree

from softqd.experiment import config as configs
from softqd.experiment.config import Config
from softqd.experiment.many.plan import Method
from softqd.types import Algorithm, Key, Problem, lift_arrays

# All states of a program together; what a step needs beyond is a few times as much.
_MAX_STATE_BYTES = 2**31


class LaneState(NamedTuple):
    """A state of the algorithm, and the numbers it is set to."""

    init_evaluations: Int[Array, ""]
    numbers: Float[Array, " k"]
    inner: PyTree

    @property
    def init_gradient_evaluations(self) -> Int[Array, ""] | int:
        """Of the algorithm; 0 if it counts none."""
        return getattr(self.inner, "init_gradient_evaluations", 0)

    @property
    def init_vector_jacobian_products(self) -> Int[Array, ""] | int:
        """Of the algorithm; 0 if it counts none."""
        return getattr(self.inner, "init_vector_jacobian_products", 0)


class Stack(NamedTuple):
    """Methods of one algorithm, differing in numbers alone, as one.

    Attributes:
        algorithm: Its ``init`` takes ``(key, numbers)``.
        numbers: Those that differ, one row per method.
    """

    algorithm: Algorithm
    numbers: Float[np.ndarray, "methods k"]


def stacks_of(methods: Sequence[Method], num_seeds: int) -> list[list[Method]]:
    """Sort methods into those that can advance together with so many seeds each.

    As many as memory should allow; those that a configuration does not describe stay
    alone.
    """
    alike: dict[str, list[Method]] = {}
    for method in methods:
        key = method.name if method.factory else skeleton(method.config)
        alike.setdefault(key, []).append(method)
    stacks = []
    for group in alike.values():
        size = max(1, _lanes_at_once(group[0]) // num_seeds)
        stacks += [group[i : i + size] for i in range(0, len(group), size)]
    return stacks


def stack(methods: Sequence[Method], problem: Problem) -> Stack:
    """Make one algorithm of methods that have the same `skeleton`."""
    table = np.array([_numbers(m.config, problem) for m in methods], np.float64)
    is_free = (table != table[0]).any(0)
    base = methods[0].algorithm
    assert base is not None

    def build(numbers: Float[Array, " k"]) -> Algorithm:
        free = iter([numbers[i] for i in range(is_free.sum())])
        places = iter(is_free)
        number = lambda value: next(free) if next(places) else value  # noqa: E731
        return configs.build_algorithm(methods[0].config, problem, number)

    def init(arrays: list[Array], lane: tuple[Key, Array]) -> LaneState:
        key, numbers = lane
        state = _with_arrays(build(numbers).init, arrays)(key)
        return LaneState(state.init_evaluations, numbers, state)

    def step(arrays: list[Array], state: LaneState) -> tuple[LaneState, PyTree]:
        advance = _with_arrays(build(state.numbers).step, arrays)
        inner, info = advance(state.inner)
        return state._replace(inner=inner), info

    def plan(state: LaneState, *limits: int | None) -> LaneState:
        inner = base.plan(state.inner, *limits) if base.plan else state.inner
        return state._replace(inner=inner)

    algorithm = Algorithm(
        init=Partial(init, jax.tree.leaves(lift_arrays(base.init))),
        step=Partial(step, jax.tree.leaves(lift_arrays(base.step))),
        population=lambda state: base.population(state.inner),
        problem=problem,
        name=base.name,
        plan=plan,
    )
    return Stack(algorithm, table[:, is_free].astype(np.float32))


def skeleton(config: Config) -> str:
    """A configuration of an algorithm without its numbers, as text.

    Examples:
        >>> settings = {"overlap": 0.5, "optimizer": "adam(0.05, eps=1e-3)"}
        >>> skeleton({"algorithm": {"name": "squad", **settings}})
        '{"name": "squad", "overlap": 0.0, "optimizer": "adam(0.0, eps=0.0)"}'
    """
    texts = configs.expressions_of(config)
    settings = {
        key: _without_numbers(value) if key in texts else value
        for key, value in config["algorithm"].items()
    }
    plain = {k: 0.0 if isinstance(v, float) else v for k, v in settings.items()}
    return json.dumps(plain)


def _without_numbers(text: str) -> str:
    """An expression whose arguments with a decimal point are zero."""
    tree = ast.parse(text.strip(), mode="eval")
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        for value in [*node.args, *(k.value for k in node.keywords)]:
            if isinstance(value, ast.Constant) and isinstance(value.value, float):
                value.value = 0.0
    return ast.unparse(tree)


def _numbers(config: Config, problem: Problem) -> list[float]:
    found: list[float] = []

    def note(value: float) -> float:
        found.append(value)
        return value

    configs.build_algorithm(config, problem, note)
    return found


def _with_arrays(function: Callable, arrays: list[Array]) -> Callable:
    """A function of a lane that carries these arrays instead of its own.

    They are the arguments of the program, such as a network's weights; its own would be
    compiled in as constants. What depends on the lane's numbers stays.
    """
    lifted = lift_arrays(function)
    own, structure = jax.tree.flatten(lifted)
    pairs = zip(own, arrays, strict=True)
    chosen = [mine if isinstance(mine, Tracer) else given for mine, given in pairs]
    return jax.tree.unflatten(structure, chosen)


def _lanes_at_once(method: Method) -> int:
    assert method.algorithm is not None
    state = jax.eval_shape(method.algorithm.init, jax.random.key(0))
    num_bytes = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    return max(1, _MAX_STATE_BYTES // max(1, num_bytes))
