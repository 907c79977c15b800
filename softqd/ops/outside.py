"""Functions that JAX cannot see into, as part of problems that it can trace.

A call of such a function is a primitive of its own. Algorithms batch and differentiate
it like any other; what it computes is asked for on the host, a whole batch at a time.
`softqd.ops.walk` runs programs that hold such calls and hands them out one by one;
compiled as they are, they call back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir
from jaxtyping import Array, Int, PyTree, UInt

from softqd.types import Key, Problem

# Tickets start anew before they leave the range of their type.
_MOST_TICKETS = 2**30

# Gradients come first, as they are pulled from the batch before.
KINDS = PULLBACK, SAMPLE, EVALUATE, LINEARIZE = (
    *("pullback", "sample", "evaluate", "linearize"),
)


class NoGradientError(ValueError):
    """An algorithm takes gradients of what has none."""


class Call(NamedTuple):
    """The part of a call that is known when it is traced."""

    door: Door
    kind: str
    arguments: Any  # tree structure of what is handed over
    outputs: tuple[tuple[tuple[int, ...], Any], ...]  # shapes and types, for one row
    num_axes: int = 0  # of batches, in front


class Request(NamedTuple):
    """A call with its values, whose axes of batches have become one."""

    call: Call
    values: list[Any]

    @property
    def arguments(self) -> Any:
        """What is handed over, in the structure in which it was given."""
        return jax.tree.unflatten(self.call.arguments, self.values)

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.values[0].shape[0]


class _Held(NamedTuple):
    """A batch that gradients can be pulled from."""

    first: int  # ticket
    size: int
    pullback: Callable


class Door:
    """Answers requests, and keeps what the next gradients are pulled from.

    Every row of a batch that is evaluated for its gradient gets a ticket. Cotangents
    come back with tickets, in any order and number; those of a batch that is no longer
    kept are for one that is evaluated again.

    Args:
        evaluate: Solutions, and a tuple of words ``(n, w)`` of randomness if they take
            any, to quality ``(n,)`` and behavior ``(n, d)``. Everything has a leading
            axis ``n``.
        linearize: The same to that pair and a function of two cotangents that returns
            the gradient with respect to the solutions. None: there are no gradients.
        sample: Words to solutions. None: solutions are drawn in JAX.
        present: Solutions as users know them, from arrays; None: as NumPy's.
    """

    def __init__(
        self,
        evaluate: Callable,
        linearize: Callable | None = None,
        sample: Callable | None = None,
        present: Callable | None = None,
    ):
        self.evaluate, self.linearize, self.sample = evaluate, linearize, sample
        self.present = present or partial(jax.tree.map, np.array)
        self._next = 0
        self._held: list[_Held] = []

    def answer(self, request: Request) -> list[Any]:
        """The outputs of a call, one row per row of the request."""
        kind, arguments = request.call.kind, request.arguments
        if kind == PULLBACK:
            return jax.tree.leaves(self._pull(*arguments))
        self.forget()  # before the next batch needs memory
        answer = getattr(self, kind)(*arguments)
        if kind == LINEARIZE:
            found, pullback = answer
            return [*found, self.hold(pullback, request.size)]
        return jax.tree.leaves(answer)

    def hold(self, pullback: Callable, size: int) -> Int[np.ndarray, " n"]:
        """Keep a pullback until all is forgotten; tickets for its rows."""
        first = self._next if self._next < _MOST_TICKETS else 0
        self._next = first + size
        self._held.append(_Held(first, size, pullback))
        return np.arange(first, first + size, dtype=np.int32)

    def forget(self) -> None:
        """Let go of all batches and what their gradients need."""
        self._held.clear()

    def remember(self, folder: Any, is_resumed: bool = False) -> None:
        """Keep what is expensive in a folder from now on; None: nowhere."""

    def saved(self) -> None:
        """A checkpoint was written: what was remembered before is not needed."""

    def _pull(
        self, solutions: PyTree, words: Any, tickets: Any, cotangents: Any
    ) -> PyTree:
        tickets = np.asarray(tickets)
        held = next((h for h in self._held if _is_of(tickets, h)), None)
        if held is None:
            assert self.linearize is not None
            self.forget()
            _, pullback = self.linearize(solutions, words)
            tickets = self.hold(pullback, len(tickets))
            held = self._held[-1]
        return pulled(held.pullback, tickets - held.first, held.size, cotangents)


def _is_of(tickets: Int[np.ndarray, " m"], held: _Held) -> bool:
    place = tickets - held.first
    return bool(((place >= 0) & (place < held.size)).all())


def pulled(
    pullback: Callable, rows: Int[np.ndarray, " m"], size: int, cotangents: Any
) -> PyTree:
    """Gradients of some rows of a batch, of each as often as it comes.

    Args:
        pullback: Takes cotangents of the whole batch.
        rows: Of the batch.
        size: Of the batch.
        cotangents: For these rows.
    """
    if np.array_equal(rows, np.arange(size)):
        return pullback(*cotangents)
    order = np.argsort(rows, kind="stable")
    _, counts = np.unique(rows, return_counts=True)
    turn = np.empty_like(rows)  # how often a row came before
    turn[order] = np.concatenate([np.arange(count) for count in counts])
    found = None
    for i in range(counts.max()):
        now = np.flatnonzero(turn == i)
        full = [
            jnp.zeros((size, *c.shape[1:]), c.dtype).at[rows[now]].set(c[now])
            for c in map(jnp.asarray, cotangents)
        ]
        gradient = jax.tree.map(jnp.asarray, pullback(*full))
        if found is None:
            found = jax.tree.map(
                lambda g: jnp.zeros((len(rows), *g.shape[1:]), g.dtype), gradient
            )
        found = jax.tree.map(
            lambda f, g, now=now: f.at[now].set(g[rows[now]]), found, gradient
        )
    return found


# --- the primitive ----------------------------------------------------------------

outside = Primitive("outside")
outside.multiple_results = True


def requested(call: Call, values: Sequence[Any]) -> Request:
    """A call with its values as a request."""
    size = math.prod(values[0].shape[: call.num_axes])
    return Request(call, [x.reshape(size, *x.shape[call.num_axes :]) for x in values])


def delivered(call: Call, axes: tuple[int, ...], answer: Sequence[Any]) -> list[Array]:
    """An answer as outputs of the call, with its axes of batches."""
    return [
        jnp.asarray(x, dtype).reshape(*axes, *shape)
        for x, (shape, dtype) in zip(answer, call.outputs, strict=True)
    ]


def _answered(*values: Any, call: Call) -> list[Array]:
    answer = call.door.answer(requested(call, values))
    return delivered(call, values[0].shape[: call.num_axes], answer)


def _shapes(*values: Any, call: Call) -> list[ShapedArray]:
    axes = values[0].shape[: call.num_axes]
    return [ShapedArray((*axes, *shape), dtype) for shape, dtype in call.outputs]


def _batched(values: Sequence[Any], dims: Sequence[Any], *, call: Call) -> Any:
    pairs = list(zip(values, dims, strict=True))
    size = next(x.shape[dim] for x, dim in pairs if dim is not None)
    moved = [
        jnp.broadcast_to(x, (size, *x.shape))
        if dim is None
        else jnp.moveaxis(x, dim, 0)
        for x, dim in pairs
    ]
    outs = outside.bind(*moved, call=call._replace(num_axes=call.num_axes + 1))
    return outs, [0] * len(outs)


def _called_back(*values: Any, call: Call) -> list[Array]:
    """In a program that is compiled as it is."""
    shapes = [
        jax.ShapeDtypeStruct(x.shape, x.dtype) for x in _shapes(*values, call=call)
    ]
    return jax.pure_callback(lambda *x: _answered(*x, call=call), shapes, *values)


outside.def_impl(_answered)
outside.def_abstract_eval(_shapes)
batching.primitive_batchers[outside] = _batched
mlir.register_lowering(outside, mlir.lower_fun(_called_back, multiple_results=True))


def _call(door: Door, kind: str, arguments: Any, outputs: PyTree) -> PyTree:
    values, structure = jax.tree.flatten(arguments)
    leaves, treedef = jax.tree.flatten(outputs)
    shapes = tuple((tuple(x.shape), np.dtype(x.dtype)) for x in leaves)
    call = Call(door, kind, structure, shapes)
    return jax.tree.unflatten(treedef, outside.bind(*values, call=call))


# --- problems ---------------------------------------------------------------------


def words_of(key: Key) -> UInt[Array, " w"]:
    """The numbers that a key consists of."""
    is_key = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(key) if is_key else key


class _Outside:
    """``evaluate`` of a problem that is computed outside, but for its signature.

    Args:
        door: Answers.
        shapes_of: One solution's shapes to those of ``(quality, behavior)``.
        no_gradient: What to say to algorithms that take gradients; None where there are
            gradients.
    """

    def __init__(self, door: Door, shapes_of: Callable, no_gradient: str | None = None):
        self.door, self._shapes_of, self._no_gradient = door, shapes_of, no_gradient
        self._differentiable = jax.custom_vjp(self._plain)
        self._differentiable.defvjp(self._forward, self._backward)

    def _asked(self, kind: str, solution: PyTree, words: Any, *more: Any) -> PyTree:
        shapes = jax.eval_shape(self._shapes_of, solution)
        return _call(self.door, kind, (solution, words), (*shapes, *more))

    def _plain(self, solution: PyTree, words: Any) -> tuple[Array, Array]:
        return self._asked(EVALUATE, solution, words)

    def _forward(self, solution: PyTree, words: Any) -> Any:
        if self._no_gradient is not None:
            raise NoGradientError(self._no_gradient)
        ticket = jax.ShapeDtypeStruct((), jnp.int32)
        *found, ticket = self._asked(LINEARIZE, solution, words, ticket)
        return tuple(found), (solution, words, ticket)

    def _backward(self, kept: Any, cotangents: tuple[Array, Array]) -> Any:
        gradient = _call(self.door, PULLBACK, (*kept, cotangents), kept[0])
        return gradient, None


class OutsideEvaluate(_Outside):
    """What is computed outside of a solution alone."""

    def __call__(self, solution: PyTree) -> tuple[Array, Array]:
        """Quality and behavior of one solution."""
        return self._differentiable(solution, ())


class OutsideStochastic(_Outside):
    """What is computed outside of a solution and a key."""

    def __call__(self, solution: PyTree, key: Key) -> tuple[Array, Array]:
        """Quality and behavior of one solution, with this randomness."""
        return self._differentiable(solution, (words_of(key),))


def outside_sample(door: Door, solution: PyTree) -> Callable[[Key], PyTree]:
    """``sample`` of a problem, drawn outside, of solutions like this one."""
    return lambda key: _call(door, SAMPLE, (words_of(key),), solution)


def door_of(problem: Problem | None) -> Door | None:
    """What answers for a problem that is computed outside; None for one in JAX."""
    evaluate = getattr(getattr(problem, "evaluate", None), "func", None)
    return evaluate.door if isinstance(evaluate, _Outside) else None
