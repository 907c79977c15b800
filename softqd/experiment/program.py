"""What a run does on the device: begin, advance, look at its population.

Runs that advance together in one compiled program are its lanes. A lane has a seed
and, where settings differ, numbers of its own.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, PyTree

from softqd.experiment.result import COUNTS
from softqd.experiment.spread import Spread, spread_over
from softqd.experiment.warm import completed, missing
from softqd.ops.gpu import compiler_options
from softqd.ops.outside import door_of
from softqd.ops.seeds import key_of
from softqd.ops.walk import Walk, Walker, abreast, answered
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
        keys = [key_of(seed) for seed in self.seeds]
        key = keys[0] if self.is_single else jnp.stack(keys)
        return key if self.numbers is None else (key, self.numbers)

    def split(self, tree: PyTree) -> list[Any]:
        """What belongs to each lane."""
        if self.is_single:
            return [tree]
        indices = range(len(self.seeds))
        return [jax.tree.map(lambda x, i=i: x[i], tree) for i in indices]

    def join(self, parts: list[Any]) -> PyTree:
        """What belongs to each lane, put together again."""
        if self.is_single:
            return parts[0]
        return jax.tree.map(lambda *x: jnp.stack(x), *parts)

    def words(self, index: int) -> str:
        """Which lane, in a sentence; nothing where there is one."""
        return "" if self.is_single else f" of seed {self.seeds[index]}"


class Tally(NamedTuple):
    """What is kept of a chunk of iterations, per lane."""

    counts: Int[Array, "*lanes 3"]  # as in COUNTS, summed
    first_bad: Int[Array, "*lanes 2"]  # first step with a non-finite row, or -1; it


class Program:
    """The compiled functions of an algorithm over its lanes.

    Runs of one algorithm share what was traced and compiled for the first of them.
    """

    keeps_state = False  # when it advances from it

    def __init__(self, algorithm: Algorithm, lanes: Lanes, mesh: Mesh | None = None):
        self.algorithm, self.lanes = algorithm, lanes
        self._functions = _functions_of(algorithm)
        self._step = lift_arrays(algorithm.step)
        self._init = lift_arrays(algorithm.init)
        self._over = _single if lanes.is_single else jax.vmap
        self.spread = Spread(mesh)  # until the size of the population is known

    def shape_of_state(self, solutions: PyTree | None) -> PyTree:
        """Shapes and dtypes of the state, before it is computed."""
        begin, short = self._functions.begin, missing(self.algorithm, solutions)
        arguments = self._arguments(solutions)
        how = {"over": self._over, "spread": Spread()}
        state = begin.eval_shape(*arguments, **how, num_missing=short)
        if self.spread.mesh is not None:
            shape = jax.eval_shape(self._over(self.algorithm.population), state)
            axis = 0 if self.lanes.is_single else 1
            size = shape.occupied.shape[axis]
            self.spread = spread_over(self.spread.mesh, size, axis)
        return self.spread.place(state)

    def begin(self, solutions: PyTree | None) -> PyTree:
        """Compile, and compute the first state."""
        arguments = self._arguments(solutions)
        lowered = self._lower(self.shape_of_state(solutions))
        begin, short = self._functions.begin, missing(self.algorithm, solutions)
        start = begin.lower(*arguments, **self._how(), num_missing=short)
        options = compiler_options()
        # Both programs at once: compilers work outside of Python. Running waits for
        # both, because compilers try their kernels out on the device.
        with ThreadPoolExecutor(1) as thread:
            program = thread.submit(lowered.compile, options)
            begin = start.compile(options)
        self._program = program.result()
        return begin(*arguments)

    def go_on(self, state: PyTree) -> PyTree:
        """Compile what advances a state of this shape; the state where it belongs."""
        state = self.spread.place(state)
        self._program = self._lower(state).compile(compiler_options())
        return state

    def advance(self, state: PyTree, num_steps: int) -> tuple[PyTree, Tally, Any]:
        """Some iterations: the new state, a tally, the last iteration's info.

        The old state's buffers are given away.
        """
        return self._program(self._step, state, jnp.int32(num_steps))

    def info_shape(self, state: PyTree) -> Any:
        """Shapes and dtypes of an iteration's info."""
        return jax.eval_shape(
            self._over(partial(self._functions.step, self._step)), state
        )[1]

    def populations(self, state: PyTree) -> list[Population]:
        """The current population of every lane."""
        return self.lanes.split(self._functions.population(state, **self._how()))

    def places(self, state: PyTree) -> list[tuple[np.ndarray, np.ndarray]]:
        """Qualities and behaviors of every lane; solutions stay on the device."""
        place = self._functions.place(state, **self._how())
        found = self.lanes.split(jax.tree.map(np.asarray, place))
        return [
            (quality[occupied], behavior[occupied])
            for quality, behavior, occupied in found
        ]

    def presented(self, population: Population) -> Population:
        """A population on the host, its solutions as users of its problem know them."""
        kept, door = population.compact(), door_of(self.algorithm.problem)
        if door is None:
            return kept
        return dataclasses.replace(kept, solutions=door.present(kept.solutions))

    def remember(self, folder: Path | None, is_resumed: bool = False) -> None:
        """Where evaluations outside of JAX are kept until a checkpoint holds them."""
        door = door_of(self.algorithm.problem)
        if door is not None:
            door.remember(folder, is_resumed)

    def saved(self) -> None:
        """A checkpoint was written."""
        door = door_of(self.algorithm.problem)
        if door is not None:
            door.saved()

    def _arguments(self, solutions: PyTree | None) -> tuple[Any, ...]:
        is_short = missing(self.algorithm, solutions) > 0
        problem = self.algorithm.problem if is_short else None
        return self._init, problem, self.lanes.starts(), solutions

    def _lower(self, state: PyTree) -> Any:
        advance = self._functions.advance
        return advance.lower(self._step, state, jnp.int32(0), **self._how())

    def _how(self) -> dict[str, Any]:
        """Of all compiled functions: lanes side by side, rows on their devices."""
        return {"over": self._over, "spread": self.spread}


class Functions(NamedTuple):
    """What is compiled of an algorithm.

    ``over`` puts lanes side by side, ``spread`` their rows on devices.

    The last is walked, a lane at a time, where the problem is not in JAX.
    """

    begin: Any
    step: Any
    advance: Any
    population: Any
    place: Any
    advance_walk: Walker


# By the identity of a step and what it is shown by, for as long as the step is there.
_FUNCTIONS: dict[tuple[int, int], Functions] = {}


def _functions_of(algorithm: Algorithm) -> Functions:
    """The same functions for the same algorithm, so that JAX knows them again."""
    name = id(algorithm.step), id(algorithm.population)
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    step = jax.jit(lambda step, state: step(state))
    compiled = partial(jax.jit, static_argnames=("over", "spread"))
    population = algorithm.population
    functions = Functions(
        begin=jax.jit(
            partial(_begin), static_argnames=("over", "spread", "num_missing")
        ),
        # On its own it is traced once, for shapes and for loops of any lanes.
        step=step,
        # Buffers of the old state are reused for the new one.
        advance=compiled(partial(_advance, step), donate_argnames="state"),
        population=compiled(
            lambda state, *, over, spread: spread.whole(over(population)(state))
        ),
        place=compiled(
            lambda state, *, over, spread: spread.whole(
                _place_of(over(population)(state))
            )
        ),
        advance_walk=Walker(partial(_advance, step, over=_single, spread=Spread())),
    )
    with suppress(TypeError):  # what cannot be watched is not kept
        weakref.finalize(algorithm.step, _FUNCTIONS.pop, name)
        _FUNCTIONS[name] = functions
    return functions


class WalkedProgram(Program):
    """The functions of an algorithm whose problem is not computed in JAX.

    Each lane is walked on its own, so that a branch that one of them takes costs the
    others no evaluations; what they ask for is asked together.
    """

    keeps_state = True

    def begin(self, solutions: PyTree | None) -> PyTree:
        """Compute the first state."""
        return answered(self.beginning(solutions))

    def go_on(self, state: PyTree) -> PyTree:
        """Parts are compiled when they are first needed."""
        return state

    def advance(self, state: PyTree, num_steps: int) -> tuple[PyTree, Tally, Any]:
        """Some iterations: the new state, a tally, the last iteration's info."""
        return answered(self.advancing(state, num_steps))

    def beginning(self, solutions: PyTree | None) -> Walk:
        """Walk to the first state."""
        # What an iteration cannot do is said before anything is evaluated.
        self.info_shape(self.shape_of_state(solutions))
        init, problem, starts, solutions = self._arguments(solutions)
        short = missing(self.algorithm, solutions)
        how = {"over": _single, "spread": Spread(), "num_missing": short}
        walk = Walker(partial(_begin, **how))
        return self._over_lanes(
            walk(init, problem, start, solutions) for start in self.lanes.split(starts)
        )

    def advancing(self, state: PyTree, num_steps: int) -> Walk:
        """Walk some iterations, as `advance` does."""
        return self._over_lanes(
            self._functions.advance_walk(self._step, one, jnp.int32(num_steps))
            for one in self.lanes.split(state)
        )

    def _over_lanes(self, walks: Iterable[Walk]) -> Walk:
        return self.lanes.join((yield from abreast(list(walks))))


def program_of(algorithm: Algorithm, lanes: Lanes, mesh: Mesh | None = None) -> Program:
    """What runs an algorithm: compiled as a whole, where its problem is in JAX.

    Raises:
        ValueError: If a problem that is not in JAX is to run on a mesh.
    """
    if door_of(algorithm.problem) is None:
        return Program(algorithm, lanes, mesh)
    if mesh is not None:
        raise ValueError(
            "mesh spreads a population over devices of JAX, and this problem is not "
            "evaluated there; leave mesh out, and give it an executor of more workers"
        )
    return WalkedProgram(algorithm, lanes)


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
    spread: Spread,
    num_missing: int,
) -> PyTree:
    def one(key: Any) -> PyTree:
        if solutions is None:
            return init(key)
        if problem is None:
            return init(key, solutions)
        return init(key, completed(problem, solutions, key, num_missing))

    return spread.hold(over(one)(start))


def _advance(
    once: Callable,
    step: Callable,
    state: PyTree,
    num_steps: Any,
    *,
    over: Callable,
    spread: Spread,
) -> tuple[PyTree, Tally, Any]:
    """``num_steps`` iterations in one loop, whose length is not compiled in.

    The same program serves every chunk, so that a run does not depend on how it was
    cut into chunks.
    """

    def watched(i, state, tally, _):
        state, info = once(step, state)
        counts = jnp.stack([getattr(info, name) for name in COUNTS])
        bad_row = info.is_finite.argmin().astype(jnp.int32)
        is_first_bad = ~info.is_finite[bad_row] & (tally.first_bad[0] < 0)
        first_bad = jnp.where(is_first_bad, jnp.stack([i, bad_row]), tally.first_bad)
        return state, Tally(tally.counts + counts, first_bad), info

    one = over(watched, in_axes=(None, 0, 0, 0))
    shape = jax.eval_shape(over(partial(once, step)), state)[1]
    lanes = shape.evaluations.shape
    tally = Tally(
        jnp.zeros((*lanes, 3), jnp.int32), jnp.full((*lanes, 2), -1, jnp.int32)
    )
    info = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shape)

    def iterate(i, carry):
        state, *found = one(i, *carry)
        return spread.hold(state), *found

    return jax.lax.fori_loop(0, num_steps, iterate, (state, tally, info))
