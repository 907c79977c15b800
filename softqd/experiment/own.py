"""A user's own problem or algorithm by name: ``module:factory``."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable

from softqd.ops.names import unknown_message
from softqd.types import Problem


def is_own(name: str) -> bool:
    """Whether a name is spelled ``module:factory``."""
    return ":" in name


def own_factory(kind: str, name: str) -> Callable:
    """Import ``module:factory``; modules in the current folder are found too.

    A module may also hold a ready `Problem` instead of a factory.

    Args:
        kind: 'problem' or 'algorithm', for messages.
        name: As in ``my_module:my_problem``.

    Raises:
        ValueError: If there is no such module, or nothing to call in it.

    Examples:
        >>> own_factory("problem", "softqd.problems:arm").__name__
        'arm'
    """
    module_name, _, attribute = name.partition(":")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        if not all(map(str.isidentifier, module_name.split("."))):
            raise ImportError("it is not the name of a module")
        module = importlib.import_module(module_name)
    except (ImportError, ValueError) as error:
        raise ValueError(
            f"{kind} {name!r}: cannot import {module_name!r} ({error}); write "
            "module:factory and start from the folder that holds the module"
        ) from None
    found = getattr(module, attribute, None)
    if isinstance(found, Problem):
        return lambda: found
    if not callable(found):
        names = [n for n, v in vars(module).items() if callable(v) and n[0] != "_"]
        known = [f"{module_name}:{n}" for n in names]
        see = f"write module:factory with a function of {module_name}"
        raise ValueError(unknown_message(kind, name, known, see))
    return found
