"""Configurations: read, validate, build, write.

A configuration is a plain dictionary of three tables, ``problem``, ``algorithm`` and
``run``, as in ``config.toml``. Settings of problem and algorithm are the arguments of
their factories, with types checked against the signature. Optimizers and schedules are
spelled as calls of optax functions, ``adam(0.05)``, with nothing else allowed.
"""

from __future__ import annotations

import ast
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import optax

from softqd import registry
from softqd.experiment.files.schema import (
    NAME,
    PLAIN,
    check,
    file_error,
    one_line,
    read_toml,
    shown,
)
from softqd.experiment.own import is_own, own_factory
from softqd.registry import lookup, unknown_message
from softqd.types import Algorithm, Problem

Config = dict[str, dict[str, Any]]
RUN_KEYS = {
    "seed": int,
    "iterations": int,
    "evaluations": int,
    "max_seconds": float,
    "log_every": int,
    "cells": int,
    "preset": str,
    "init": str,
}
_NAMED = {"name": str, "...": PLAIN}
_FILE = {
    "problem": _NAMED,
    "algorithm": _NAMED,
    # The name of the preset is part of that of a folder.
    "run?": {"preset?": NAME, "...": PLAIN},
    "versions?": {"...": str},
}


class ConfigError(ValueError):
    """A configuration that cannot be used."""


def from_name(name: str, algorithm: str = "squad") -> Config:
    """The configuration of a preset, or of a problem with its defaults.

    Args:
        name: A preset, a problem, or ``module:factory`` for a problem of your own.
        algorithm: An algorithm's name, or ``module:factory``.

    Raises:
        UnknownNameError: If the problem or algorithm is unknown.

    Examples:
        >>> from_name("lp-hard", "squad_published")["algorithm"]["gamma_sq"]
        1.0
    """
    _factory("algorithm", algorithm)
    is_plain = is_own(name) or name in registry.PROBLEMS
    if is_plain and name not in registry.PRESETS:
        preset = registry.Preset("", name, {}, {})
    else:
        names = {**registry.PROBLEMS, **registry.PRESETS}
        preset = lookup("problem", name, names, "run 'softqd list' for all names")
    config: Config = {
        "problem": {"name": preset.problem, **preset.problem_settings},
        "algorithm": {
            "name": algorithm,
            **preset.algorithm_settings.get(algorithm, {}),
        },
        "run": {
            "preset": name,
            "seed": 0,
            "iterations": preset.budgets.get(algorithm, preset.iterations),
            "log_every": 10,
            "cells": preset.cells,
        },
    }
    return complete(config)


def from_file(path: str | Path, *, trust: bool = False) -> Config:
    """Read and check a ``config.toml``, to run what it says.

    Args:
        path: The file.
        trust: Whether modules that it names may be imported.

    Raises:
        ConfigError: If the file is missing, is not TOML, holds unknown keys, or names a
            module without ``trust``.
    """
    path = Path(path)
    if not path.exists():
        raise ConfigError(f"there is no configuration {path}")
    try:
        config = read_toml(path, {"...": PLAIN})
        _check_origin(path, config, trust)
        check(path, config, _FILE)
        run = {"seed": 0, "log_every": 10, "cells": 512, **config.get("run", {})}
        for key, value in run.items():
            if key not in RUN_KEYS:
                see = f"[run] knows {', '.join(RUN_KEYS)}"
                raise ConfigError(unknown_message("setting", key, RUN_KEYS, see))
            run[key] = _check_type(key, value, RUN_KEYS[key])
        tables = {"problem": config["problem"], "algorithm": config["algorithm"]}
        return complete({**tables, "run": run})
    except ValueError as error:
        text = str(error)
        line = text if text.startswith(str(path)) else f"{path}: {text}"
        raise ConfigError(one_line(line)) from None


def _check_origin(path: Path, config: Config, trust: bool) -> None:
    """Refuse what cannot be run again, or only with trust."""
    if config.get("origin") is not None:
        raise file_error(
            path,
            "tells of a run that was started from Python, which cannot be repeated "
            "from a file; call softqd.run again",
        )
    for table in ("problem", "algorithm"):
        found = config.get(table)
        name = found.get("name") if isinstance(found, dict) else None
        if isinstance(name, str) and is_own(name) and not trust:
            raise file_error(
                path,
                f"names {shown(name)}, a module whose code would run; add --trust if "
                "you know where the file is from",
            )


def complete(config: Config) -> Config:
    """Check every setting and fill in the defaults, so that nothing is left implicit.

    Raises:
        ConfigError: If a setting is unknown or of the wrong type.
    """
    tables = {t: _complete_table(t, config[t]) for t in ("problem", "algorithm")}
    return {**config, **tables}


def complete_algorithm(
    settings: Mapping[str, Any], changes: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """`complete` the table of an algorithm alone, after changes to it.

    Raises:
        ConfigError: If a setting is unknown or of the wrong type.
    """
    return _complete_table("algorithm", {**settings, **(changes or {})})


def _complete_table(table: str, given: Mapping[str, Any]) -> dict[str, Any]:
    name = given["name"]
    hints = _settings_of(table, name)
    settings = defaults_of(table, name)
    for key, value in given.items():
        if key == "name":
            continue
        if key not in hints:
            raise ConfigError(_unknown_setting(name, key, hints))
        settings[key] = _check_type(key, value, hints[key])
    return {"name": name, **settings}


def _unknown_setting(name: str, key: str, hints: Mapping[str, Any]) -> str:
    published = inspect.signature(registry.ALGORITHMS["squad_published"]).parameters
    if name == "squad" and key in published:
        return (
            f"squad has no setting {key!r}; the method of the published runs has: "
            '--algorithm squad_published, or name = "squad_published" under '
            "[algorithm]. A configuration of an earlier version with a gamma_sq is one "
            "of squad_published, without its line 'overlap'"
        )
    return unknown_message("setting", key, hints, f"{name} takes {', '.join(hints)}")


def with_settings(config: Config, assignments: list[str]) -> Config:
    """Apply ``name=value`` texts to whichever of problem and algorithm has the name.

    A name that both have is written ``problem.name`` or ``algorithm.name``.

    Raises:
        ConfigError: If a name is unknown or ambiguous, or a value has the wrong type.
    """
    hints = {t: _settings_of(t, config[t]["name"]) for t in ("problem", "algorithm")}
    changed = {table: dict(values) for table, values in config.items()}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name:
            raise ConfigError(f"--set wants name=value; got {assignment!r}")
        table, _, key = name.rpartition(".")
        tables = [t for t in hints if key in hints[t] and table in ("", t)]
        if not tables:
            known = {**hints["problem"], **hints["algorithm"]}
            method = config["algorithm"]["name"]
            raise ConfigError(_unknown_setting(method, name, known))
        if len(tables) > 1:
            raise ConfigError(
                f"both problem and algorithm have {key!r}; write problem.{key}=... or "
                f"algorithm.{key}=..."
            )
        (table,) = tables
        value = parse_value(text)
        if not isinstance(value, str) and _kinds(hints[table][key]) <= {str, "none"}:
            value = text  # a prompt may be a number
        files = registry.FILE_SETTINGS.get(config[table]["name"], {})
        if key in files and value not in ("", "none", *files[key]):
            value = _absolute(value)
        changed[table][key] = value
    return complete(changed)


def _absolute(text: str) -> str:
    """A path that means the same from everywhere, as a run folder is read."""
    try:
        # Links are kept: what they point at may be called otherwise.
        return str(Path(text).expanduser().absolute())
    except RuntimeError:  # a home directory that cannot be found, as in ~nobody
        return text


def build(config: Config) -> tuple[Problem, Algorithm]:
    """Build the problem and the algorithm of a configuration.

    Raises:
        ConfigError: If a factory refuses its settings.
    """
    problem = build_problem(config)
    return problem, build_algorithm(config, problem)


def build_problem(config: Config) -> Problem:
    """Build the problem alone.

    Raises:
        ConfigError: If its factory refuses its settings, or gives something else.
    """
    name, settings = _split(config["problem"])
    _check_given("problem", name, settings)
    try:
        problem = _factory("problem", name)(**settings)
    except (ValueError, TypeError) as error:
        raise ConfigError(str(error)) from error
    if not isinstance(problem, Problem):
        raise ConfigError(f"{name} must return a softqd.Problem; got {problem!r:.80}")
    return problem


def build_algorithm(
    config: Config, problem: Problem, number: Callable[[float], Any] = float
) -> Algorithm:
    """Build the algorithm of a configuration for a problem.

    Args:
        config: The configuration.
        problem: The problem.
        number: Called with every number among the settings, those in optimizers and
            schedules too, in a fixed order; the factory is given what it returns.

    Raises:
        ConfigError: If its factory refuses its settings or the problem.
    """
    name, settings = _split(config["algorithm"])
    _check_given("algorithm", name, settings)
    try:
        hints = _settings_of("algorithm", name)
        arguments = {k: _realize(v, hints[k], number) for k, v in settings.items()}
        return _factory("algorithm", name)(problem, **arguments)
    except (ValueError, TypeError) as error:
        raise ConfigError(str(error)) from error


def _split(table: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    settings = {k: _from_text(v) for k, v in table.items() if k != "name"}
    return table["name"], settings


def _check_given(table: str, name: str, settings: Mapping[str, Any]) -> None:
    """Refuse a configuration without a setting that has no default."""
    missing = [key for key in required_of(table, name) if key not in settings]
    if missing:
        examples = registry.EXAMPLE_TEXTS.get(name, {})
        typed = (f'--set "{key}={examples.get(key, "VALUE")}"' for key in missing)
        raise ConfigError(
            f"{name} has no default for {' and '.join(missing)}; give {' '.join(typed)}"
        )


def _factory(table: str, name: str) -> Callable:
    if is_own(name):
        return own_factory(table, name)
    known = registry.PROBLEMS if table == "problem" else registry.ALGORITHMS
    return lookup(table, name, known, "run 'softqd list' for all names")


def _settings_of(table: str, name: str) -> dict[str, Any]:
    factory = _factory(table, name)
    parameters = inspect.signature(factory).parameters.items()
    names = [
        k for k, p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    hints = typing.get_type_hints(factory)
    # A user's own factory need not have hints: then any plain value will do. What an
    # algorithm takes first is the problem.
    return {k: hints.get(k, Any) for k in names[table == "algorithm" :]}


def required_of(table: str, name: str) -> list[str]:
    """Settings that have no default."""
    parameters = inspect.signature(_factory(table, name)).parameters
    return [
        key
        for key in _settings_of(table, name)
        if parameters[key].default is inspect.Parameter.empty
    ]


def defaults_of(table: str, name: str) -> dict[str, Any]:
    """Defaults in the words of a configuration; None is spelled 'none'."""
    texts = registry.DEFAULT_TEXTS.get(name, {}) if table == "algorithm" else {}
    parameters = inspect.signature(_factory(table, name)).parameters
    defaults = {
        key: texts.get(key, _to_text(parameter.default))
        for key, parameter in parameters.items()
        if parameter.default is not parameter.empty
    }
    if is_own(name):  # defaults that a file cannot hold stay the factory's
        plain = (bool, int, float, str)
        defaults = {k: v for k, v in defaults.items() if isinstance(v, plain)}
    return defaults


def _to_text(value: Any) -> Any:
    return "none" if value is None else value


def _from_text(value: Any) -> Any:
    return None if value == "none" else value


def parse_value(text: str) -> Any:
    """A value typed on the command line: a literal, or text as it is."""
    words = {"true": True, "false": False, "none": "none"}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return _to_text(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return text


def _kinds(hint: Any) -> set[Any]:
    """What a type hint admits, in the words of a configuration."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return set().union(*map(_kinds, typing.get_args(hint)))
    if hint is type(None):
        return {"none"}
    if hint in (int, float, bool, str):
        return {hint}
    if hint is Any:
        return {bool, int, float, str, "none"}
    is_transformation = isinstance(hint, type) and issubclass(
        hint, optax.GradientTransformation
    )
    if is_transformation:
        return {"optimizer"}
    if typing.get_origin(hint) is Callable:
        return {"schedule"}
    return {"array"} if "Array" in str(hint) else set()


def _check_type(name: str, value: Any, hint: Any) -> Any:
    """Return the value in the type its argument wants.

    Raises:
        ConfigError: If it has another type.
    """
    kinds = _kinds(hint)
    kind = type(value)
    if value == "none" and "none" in kinds:
        return value
    if kind is int and float in kinds and int not in kinds:
        return float(value)
    if kind in kinds:
        return value
    if kind is str and kinds & {"optimizer", "schedule"}:
        return _check_expression(name, value)
    if kind is list and "array" in kinds and np.asarray(value).dtype.kind in "fi":
        return [float(v) for v in value]
    wanted = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "a text",
        "none": "none",
        "array": "a list of numbers",
        "optimizer": "an optax optimizer such as adam(0.05)",
        "schedule": "an optax schedule such as linear_schedule(1.0, 0.1, 1000)",
    }
    expected = ", or ".join(text for key, text in wanted.items() if key in kinds)
    raise ConfigError(f"{name} must be {expected}; got {value!r}")


def _check_expression(name: str, text: str) -> str:
    evaluate_expression(text, name)
    return text


def _realize(value: Any, hint: Any, number: Callable[[float], Any]) -> Any:
    """Turn texts into optimizers and schedules, lists into arrays."""
    if isinstance(value, list):
        return np.asarray(value, dtype=np.float32)
    if isinstance(value, float):
        return number(value)
    kinds = _kinds(hint)
    if isinstance(value, str) and "(" in value and kinds & {"optimizer", "schedule"}:
        return evaluate_expression(value, number=number)
    return value


def expressions_of(config: Config) -> set[str]:
    """Settings of the algorithm that are spelled as calls of optax functions."""
    settings = config["algorithm"]
    hints = _settings_of("algorithm", settings["name"])
    return {
        key
        for key, hint in hints.items()
        if "(" in str(settings.get(key)) and _kinds(hint) & {"optimizer", "schedule"}
    }


def evaluate_expression(
    text: str, name: str = "expression", number: Callable[[float], Any] = float
) -> Any:
    """Evaluate nested calls of optax functions with literal arguments.

    Args:
        text: As in ``adam(0.05)``.
        name: For messages.
        number: Called with every argument with a decimal point; its answer is used.

    Raises:
        ConfigError: If the text is anything else.

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
            raise ConfigError(unknown_message("optax function", wrong, known, example))
        keywords = {k.arg: convert(k.value) for k in node.keywords if k.arg}
        return getattr(optax, function)(*map(convert, node.args), **keywords)

    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if not isinstance(tree, ast.Call):
            raise ValueError("it is not a call")
        return convert(tree)
    except ConfigError:
        raise
    except (ValueError, SyntaxError, TypeError) as error:
        raise ConfigError(
            f"{name} {text!r} cannot be read ({error}); {example}"
        ) from None
