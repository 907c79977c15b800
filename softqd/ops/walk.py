"""Run a program that holds calls outside of JAX, and hand these out one by one.

The program is traced. What lies between two outside calls is compiled; loops, branches
and inner functions that hold one are followed on the host. So an algorithm stays the
pure function that it is, and the calls of a generator take turns with it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var, jaxpr_as_fun
from jaxtyping import PyTree

from softqd.ops.outside import KINDS, Request, delivered, outside, requested

# A program on its way: it asks, is sent an answer, and returns.
Walk = Generator[Request, Any, Any]

# Equations that only wrap a program.
_WRAPPERS = {
    *("jit", "pjit", "checkpoint", "remat", "remat2", "closed_call", "core_call"),
    *("custom_jvp_call", "custom_vjp_call", "eval_jaxpr"),
}


class Walker:
    """A function of arrays whose calls outside are handed out.

    Args:
        function: Pure, of pytrees of arrays.
    """

    def __init__(self, function: Callable):
        self._function = function
        self._routes: dict[Any, tuple[_Route, Any]] = {}

    def __call__(self, *args: PyTree) -> Walk:
        """Begin a walk; it returns what the function does."""
        leaves, structure = jax.tree.flatten(args)
        leaves = [jnp.asarray(x) for x in leaves]
        kind = structure, tuple((x.shape, x.dtype) for x in leaves)
        if kind not in self._routes:
            trace = jax.make_jaxpr(self._function, return_shape=True)
            traced, shapes = trace(*args)
            self._routes[kind] = _Route(traced), jax.tree.structure(shapes)
        route, treedef = self._routes[kind]
        return _packed(route(*leaves), treedef)


def _packed(walk: Walk, treedef: Any) -> Walk:
    return jax.tree.unflatten(treedef, (yield from walk))


def answered(walk: Walk) -> Any:
    """Walk to the end; the requests are answered where they lead to."""
    doors = set()
    try:
        request = next(walk)
        while True:
            doors.add(request.call.door)
            request = walk.send(request.call.door.answer(request))
    except StopIteration as end:
        return end.value
    finally:
        walk.close()
        for door in doors:
            door.forget()


def abreast(walks: Sequence[Walk]) -> Walk:
    """Several walks as one: what they ask for at the same time is asked together.

    Returns:
        What each of them returns, in a list.
    """
    returned: list[Any] = [None] * len(walks)
    waiting: dict[int, Request] = {}

    def go_on(i: int, answer: Any) -> None:
        try:
            waiting[i] = walks[i].send(answer)
        except StopIteration as end:
            returned[i] = end.value

    for i in range(len(walks)):
        go_on(i, None)
    while waiting:
        asked = (request.call for request in waiting.values())
        call = min(asked, key=lambda call: KINDS.index(call.kind))
        group = {i: r for i, r in waiting.items() if _is_alike(r.call, call)}
        values = zip(*(r.values for r in group.values()), strict=True)
        together = Request(call, [_joined(parts) for parts in values])
        ends = np.cumsum([r.size for r in group.values()]).tolist()
        answer = yield together
        for (i, request), end in zip(group.items(), ends, strict=True):
            del waiting[i]
            go_on(i, [x[end - request.size : end] for x in answer])
    return returned


def _is_alike(one: Any, other: Any) -> bool:
    return one._replace(num_axes=0) == other._replace(num_axes=0)


def _joined(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts)


# --- routes -----------------------------------------------------------------------


class _Stretch(NamedTuple):
    """Some equations, or one that leads outside."""

    run: Callable  # values to values; where it leads outside, to a walk
    is_inside: bool
    inputs: list[Any]
    outputs: list[Any]
    last_used: set[Any]  # values that nobody needs afterwards


class _Route:
    """A traced program, cut into stretches."""

    def __init__(self, traced: Any):
        # JAX 0.11 has one kind of these; before, open ones have no constants.
        jaxpr = getattr(traced, "jaxpr", traced)
        self._inputs = [*jaxpr.constvars, *jaxpr.invars]
        self._consts = list(getattr(traced, "consts", ()))
        self._outputs = jaxpr.outvars
        self._stretches = _marked(list(_cut(jaxpr)), jaxpr.outvars)

    def __call__(self, *args: Any) -> Walk:
        known = dict(zip(self._inputs, (*self._consts, *args), strict=True))
        del args

        def read(atom: Any) -> Any:
            return atom.val if isinstance(atom, Literal) else known[atom]

        for stretch in self._stretches:
            found = stretch.run(*map(read, stretch.inputs))
            if not stretch.is_inside:
                found = yield from found
            known.update(zip(stretch.outputs, found, strict=True))
            for gone in stretch.last_used:
                known.pop(gone, None)
            del found
        return [read(atom) for atom in self._outputs]


def _cut(jaxpr: Any) -> Iterator[_Stretch]:
    inside: list[Any] = []
    for i, eqn in enumerate(jaxpr.eqns):
        if not _leads_outside(eqn):
            inside.append(eqn)
            continue
        if inside:
            yield _compiled(jaxpr, inside, jaxpr.eqns[i:])
            inside = []
        run = _FOLLOWED.get(eqn.primitive.name, _wrapped)(eqn)
        yield _Stretch(run, False, eqn.invars, eqn.outvars, set())
    if inside:
        yield _compiled(jaxpr, inside, [])


def _marked(stretches: list[_Stretch], kept: Sequence[Any]) -> list[_Stretch]:
    """Say where values are used last."""
    used = _variables(kept)
    for i in reversed(range(len(stretches))):
        stretch = stretches[i]
        here = _variables(stretch.inputs) | _variables(stretch.outputs)
        stretches[i] = stretch._replace(last_used=here - used)
        used |= here
    return stretches


def _variables(atoms: Sequence[Any]) -> set[Any]:
    return {atom for atom in atoms if isinstance(atom, Var)}


def _leads_outside(eqn: Any) -> bool:
    return eqn.primitive is outside or any(
        _leads_outside(inner) for jaxpr in _programs(eqn) for inner in jaxpr.eqns
    )


def _programs(eqn: Any) -> Iterator[Any]:
    """Those that an equation holds, alone or as branches (JAX 0.10 has it as well)."""
    for value in eqn.params.values():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, (Jaxpr, ClosedJaxpr)):
                yield part


def _compiled(jaxpr: Any, eqns: list[Any], later: Sequence[Any]) -> _Stretch:
    """Equations without a call outside, as one program."""
    made = [v for eqn in eqns for v in eqn.outvars]
    needed = _variables(jaxpr.outvars)
    needed = needed.union(*(_variables(eqn.invars) for eqn in later))
    read = dict.fromkeys(v for eqn in eqns for v in eqn.invars if isinstance(v, Var))
    inputs = [v for v in read if v not in set(made)]
    outputs = [v for v in made if v in needed]
    effects = frozenset().union(*(eqn.effects for eqn in eqns))
    part = jaxpr.replace(
        constvars=[], invars=inputs, outvars=outputs, eqns=eqns, effects=effects
    )
    run = jax.jit(jaxpr_as_fun(ClosedJaxpr(part, [])))
    return _Stretch(run, True, inputs, outputs, set())


def _asked(eqn: Any) -> Callable:
    call = eqn.params["call"]

    def run(*values: Any) -> Walk:
        answer = yield requested(call, values)
        return delivered(call, values[0].shape[: call.num_axes], answer)

    return run


def _wrapped(eqn: Any) -> Callable:
    name = eqn.primitive.name
    if name not in _WRAPPERS:
        raise NotImplementedError(
            f"an evaluation outside of JAX inside of {name!r} is not supported; call "
            "evaluate from jit, vmap, cond, scan, while_loop or plain Python"
        )
    values = eqn.params.values()
    return _Route(next(v for v in values if isinstance(v, (ClosedJaxpr, Jaxpr))))


def _branched(eqn: Any) -> Callable:
    branches = [_Route(branch) for branch in eqn.params["branches"]]
    return lambda index, *values: branches[int(index)](*values)


def _repeated(eqn: Any) -> Callable:
    goes_on, body = (_Route(eqn.params[f"{part}_jaxpr"]) for part in ("cond", "body"))
    m, n = (eqn.params[f"{part}_nconsts"] for part in ("cond", "body"))

    def run(*values: Any) -> Walk:
        asked, fixed, carry = values[:m], values[m : m + n], values[m + n :]
        del values
        while bool((yield from goes_on(*asked, *carry))[0]):
            walk, carry = body(*fixed, *carry), ()  # the old ones are let go
            carry = yield from walk
        return carry

    return run


def _scanned(eqn: Any) -> Callable:
    body, length = _Route(eqn.params["jaxpr"]), eqn.params["length"]
    order = range(length)[::-1] if eqn.params["reverse"] else range(length)
    closed = eqn.params["jaxpr"]
    # What is scanned over, or stacked, has an axis more than inside.
    num_rest = _num_alike(eqn.invars, closed.in_avals)
    num_carry = _num_alike(eqn.outvars, closed.out_avals)

    def run(*values: Any) -> Walk:
        fixed, rows = values[: num_rest - num_carry], values[num_rest:]
        carry = values[num_rest - num_carry : num_rest]
        found: list[Any] = [None] * length
        for i in order:
            out = yield from body(*fixed, *carry, *_row(rows, i))
            carry, found[i] = out[:num_carry], tuple(out[num_carry:])
        if not length:
            avals = [v.aval for v in eqn.outvars[num_carry:]]
            return [*carry, *(jnp.zeros(a.shape, a.dtype) for a in avals)]
        return [*carry, *_stacked(found)]

    return run


def _num_alike(outer: Sequence[Any], inner: Sequence[Any]) -> int:
    pairs = zip(outer, inner, strict=True)
    return sum(atom.aval.ndim == aval.ndim for atom, aval in pairs)


@jax.jit
def _row(values: Sequence[Any], i: Any) -> list[Any]:
    return [jax.lax.dynamic_index_in_dim(x, i, keepdims=False) for x in values]


@jax.jit
def _stacked(rows: list[Any]) -> list[Any]:
    return [jnp.stack(parts) for parts in zip(*rows, strict=True)]


_FOLLOWED = {
    "outside": _asked,
    "cond": _branched,
    "while": _repeated,
    "scan": _scanned,
}
