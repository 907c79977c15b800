"""What a run leaves behind: population, history, configuration, versions, timings."""

from __future__ import annotations

import csv
import importlib.metadata
import json
import platform
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tomli_w

from softqd import html
from softqd.experiment.files.readers import load_population
from softqd.ops.units import Units
from softqd.types import Algorithm, Population, named_leaves

# What every iteration reports, in the order in which it is tallied.
COUNTS = ("evaluations", "gradient_evaluations", "vector_jacobian_products")


@dataclass(frozen=True)
class Result:
    """The outcome of one run.

    Attributes:
        population: The final population, as NumPy arrays.
        history: Equal-length arrays, one entry per log point, among them 'iteration',
            'evaluations', 'gradient_evaluations', 'seconds', 'mean_quality',
            'max_quality' and 'clipped_behaviors', solutions outside their bounds.
        config: Enough to repeat the run, where it was started from a configuration;
            else what is known of it.
        seed: The seed.
        versions: Versions of Python, JAX and the other libraries that matter.
        timings: Seconds spent, 'compile' and 'run'.
        quality_level: From where quality is measured: declared by the problem, or found
            in the first population.
        behavior_units: Low and high end of every behavior, which metrics map to 0 and
            1: declared by the problem, or else the mean of the first population, less
            and plus sqrt(3) standard deviations. None if it had no solution.
        interrupted: Whether Ctrl-C ended the run.
    """

    population: Population
    history: dict[str, np.ndarray]
    config: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    quality_level: float = 0.0
    behavior_units: Units | None = None
    interrupted: bool = False

    def __repr__(self) -> str:
        words = ", ".join(f"{k} {v}" for k, v in self._numbers().items())
        return f"Result({self._title()}: {words})"

    def _repr_html_(self) -> str:
        then = [
            "softqd.plot.value_map(result, problem)",
            "few = softqd.select(result, 20)",
            'result.save("runs/mine")',
        ]
        return html.card(
            self._title(), self._numbers(), html.picture_of(self.population), then
        )

    def _title(self) -> str:
        tables = [self.config.get(name, "?") for name in ("algorithm", "problem")]
        names = [t.get("name", "?") if isinstance(t, dict) else t for t in tables]
        interrupted = " (interrupted)" if self.interrupted else ""
        return f"{' on '.join(names)}, seed {self.seed}{interrupted}"

    def _numbers(self) -> dict[str, str]:
        counts = {
            name: html.number(self.history[name][-1])
            for name in ("iteration", "evaluations")
            if len(self.history.get(name, ()))
        }
        seconds = {"seconds": html.number(self.timings["run"])} if self.timings else {}
        return {**html.rows_of(self.population), **counts, **seconds}

    def save(self, directory: str | Path) -> Path:
        """Write population.npz, history.csv, config.toml and result.json.

        Args:
            directory: Created if need be; files of these names are replaced.
        """
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        save_population(directory / "population.npz", self.population)
        with open(directory / "history.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(self.history)
            writer.writerows(
                [repr(value) for value in row]
                for row in zip(
                    *(column.tolist() for column in self.history.values()), strict=True
                )
            )
        (directory / "config.toml").write_text(tomli_w.dumps(_plain(self.config)))
        summary = {
            "seed": self.seed,
            "versions": self.versions,
            "timings": self.timings,
            "quality_level": self.quality_level,
            "behavior_units": self.behavior_units,
            "interrupted": self.interrupted,
        }
        (directory / "result.json").write_text(json.dumps(summary, indent=1) + "\n")
        return directory


def load(directory: str | Path) -> Result:
    """Read a result that `Result.save` wrote.

    Raises:
        FileNotFoundError: If ``directory`` is not a run folder.
    """
    directory = Path(directory)
    if not (directory / "population.npz").exists():
        raise FileNotFoundError(
            f"{directory} is not a run folder: it has no population.npz"
        )
    summary = json.loads((directory / "result.json").read_text())
    return Result(
        population=load_population(directory / "population.npz"),
        history=load_history(directory),
        config=tomllib.loads((directory / "config.toml").read_text()),
        **summary,
    )


def level_in(directory: str | Path) -> float:
    """The quality level of a run folder; 0 where none is written."""
    path = Path(directory) / "result.json"
    if not path.exists():
        return 0.0
    return float(json.loads(path.read_text()).get("quality_level", 0.0))


def units_in(directory: str | Path) -> Units | None:
    """The behavior units of a run folder; None where none are written."""
    path = Path(directory) / "result.json"
    if not path.exists():
        return None
    return json.loads(path.read_text()).get("behavior_units")


def load_history(directory: str | Path) -> dict[str, np.ndarray]:
    """Read the history of a run folder alone."""
    with open(Path(directory) / "history.csv", newline="") as file:
        names, *rows = csv.reader(file)
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return {
        name: np.array(
            [float(x) for x in column],
            dtype=np.int64 if name in ("iteration", *COUNTS) else np.float64,
        )
        for name, column in zip(names, columns, strict=True)
    }


def save_population(path: Path, population: Population) -> None:
    """Write the occupied rows: ``quality``, ``behavior`` and the solutions.

    In an ``.npz`` solutions are one array ``solutions``, or ``solutions/<name>`` for
    each leaf of a pytree; no pickled objects. A ``.csv`` has the columns of
    `Population.to_columns`.
    """
    if path.suffix.lower() == ".csv":
        columns = population.to_columns()
        with open(path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*(x.tolist() for x in columns.values()), strict=True))
        return
    kept = population.compact()
    arrays = {"quality": kept.quality, "behavior": kept.behavior}
    arrays |= dict(named_leaves(kept.solutions, "solutions"))
    np.savez(path, **arrays)  # pyright: ignore[reportArgumentType] (arrays only)


def versions() -> dict[str, str]:
    """Versions and device that a result depends on."""
    names = ("jax", "jaxlib", "optax", "numpy")
    found = {"softqd": sys.modules["softqd"].__version__}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "unknown"
    device = jax.devices()[0]
    return {
        "python": platform.python_version(),
        **found,
        "device": f"{device.platform}: {device.device_kind}",
    }


def plain_settings(algorithm: Algorithm) -> dict[str, Any]:
    """Settings of an algorithm that a configuration can hold."""
    plain = (bool, int, float, str)
    return {
        name: value if isinstance(value, plain) else repr(value)
        for name, value in algorithm.settings.items()
        if value is None or isinstance(value, (*plain, np.generic))
    }


def _plain(value: Any) -> Any:
    """What TOML can hold: None is left out, arrays become lists, the rest text."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        return np.asarray(value).tolist()
    return value if isinstance(value, (str, int, float, bool)) else repr(value)
