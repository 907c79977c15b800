"""Optimizers and schedules as text: calls of optax functions, and nothing else."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax

from softqd.ops.checks import is_concrete
from softqd.ops.names import UnknownNameError, lookup
from softqd.settings import Kind

_EXAMPLE = "write for example adam(0.05)"
_FUNCTIONS = {n: f for n, f in vars(optax).items() if callable(f) and n[0] != "_"}
# What algorithms take for an optimizer.
Optimizer = optax.GradientTransformation | str | float


def as_optimizer(given: Any) -> optax.GradientTransformation:
    """An optax optimizer: itself, one spelled as text, or Adam with a learning rate.

    Raises:
        ValueError: If it is anything else.

    Examples:
        >>> halve = as_optimizer("sgd(0.5)")
        >>> float(halve.update(2.0, halve.init(2.0))[0])
        -1.0
    """
    is_text = isinstance(given, str)
    found: Any = evaluate(given, "optimizer") if is_text else given
    if isinstance(found, optax.GradientTransformation):
        return found
    if is_text or not _is_rate(found):
        raise ValueError(
            "optimizer must be an optax optimizer, a text such as 'adam(0.05)', or a "
            f"positive learning rate of Adam; got {given!r:.80}"
        )
    return optax.adam(found)


def _is_rate(given: Any) -> bool:
    numbers = (int, float, np.number, jax.Array)
    if not isinstance(given, numbers) or isinstance(given, bool) or np.ndim(given):
        return False
    return not is_concrete(given) or bool(0 < given < np.inf)


def evaluate(
    text: str, name: str = "expression", number: Callable[[float], Any] = float
) -> Any:
    """Evaluate nested calls of optax functions with literal arguments.

    Args:
        text: As in ``adam(0.05)``.
        name: For messages.
        number: Called with every argument with a decimal point; its answer is used.

    Raises:
        ValueError: If the text is anything else, or a function refuses its arguments.

    Examples:
        >>> evaluate("constant_schedule(0.5)")(0)
        0.5
    """

    def convert(node: ast.expr) -> Any:
        if not isinstance(node, ast.Call):
            value = ast.literal_eval(node)
            return number(value) if isinstance(value, float) else value
        called = ast.unparse(node.func)
        function = lookup("optax function", called, _FUNCTIONS, _EXAMPLE)
        keywords = {k.arg or "**": convert(k.value) for k in node.keywords}
        return function(*map(convert, node.args), **keywords)

    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if not isinstance(tree, ast.Call):
            raise ValueError("it is not a call")
        return convert(tree)
    except UnknownNameError:
        raise
    except Exception as error:  # whatever optax makes of the arguments
        raise ValueError(
            f"{name} {text!r:.80} cannot be read ({error!s:.80}); {_EXAMPLE}"
        ) from None


@functools.cache
def check(text: str, name: str, kind: Kind) -> None:
    """Try an optimizer or a schedule, without computing anything.

    Raises:
        ValueError: If it cannot be evaluated, or is something else.
    """
    found = evaluate(text, name)

    def updated(x: jax.Array) -> Any:
        return found.update(x, found.init(x), x)[0]

    try:
        if kind is Kind.OPTIMIZER:
            given = jax.ShapeDtypeStruct((2,), np.float32)
            answer = jax.eval_shape(updated, given)
        else:
            given = jax.ShapeDtypeStruct((), np.int32)
            answer = jax.eval_shape(found, given)
        if answer.shape != given.shape:
            raise ValueError(f"it gives shape {answer.shape} for {given.shape}")
    except Exception as error:
        raise ValueError(
            f"{name} must be {kind.value}; got {text!r:.80} ({error!s:.80})"
        ) from None
