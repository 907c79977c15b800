"""What a run does on the device: begin, advance, look at its population.

Runs that advance together in one compiled program are its lanes. A lane has a seed
and, where settings differ, numbers of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from softqd.experiment.result import COUNTS
from softqd.experiment.warm import completed, missing
from softqd.ops.gpu import compiler_options
from softqd.types import Algorithm, Population, Problem, lift_arrays


class Lanes(NamedTuple):
    """Runs that advance together.

    Attributes:
        seeds: One per lane.
        numbers: What an algorithm's ``init`` takes beside the key, a row per lane; None
            where it takes a key alone.
        is_single: Whether there is one lane, whose program is not batched.
    """

    seeds: list[int]
    numbers: Float[np.ndarray, "lanes k"] | None = None
    is_single: bool = False

    def starts(self) -> Any:
        """What ``init`` is called with, for all lanes."""
        keys = [jax.random.key(seed) for seed in self.seeds]
        key = keys[0] if self.is_single else jnp.stack(keys)
        return key if self.numbers is None else (key, self.numbers)

    def over(self, function: Callable) -> Callable:
        """A function of one lane, over all of them."""
        return function if self.is_single else jax.vmap(function)

    def split(self, tree: PyTree) -> list[Any]:
        """What belongs to each lane."""
        if self.is_single:
            return [tree]
        indices = range(len(self.seeds))
        return [jax.tree.map(lambda x, i=i: x[i], tree) for i in indices]

    def words(self, index: int) -> str:
        """Which lane, in a sentence; nothing where there is one."""
        return "" if self.is_single else f" of seed {self.seeds[index]}"


class Tally(NamedTuple):
    """What is kept of a chunk of iterations, per lane."""

    counts: Int[Array, "*lanes 3"]  # as in COUNTS, summed
    first_bad: Int[Array, "*lanes 2"]  # first step with a non-finite row, or -1; it


class Program:
    """The compiled functions of an algorithm over its lanes."""

    def __init__(self, algorithm: Algorithm, lanes: Lanes):
        self.algorithm, self.lanes = algorithm, lanes
        self._step = lift_arrays(algorithm.step)
        self._init = lift_arrays(algorithm.init)
        population = lanes.over(algorithm.population)
        self._population = jax.jit(population)
        self._place = jax.jit(lambda state: _place_of(population(state)))

    def shape_of_state(self, solutions: PyTree | None) -> PyTree:
        """Shapes and dtypes of the state, before it is computed."""
        return jax.eval_shape(self._beginning(solutions), *self._arguments(solutions))

    def begin(self, solutions: PyTree | None) -> PyTree:
        """Compile, and compute the first state."""
        arguments = self._arguments(solutions)
        lowered = self._lower(self.shape_of_state(solutions))
        start = jax.jit(self._beginning(solutions)).lower(*arguments)
        options = compiler_options()
        # Both programs at once: compilers work outside of Python. Running waits for
        # both, because compilers try their kernels out on the device.
        with ThreadPoolExecutor(1) as thread:
            program = thread.submit(lowered.compile, options)
            begin = start.compile(options)
        self._program = program.result()
        return begin(*arguments)

    def compile(self, state: PyTree) -> None:
        """Compile what advances a state of this shape."""
        self._program = self._lower(state).compile(compiler_options())

    def advance(self, state: PyTree, num_steps: int) -> tuple[PyTree, Tally, Any]:
        """Some iterations: the new state, a tally, the last iteration's info.

        The old state's buffers are given away.
        """
        return self._program(self._step, state, jnp.int32(num_steps))

    def info_shape(self, state: PyTree) -> Any:
        """Shapes and dtypes of an iteration's info."""
        return jax.eval_shape(self.lanes.over(self._step), state)[1]

    def populations(self, state: PyTree) -> list[Population]:
        """The current population of every lane."""
        return self.lanes.split(self._population(state))

    def places(self, state: PyTree) -> list[tuple[np.ndarray, np.ndarray]]:
        """Qualities and behaviors of every lane; solutions stay on the device."""
        found = self.lanes.split(jax.tree.map(np.asarray, self._place(state)))
        return [
            (quality[occupied], behavior[occupied])
            for quality, behavior, occupied in found
        ]

    def qualities(self, state: PyTree) -> list[np.ndarray]:
        """Qualities of every lane."""
        return [quality for quality, _ in self.places(state)]

    def _beginning(self, solutions: PyTree | None) -> Callable:
        num_missing = missing(self.algorithm, solutions)
        return partial(_begin, over=self.lanes.over, num_missing=num_missing)

    def _arguments(self, solutions: PyTree | None) -> tuple[Any, ...]:
        is_short = missing(self.algorithm, solutions) > 0
        problem = self.algorithm.problem if is_short else None
        return self._init, problem, self.lanes.starts(), solutions

    def _lower(self, state: PyTree) -> Any:
        # Buffers of the old state are reused for the new one.
        program = jax.jit(_advance, static_argnames="over", donate_argnames="state")
        over = _single if self.lanes.is_single else jax.vmap
        return program.lower(self._step, state, jnp.int32(0), over=over)


def _single(function: Callable, in_axes: Any = 0) -> Callable:
    return function


def _place_of(population: Population) -> tuple[Any, Any, Any]:
    return population.quality, population.behavior, population.occupied


def _begin(
    init: Callable,
    problem: Problem | None,
    start: Any,
    solutions: PyTree | None,
    *,
    over: Callable,
    num_missing: int,
) -> PyTree:
    def one(key: Any) -> PyTree:
        if solutions is None:
            return init(key)
        if problem is None:
            return init(key, solutions)
        return init(key, completed(problem, solutions, key, num_missing))

    return over(one)(start)


def _advance(step: Callable, state: PyTree, num_steps: Any, over: Callable) -> tuple:
    """``num_steps`` iterations in one loop, whose length is not compiled in.

    The same program serves every chunk, so that a run does not depend on how it was
    cut into chunks.
    """

    def watched(i, state, tally, _):
        state, info = step(state)
        counts = jnp.stack([getattr(info, name) for name in COUNTS])
        bad_row = info.is_finite.argmin().astype(jnp.int32)
        is_first_bad = ~info.is_finite[bad_row] & (tally.first_bad[0] < 0)
        first_bad = jnp.where(is_first_bad, jnp.stack([i, bad_row]), tally.first_bad)
        return state, Tally(tally.counts + counts, first_bad), info

    one = over(watched, in_axes=(None, 0, 0, 0))
    shape = jax.eval_shape(over(step), state)[1]
    lanes = shape.evaluations.shape
    tally = Tally(
        jnp.zeros((*lanes, 3), jnp.int32), jnp.full((*lanes, 2), -1, jnp.int32)
    )
    info = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shape)
    return jax.lax.fori_loop(
        0, num_steps, lambda i, carry: one(i, *carry), (state, tally, info)
    )
