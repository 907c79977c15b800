"""Configurations: read, validate, build, write.

A configuration is a plain dictionary of three tables, ``problem``, ``algorithm`` and
``run``, as in ``config.toml``. Settings of problem and algorithm are the arguments of
their factories, as `softqd.settings` describes them.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from softqd import registry
from softqd.experiment.files import schema
from softqd.experiment.files.schema import (
    NAME,
    check,
    file_error,
    one_line,
    read_toml,
    shown,
)
from softqd.experiment.own import is_own, own_factory
from softqd.ops import expressions
from softqd.ops.names import lookup, unknown_message
from softqd.settings import NONE, PLAIN, Kind, Setting, describe
from softqd.types import Algorithm, Problem

Config = dict[str, dict[str, Any]]
RUN_KEYS = {
    "seed": Kind.COUNT,
    "iterations": Kind.COUNT,
    "evaluations": Kind.COUNT,
    "max_seconds": Kind.NUMBER,
    "log_every": Kind.COUNT,
    "cells": Kind.COUNT,
    "preset": Kind.TEXT,
    "init": Kind.TEXT,
}
_LARGEST = sys.float_info.max
# What a factory raises where it cannot use its settings.
_REFUSALS = (ValueError, TypeError, ArithmeticError, MemoryError)
_TOO_LARGE = "there is not enough memory for this; give smaller settings"
_NAMED = {"name": str, "...": schema.PLAIN}
_FILE = {
    "problem": _NAMED,
    "algorithm": _NAMED,
    # The name of the preset is part of that of a folder.
    "run?": {"preset?": NAME, "...": schema.PLAIN},
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
        config = read_toml(path, {"...": schema.PLAIN})
        _check_origin(path, config, trust)
        check(path, config, _FILE)
        run = {"seed": 0, "log_every": 10, "cells": 512, **config.get("run", {})}
        for key, value in run.items():
            if key not in RUN_KEYS:
                see = f"[run] knows {', '.join(RUN_KEYS)}"
                raise ConfigError(unknown_message("setting", key, RUN_KEYS, see))
            run[key] = _checked(key, value, Setting(frozenset([RUN_KEYS[key]])))
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
    known = settings_of(table, name)
    values = {k: s.default for k, s in known.items() if s.default is not None}
    for key, value in given.items():
        if key == "name":
            continue
        if key not in known:
            raise ConfigError(_unknown_setting(name, key, known))
        values[key] = _checked(key, value, known[key])
    return {"name": name, **values}


def _unknown_setting(name: str, key: str, known: Mapping[str, Setting]) -> str:
    if name == "squad" and key in settings_of("algorithm", "squad_published"):
        return (
            f"squad has no setting {key!r}; the method of the published runs has: "
            '--algorithm squad_published, or name = "squad_published" under '
            "[algorithm]. A configuration of an earlier version with a gamma_sq is one "
            "of squad_published, without its line 'overlap'"
        )
    return unknown_message("setting", key, known, f"{name} takes {', '.join(known)}")


def with_settings(config: Config, assignments: list[str]) -> Config:
    """Apply ``name=value`` texts to whichever of problem and algorithm has the name.

    A name that both have is written ``problem.name`` or ``algorithm.name``.

    Raises:
        ConfigError: If a name is unknown or ambiguous, or a value has the wrong type.
    """
    known = {t: settings_of(t, config[t]["name"]) for t in ("problem", "algorithm")}
    changed = {table: dict(values) for table, values in config.items()}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name:
            raise ConfigError(f"--set wants name=value; got {assignment!r}")
        table, _, key = name.rpartition(".")
        tables = [t for t in known if key in known[t] and table in ("", t)]
        if not tables:
            method = config["algorithm"]["name"]
            both = {**known["problem"], **known["algorithm"]}
            raise ConfigError(_unknown_setting(method, name, both))
        if len(tables) > 1:
            raise ConfigError(
                f"both problem and algorithm have {key!r}; write problem.{key}=... or "
                f"algorithm.{key}=..."
            )
        (table,) = tables
        changed[table][key] = _typed(text, known[table][key])
    return complete(changed)


def _typed(text: str, setting: Setting) -> Any:
    """What was typed for a setting, in the words of a configuration."""
    value = parse_value(text)
    if value is None and Kind.NONE in setting.kinds:
        return NONE
    if setting.kinds <= {Kind.TEXT, Kind.NONE} and not isinstance(value, str):
        value = text  # a prompt may be a number
    if setting.file is None or not isinstance(value, str):
        return value
    return value if value in ("", *setting.file.names) else _absolute(value)


def parse_value(text: str) -> Any:
    """A value typed on the command line: a literal, or text as it is."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


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
    name, arguments = _arguments("problem", config["problem"])
    try:
        problem = _factory("problem", name)(**arguments)
    except _REFUSALS as error:
        raise ConfigError(str(error) or _TOO_LARGE) from error
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
    name, arguments = _arguments("algorithm", config["algorithm"], number)
    try:
        return _factory("algorithm", name)(problem, **arguments)
    except _REFUSALS as error:
        raise ConfigError(str(error) or _TOO_LARGE) from error


def _arguments(
    table: str, given: Mapping[str, Any], number: Callable[[float], Any] = float
) -> tuple[str, dict[str, Any]]:
    """The name of a factory, and what it is called with."""
    name = given["name"]
    known = settings_of(table, name)
    missing = [k for k, s in known.items() if s.is_required and k not in given]
    if missing:
        typed = (f'--set "{key}={known[key].example}"' for key in missing)
        raise ConfigError(
            f"{name} has no default for {' and '.join(missing)}; give {' '.join(typed)}"
        )
    values = _complete_table(table, given)
    del values["name"]
    return name, {k: _realized(v, known[k], number) for k, v in values.items()}


def _factory(table: str, name: str) -> Callable:
    if is_own(name):
        return own_factory(table, name)
    known = registry.PROBLEMS if table == "problem" else registry.ALGORITHMS
    return lookup(table, name, known, "run 'softqd list' for all names")


def settings_of(table: str, name: str) -> dict[str, Setting]:
    """What can be set of a problem or an algorithm.

    Args:
        table: 'problem' or 'algorithm'.
        name: A registered name, or ``module:factory``.

    Raises:
        ValueError: If there is no such name.
    """
    found = describe(_factory(table, name))
    # What an algorithm takes first is the problem.
    return dict(list(found.items())[table == "algorithm" :])


def _checked(name: str, value: Any, setting: Setting) -> Any:
    """The value in the type its argument wants.

    Raises:
        ConfigError: If it has another type.
    """
    kinds, kind = setting.kinds, PLAIN.get(type(value))
    if Kind.NONE in kinds and (value is None or value == NONE):
        return NONE
    if kind is Kind.TEXT and setting.call and (kind not in kinds or "(" in value):
        try:
            expressions.check(value, name, setting.call)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        return value
    if kind in kinds:
        return value
    if kind is Kind.COUNT and Kind.NUMBER in kinds and abs(value) <= _LARGEST:
        return float(value)
    if isinstance(value, list) and Kind.NUMBERS in kinds:
        numbers = _numbers(value)
        if numbers is not None:
            return numbers
    wanted = setting.wanted or "left out: a configuration cannot hold it"
    raise ConfigError(f"{name} must be {wanted}; got {value!r:.80}")


def _numbers(values: list[Any]) -> list[Any] | None:
    """A list of numbers, or of lists of them; None if it is something else."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        return None
    return array.astype(float).tolist() if array.dtype.kind in "iuf" else None


def _realized(value: Any, setting: Setting, number: Callable[[float], Any]) -> Any:
    """What a factory is given: None, optimizers and schedules, arrays."""
    if value == NONE and Kind.NONE in setting.kinds:
        return None
    if isinstance(value, list):
        return np.asarray(value, dtype=np.float32)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, str) and setting.call and "(" in value:
        return expressions.evaluate(value, number=number)
    return value


def expressions_of(config: Config) -> set[str]:
    """Settings of the algorithm that are spelled as calls of optax functions."""
    values = config["algorithm"]
    known = settings_of("algorithm", values["name"])
    return {k for k, s in known.items() if s.call and "(" in str(values.get(k))}
