"""Optimizers and schedules spelled as text, such as ``adam(0.05)``."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
import optax

from softqd.ops.checks import is_concrete

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
    found: Any = evaluate_expression(given, "optimizer") if is_text else given
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


class _UnknownFunctionError(ValueError):
    """The message names the nearest known one."""


def evaluate_expression(
    text: str, name: str = "expression", number: Callable[[float], Any] = float
) -> Any:
    """Evaluate nested calls of optax functions with literal arguments.

    Args:
        text: As in ``adam(0.05)``.
        name: For messages.
        number: Called with every argument with a decimal point; its answer is used.

    Raises:
        ValueError: If the text is anything else.

    Examples:
        >>> evaluate_expression("constant_schedule(0.5)")(0)
        0.5
    """
    example = "write for example adam(0.05)"

    def convert(node: ast.expr) -> Any:
        if not isinstance(node, ast.Call):
            value = ast.literal_eval(node)
            return number(value) if isinstance(value, float) else value
        function = getattr(node.func, "id", None)
        if not function or function.startswith("_") or not hasattr(optax, function):
            known = [n for n in dir(optax) if not n.startswith("_")]
            wrong = ast.unparse(node.func)
            raise _UnknownFunctionError(
                unknown_message("optax function", wrong, known, example)
            )
        keywords = {k.arg: convert(k.value) for k in node.keywords if k.arg}
        return getattr(optax, function)(*map(convert, node.args), **keywords)

    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if not isinstance(tree, ast.Call):
            raise ValueError("it is not a call")
        return convert(tree)
    except _UnknownFunctionError:
        raise
    except Exception as error:  # whatever optax makes of the arguments
        raise ValueError(
            f"{name} {text!r} cannot be read ({error}); {example}"
        ) from None


def unknown_message(kind: str, name: str, known: Iterable[str], see: str) -> str:
    """One line that names the nearest known name and where to find the others."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"unknown {kind} {name!r}; {hint}{see}"
