"""Preset files: tuned settings of one algorithm on one problem.

A preset file is a ``config.toml``: ``softqd run tuned.toml`` repeats the tuned run, and
a comparison takes the settings of the algorithm from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from softqd.experiment.config import Config, ConfigError
from softqd.experiment.files.schema import PLAIN, FileError, read_toml
from softqd.experiment.files.whole import write_whole
from softqd.experiment.same import first_difference

_NAMED = {"name": str, "...": PLAIN}


class PresetFile(NamedTuple):
    """What a preset file says."""

    path: Path
    problem: dict[str, Any]
    algorithm: dict[str, Any]

    def settings_for(self, algorithms: Sequence[str]) -> list[str]:
        """Its settings as ``algorithm.name=value``.

        Raises:
            ConfigError: If its algorithm is not among those given.
        """
        name = self.algorithm["name"]
        if name not in algorithms:
            raise ConfigError(
                f"preset {self.path} is for algorithm {name!r}, and the algorithms are "
                f"{', '.join(algorithms)}; add it to them, or leave the preset out"
            )
        settings = {k: v for k, v in self.algorithm.items() if k != "name"}
        return [f"{name}.{key}={value}" for key, value in settings.items()]

    def check_problem(self, problem: dict[str, Any]) -> None:
        """Refuse a problem that the preset was not tuned on.

        Raises:
            ConfigError: Naming the first difference.
        """
        if found := first_difference(self.problem, problem):
            raise ConfigError(
                f"preset {self.path} was tuned with problem {found.place}="
                f"{found.before}, this one has {found.now}; use the same problem, "
                f"or give its settings with --set {self.algorithm['name']}.NAME=VALUE"
            )


def read_presets(paths: Sequence[str | Path]) -> list[PresetFile]:
    """Read preset files of different algorithms.

    Raises:
        ConfigError: If one cannot be used, or two are for the same algorithm.
    """
    found: dict[str, PresetFile] = {}
    for path in paths:
        preset = read_preset(path)
        other = found.setdefault(preset.algorithm["name"], preset)
        if other is not preset:
            raise ConfigError(
                f"presets {other.path} and {path} are both for algorithm "
                f"{preset.algorithm['name']!r}; give one of them"
            )
    return list(found.values())


def read_preset(path: str | Path) -> PresetFile:
    """Read a preset file.

    Raises:
        ConfigError: If there is none, or it is not one.
    """
    path = Path(path)
    try:
        tables = read_toml(path, {"problem": _NAMED, "algorithm": _NAMED, "...": PLAIN})
    except FileError as error:
        reason = str(error).removeprefix(str(path)).strip(": ")
        raise ConfigError(
            f"preset {path} cannot be used ({reason}); give a file that 'softqd sweep' "
            "wrote"
        ) from None
    return PresetFile(path, tables["problem"], tables["algorithm"])


def write_preset(path: Path, config: Config, about: Sequence[str]) -> None:
    """Write a configuration as a preset file, with lines that say where it is from."""
    head = "".join(f"# {line}\n" for line in about)
    write_whole(path, head + tomli_w.dumps(config))
