"""What can be set of a problem or an algorithm: the arguments of its factory.

A configuration holds truth values, numbers, texts and lists. The type of an argument
says which of these it takes, and what a type cannot say stands beside it:

    def portraits(
        prompt: Annotated[str, Example("a photo of a pirate")],
        weights: FilePath | None = None,
        optimizer: optax.GradientTransformation = spelled(optax.adam, 0.05),
    ) -> Problem: ...

Nothing else describes it: ``softqd list``, ``--set`` and configurations read this.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np
import optax

# How a configuration spells None, which TOML lacks, where an argument may be None.
NONE = "none"


class Kind(Enum):
    """What an argument may be; the value is what to say where it is something else."""

    COUNT = "a whole number"
    NUMBER = "a number"
    FLAG = "true or false"
    TEXT = "a text"
    NUMBERS = "a list of numbers"
    OPTIMIZER = "an optax optimizer such as adam(0.05)"
    SCHEDULE = "an optax schedule such as linear_schedule(1.0, 0.1, 1000)"
    NONE = "none"


PLAIN = {bool: Kind.FLAG, int: Kind.COUNT, float: Kind.NUMBER, str: Kind.TEXT}
_KINDS = {
    **PLAIN,
    type(None): Kind.NONE,
    jax.Array: Kind.NUMBERS,
    np.ndarray: Kind.NUMBERS,
    optax.GradientTransformation: Kind.OPTIMIZER,
    optax.GradientTransformationExtraArgs: Kind.OPTIMIZER,
    optax.Schedule: Kind.SCHEDULE,
}


class File(NamedTuple):
    """Marks a text that is the path of a file or folder, or one of some names."""

    names: tuple[str, ...] = ()


class Example(NamedTuple):
    """Marks an argument without default: what could be typed for it."""

    text: str


FilePath = Annotated[str, File()]


class Spelled(optax.GradientTransformationExtraArgs):
    """An optimizer that knows how a configuration spells it."""

    text = "an optimizer"

    def __repr__(self) -> str:
        return self.text


def spelled(function: Callable[..., Any], *numbers: float) -> Spelled:
    """The optimizer ``function(*numbers)``, as a default that can be written down.

    Examples:
        >>> spelled(optax.adam, 0.05)
        adam(0.05)
    """
    optimizer = Spelled(*optax.with_extra_args_support(function(*numbers)))
    optimizer.text = f"{function.__name__}({', '.join(map(str, numbers))})"
    return optimizer


class Setting(NamedTuple):
    """An argument of a factory, in the words of a configuration.

    Attributes:
        kinds: What it may be.
        is_required: Whether it has no default.
        default: As a configuration spells it; None if there is none, or none that can
            be spelled.
        example: What could be typed for it.
        file: Given if a text is the path of a file.
    """

    kinds: frozenset[Kind]
    is_required: bool = False
    default: Any = None
    example: str = "VALUE"
    file: File | None = None

    @property
    def call(self) -> Kind | None:
        """What it may be that is spelled as a call of an optax function."""
        calls = (Kind.OPTIMIZER, Kind.SCHEDULE)
        return next((kind for kind in calls if kind in self.kinds), None)

    @property
    def wanted(self) -> str:
        """What to say where it is something else."""
        return ", or ".join(kind.value for kind in Kind if kind in self.kinds)


def describe(factory: Callable[..., Any]) -> dict[str, Setting]:
    """The arguments of a factory.

    Arguments without a type may be any plain value.

    Examples:
        >>> def dots(num_dots: int = 3, picture: FilePath | None = None): ...
        >>> found = describe(dots)
        >>> found["num_dots"].default, found["picture"].default
        (3, 'none')
        >>> found["picture"].wanted
        'a text, or none'
    """
    try:
        parameters = inspect.signature(factory, eval_str=True).parameters
    except Exception:  # a type of a user that is known to type checkers alone
        parameters = inspect.signature(factory).parameters
    return {
        name: _setting(parameter)
        for name, parameter in parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }


def _setting(parameter: inspect.Parameter) -> Setting:
    default, empty = parameter.default, parameter.empty
    parts = list(_parts(parameter.annotation))
    is_any = any(part in (Any, empty) or isinstance(part, str) for part in parts)
    kinds = {_KINDS[part] for part in parts if part in _KINDS}
    if is_any:
        kinds |= {*PLAIN.values(), Kind.NONE}
    if default is None:
        kinds.add(Kind.NONE)
    if Kind.OPTIMIZER in kinds:  # a configuration spells it as a call
        kinds -= {Kind.TEXT, Kind.NUMBER}
    marks = {type(part): part for part in parts}
    return Setting(
        kinds=frozenset(kinds),
        is_required=default is empty,
        default=None if default is empty else _spelling(default),
        example=marks.get(Example, Example("VALUE")).text,
        file=marks.get(File),
    )


def _parts(hint: Any) -> Iterator[Any]:
    """The types of a hint, and what marks them."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        yield from _parts(arguments[0])
        yield from (mark for mark in arguments[1:] if isinstance(mark, (File, Example)))
    elif origin in (typing.Union, types.UnionType):
        for part in arguments:
            yield from _parts(part)
    else:  # jaxtyping's are of the type of the array
        yield getattr(hint, "array_type", hint)


def _spelling(value: Any) -> Any:
    if value is None:
        return NONE
    if isinstance(value, Spelled):
        return value.text
    return value if isinstance(value, tuple(PLAIN)) else None
