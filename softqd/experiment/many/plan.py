"""What a comparison will run: seeds, and methods with their settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from softqd.experiment import config as configs
from softqd.experiment.config import Config, ConfigError
from softqd.experiment.files.schema import printable
from softqd.experiment.result import plain_settings
from softqd.experiment.same import first_difference
from softqd.ops import seeds as ops_seeds
from softqd.ops.checks import check_count
from softqd.ops.names import unknown_message
from softqd.types import Algorithm, Problem

Factory = Callable[..., Algorithm]
STAND_IN = "squad"
# What a comparison is given: names, or labels to names and factories.
Algorithms = Sequence[str] | Mapping[str, str | Callable[[Problem], Algorithm]]


class Method(NamedTuple):
    """One algorithm of a comparison, set for the problem."""

    name: str
    config: Config  # without seed
    algorithm: Algorithm | None  # None where it cannot run
    error: str = ""  # why it cannot
    curves: bool = False  # follow QD score and QVS over the run
    factory: Factory | None = None  # what built it, if no configuration did

    @property
    def folder_name(self) -> str:
        """Its folder."""
        return folder_name(self.name)


def folder_name(name: str) -> str:
    """The folder of a method; ``module:factory`` would not be a name everywhere."""
    return name.replace(":", ".")


def parse_seeds(text: str) -> list[int]:
    """Read seeds: a number of them, ranges, or a list.

    Raises:
        ValueError: If the text is none of these, or a seed comes twice.

    Examples:
        >>> parse_seeds("3"), parse_seeds("2001-2003"), parse_seeds("1,4-5,9")
        ([0, 1, 2], [2001, 2002, 2003], [1, 4, 5, 9])
    """
    try:
        if text.isdecimal():
            return check_seeds(int(text))
        seeds = []
        for part in text.split(","):
            first, dash, last = part.partition("-")
            some = range(int(first), int(last if dash else first) + 1)
            # More than can be made are refused before they are written down.
            seeds += some[: ops_seeds.MOST_SEEDS + 1]
    except ValueError:
        raise ValueError(
            f"seeds {text!r} cannot be read; write a number of seeds such as 10, a "
            "range such as 2001-2010, or a list such as 1,4,9"
        ) from None
    return check_seeds(seeds)


def check_seeds(seeds: int | Sequence[int]) -> list[int]:
    """Seeds as a list: the first so many, or those given.

    Raises:
        ValueError: If there is none, one is no seed, or one comes twice.
    """
    if not isinstance(seeds, int):
        return ops_seeds.check_seeds(list(seeds))
    check_count("seeds", seeds, 1, ops_seeds.MOST_SEEDS)
    return list(range(seeds))


def methods_of(
    problem: Problem | str, algorithms: Algorithms, settings: Sequence[str]
) -> tuple[Problem, list[Method]]:
    """The problem, and every algorithm set for it.

    An algorithm that cannot run on the problem is kept, with the reason.

    Args:
        problem: As `softqd.compare` takes it.
        algorithms: As `softqd.compare` takes them.
        settings: ``name=value`` of the problem, ``label.name=value`` of an algorithm.

    Raises:
        ValueError: If a name or a setting is unknown, or a label comes twice.
    """
    named = labeled(algorithms)
    shared, own = _split_settings(settings, list(named))
    configs_of = {}
    for label, given in named.items():
        is_named = isinstance(given, str)
        if own[label] and not is_named:
            raise ConfigError(
                f"{own[label][0]!r} is a setting of {label!r}, which is a function: it "
                "has its own; set it there, or give the algorithm's name instead"
            )
        name = given if is_named else STAND_IN
        configs_of[label] = _config_of(problem, name, shared + own[label])
    is_ready = isinstance(problem, Problem)
    first = next(iter(configs_of.values()))
    ready = problem if is_ready else configs.build_problem(first)
    methods = [
        method_of(label, config, ready)
        if isinstance(given := named[label], str)
        else built_method(label, given, config, ready)
        for label, config in configs_of.items()
    ]
    return ready, methods


def labeled(algorithms: Algorithms) -> dict[str, str | Factory]:
    """Labels to names of algorithms, or to functions that build them.

    Raises:
        ValueError: If there is none, or one cannot be read or comes twice.
    """
    if isinstance(algorithms, str) or not algorithms:
        raise ValueError(
            "algorithms must be a list of names, or a dictionary of labels to names "
            f"and functions of a problem; got {algorithms!r}"
        )
    if not isinstance(algorithms, Mapping):
        return _named(algorithms)
    for label, given in algorithms.items():
        if not _is_label(label) or not (isinstance(given, str) or callable(given)):
            raise ValueError(
                f"algorithms: {label!r} must be a label of letters, digits and dashes, "
                f"to a name or a function of a problem; got {given!r}"
            )
    return dict(algorithms)


def _is_label(text: Any) -> bool:
    return isinstance(text, str) and text.replace("-", "_").isidentifier()


def _named(algorithms: Sequence[str]) -> dict[str, str | Factory]:
    """Labels to algorithms: ``label=algorithm``, or the algorithm's own name."""
    named: dict[str, str | Factory] = {}
    for text in algorithms:
        if not isinstance(text, str):
            raise ValueError(
                f"algorithms: {text!r} has no label; give functions as a dictionary, "
                'as in {"mine": function}'
            )
        label, equals, name = text.partition("=")
        if equals and not (name and _is_label(label)):
            raise ValueError(
                f"algorithms: {text!r} cannot be read; write a name of letters, digits "
                "and dashes before the '=', as in wide=squad"
            )
        if label in named:
            raise ValueError(
                f"algorithms holds duplicates: {', '.join(algorithms)}; for several "
                f"settings of one, name them, as in first={name or label}"
            )
        named[label] = name if equals else label
    return named


def built_method(
    label: str, factory: Factory, config: Config, problem: Problem, **settings: Any
) -> Method:
    """The algorithm that a function builds for a problem, or why there is none.

    What is known of its settings takes the place of a configuration's.
    """
    try:
        algorithm = factory(problem, **settings)
        if not isinstance(algorithm, Algorithm):
            raise TypeError(f"it must return a softqd.Algorithm; got {algorithm!r:.80}")
        told = {"name": algorithm.name, **plain_settings(algorithm), **settings}
    except Exception as error:
        table = {"name": label, **settings}
        return Method(
            label, {**config, "algorithm": table}, None, str(error), factory=factory
        )
    return Method(label, {**config, "algorithm": told}, algorithm, factory=factory)


def grid_methods(
    problem: Problem | str,
    algorithm: str | Factory,
    points: Mapping[str, Mapping[str, Any]],
    settings: Sequence[str] = (),
    iterations: int | None = None,
) -> tuple[Problem, list[Method]]:
    """The problem, and one algorithm with several settings.

    Args:
        problem: A name or a `Problem`.
        algorithm: A name, or a function of a problem and settings.
        points: What to call a method, to the settings it has of its own.
        settings: ``name=value`` for all, of the problem or the algorithm.
        iterations: Of every method; by default the preset's.

    Raises:
        ValueError: If a name or a setting is unknown.
    """
    is_named = isinstance(algorithm, str)
    if isinstance(problem, Problem):  # it has its own settings
        settings = [s if "." in s.split("=")[0] else f"algorithm.{s}" for s in settings]
    elif not is_named:  # the algorithm has
        settings = [s if "." in s.split("=")[0] else f"problem.{s}" for s in settings]
    if not is_named and any(s.startswith("algorithm.") for s in settings):
        raise ConfigError("settings of a function are in its grid; got settings=")
    base = _config_of(problem, algorithm if is_named else STAND_IN, list(settings))
    if iterations is not None:
        base["run"]["iterations"] = iterations
    ready = problem if isinstance(problem, Problem) else configs.build_problem(base)
    methods = []
    for name, own in points.items():
        if is_named:
            table = configs.complete_algorithm(base["algorithm"], own)
            methods.append(method_of(name, {**base, "algorithm": table}, ready))
        else:
            methods.append(built_method(name, algorithm, base, ready, **own))
    return ready, methods


def _split_settings(
    settings: Sequence[str], algorithms: Sequence[str]
) -> tuple[list[str], dict[str, list[str]]]:
    """Settings of the problem, ``name=value``, and ``algorithm.name=value``."""
    shared: list[str] = []
    own: dict[str, list[str]] = {name: [] for name in algorithms}
    for text in settings:
        name, equals, value = text.partition("=")
        owner, dot, key = name.rpartition(".")
        if not dot or owner == "problem":
            shared.append(f"problem.{key}{equals}{value}")
        elif owner in own:
            own[owner].append(f"algorithm.{key}{equals}{value}")
        else:
            see = "write NAME=VALUE for the problem, ALGORITHM.NAME=VALUE for one of "
            raise ConfigError(
                unknown_message("algorithm", owner, own, see + ", ".join(own))
            )
    return shared, own


def _config_of(problem: Problem | str, algorithm: str, settings: list[str]) -> Config:
    if isinstance(problem, str):
        config = configs.from_name(problem, algorithm)
        return configs.with_settings(config, settings)
    if any(text.startswith("problem.") for text in settings):
        raise ConfigError(
            "settings of the problem need a problem given by name; a softqd.Problem "
            "has its own"
        )
    # A problem from Python has no factory to set; a registered one stands in, as an
    # algorithm does for a function.
    config = configs.with_settings(
        configs.from_name("linear_projection", algorithm), settings
    )
    config["run"] |= {"preset": problem.name}
    return {**config, "problem": {"name": problem.name}}


def method_of(name: str, config: Config, problem: Problem) -> Method:
    """A configuration's algorithm for a problem, or why there is none."""
    try:
        return Method(name, config, configs.build_algorithm(config, problem))
    except Exception as error:
        return Method(name, config, None, str(error))


def refuse_other(
    folder: Path, saved: Config, config: Config, tables: dict[str, list[str] | None]
) -> None:
    """Refuse a run whose settings in some tables, or keys of them, are others.

    Raises:
        ConfigError: Naming the folder, the setting and both values.
    """
    for table, keys in tables.items():
        before, now = saved.get(table, {}), config[table]
        sides = ({k: side.get(k) for k in keys or side} for side in (before, now))
        if found := first_difference(*sides):
            version = printable(saved.get("versions", {}).get("softqd", "unknown"))
            raise ConfigError(
                f"{folder} holds a run of softqd {version:.20} with {table} "
                f"{found.place}={found.before}, this comparison has {found.now}; "
                "use the same, or another folder"
            )


def folder_of(out: Path, method: Method, seed: int) -> Path:
    """The run folder of one seed."""
    return out / method.folder_name / f"seed_{seed}"
