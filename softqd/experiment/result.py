"""What a run leaves behind: population, history, configuration, versions, timings."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax

from softqd import html
from softqd.experiment.files.lock import locked
from softqd.experiment.files.readers import load_population
from softqd.experiment.files.schema import file_error
from softqd.experiment.pictures import Pictures, draw_pictures
from softqd.experiment.run_folder import POPULATION, SUMMARY, RunFolder, describe
from softqd.metrics import DEFAULT_CELLS, METRICS, evaluate_population
from softqd.ops.units import Units
from softqd.types import Algorithm, Population, Problem

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
        problem: What was solved. Read from a folder it has bounds and names, no code.
        metrics: What ``metrics.json`` holds; empty until they are computed.
        pictures: Of some members, where the problem renders and they were drawn.
        notes: What to know about the result.
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
    problem: Problem | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
    pictures: Pictures | None = None
    notes: tuple[str, ...] = ()

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
        """Write a run folder, as ``softqd run`` does, but for its figures.

        Metrics are computed and pictures drawn where the problem is known.

        Args:
            directory: Created if need be; files of a run in it are replaced.

        Raises:
            InUseError: If a process writes to the folder.
        """
        directory = Path(directory)
        with locked(directory):
            self.completed().write(directory)
        return directory

    def completed(
        self, cells: int = DEFAULT_CELLS, found: dict[str, Any] | None = None
    ) -> Result:
        """The result with metrics, and pictures where the problem renders.

        Args:
            cells: Of the tessellation behind QD score and coverage.
            found: What `evaluate_population` says, where it is known already.
        """
        metrics, problem = self.metrics, self.problem
        if not metrics and problem is not None:
            metrics = metrics_of(self, problem, cells, found)
        if self.pictures is not None or problem is None or problem.render is None:
            return replace(self, metrics=metrics)
        try:
            kept = self.population.compact()
            drawn, why = draw_pictures(problem, kept, self.quality_level), ()
        except Exception as error:  # a user's render may fail in any way
            reason = " ".join(str(error).split()) or type(error).__name__
            drawn, why = None, (f"The solutions could not be drawn ({reason:.200}).",)
        notes = (*self.notes, *why)
        return replace(self, metrics=metrics, pictures=drawn, notes=notes)

    def write(self, directory: Path) -> None:
        """Write what is there into a folder that the caller holds."""
        dim = self.population.behavior.shape[1]
        RunFolder(directory).write(
            config=self.config,
            population=self.population,
            history=self.history,
            pictures=self.pictures,
            summary={
                "seed": self.seed,
                "versions": self.versions,
                "timings": self.timings,
                "quality_level": self.quality_level,
                "behavior_units": self.behavior_units,
                "interrupted": self.interrupted,
                "problem": describe(self.problem, dim),
                "notes": list(self.notes),
            },
            metrics=self.metrics,
        )


def load(directory: str | Path, like: Problem | Any = None) -> Result:
    """Read a run folder. Nothing in it is executed.

    Args:
        directory: As `Result.save`, ``softqd run`` or ``softqd compare`` wrote it.
        like: The problem, or a solution: solutions are put into its structure, by the
            names of their leaves. Without it, those of a pytree are nested
            dictionaries, and ``result.problem`` has bounds and names, but no code.

    Raises:
        FileNotFoundError: If ``directory`` is not a run folder.
        ValueError: If a file cannot be read, naming file and place.
    """
    return result_of(RunFolder(directory), like)


def result_of(folder: RunFolder, like: Problem | Any = None) -> Result:
    """The result that a run folder holds, as `load` gives it."""
    folder.check_there()
    population, summary = folder.population, folder.summary
    if like is not None:
        population = load_population(folder.path / POPULATION, like=like)
    problem = like if isinstance(like, Problem) else folder.problem
    dim, units = population.behavior.shape[1], folder.behavior_units
    found = folder.problem and folder.problem.behavior_dim
    for name, other in (
        ("problem", found),
        ("behavior_units", units and len(units[0])),
    ):
        if other is not None and other != dim:
            what = f"{name} has {other} behaviors, and {POPULATION} has {dim}"
            raise file_error(folder.path / SUMMARY, what)
    return Result(
        population=population,
        history=folder.history,
        config=folder.config,
        seed=folder.seed,
        versions=folder.versions,
        timings=summary.get("timings", {}),
        quality_level=folder.quality_level,
        behavior_units=units,
        interrupted=summary.get("interrupted", False),
        problem=problem,
        metrics=folder.metrics,
        pictures=folder.pictures,
        notes=tuple(summary.get("notes", ())),
    )


def metrics_of(
    result: Result, problem: Problem, cells: int, found: dict[str, Any] | None = None
) -> dict[str, Any]:
    """What ``metrics.json`` holds: metrics, counts, seconds, settings and notes."""
    if found is None:
        found = evaluate_population(
            result.population,
            problem.bounds(result.population.behavior.shape[1]),
            cells=cells,
            level=result.quality_level,
            units=result.behavior_units,
        )
    counts = {k: int(v[-1]) for k, v in result.history.items() if k in COUNTS}
    return {
        **{name: found[name] for name in METRICS},
        **counts,
        "seconds": result.timings.get("run"),
        "settings": found["settings"],
        "seeds_together": 1,
        "notes": dict(found["notes"]),
    }


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
    """Settings of an algorithm as a configuration can hold them, others as text."""
    plain = (bool, int, float, str)
    return {
        name: value if isinstance(value, plain) else _text_of(value)
        for name, value in algorithm.settings.items()
    }


def _text_of(value: Any, depth: int = 12) -> str:
    """A value in words that are the same in every process.

    A function is named by where it was made, and what it was made of: optimizers and
    schedules of optax are functions within functions.

    Examples:
        >>> import optax
        >>> _text_of(optax.constant_schedule(0.5))
        'constant_schedule(value=0.5)'
    """
    if value is None or not depth:
        return "..." if value is not None else "none"
    if isinstance(value, (np.ndarray, jax.Array)):
        array = np.asarray(value)
        digest = zlib.crc32(np.ascontiguousarray(array).tobytes())
        text = f"{array.dtype}{list(array.shape)} {digest:08x}"
        return repr(array.tolist()) if array.size <= 16 else text
    if isinstance(value, optax.GradientTransformation):
        return _text_of(value.update, depth)
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(_text_of(v, depth - 1) for v in value)}]"
    if isinstance(value, (bool, int, float, str, np.generic)):
        return repr(value.item() if isinstance(value, np.generic) else value)
    names = getattr(getattr(value, "__code__", None), "co_freevars", ())
    cells = getattr(value, "__closure__", None) or ()
    texts = [_text_of(cell.cell_contents, depth - 1) for cell in cells]
    if names == ("tx",):  # optax, around a transformation without extra arguments
        return texts[0]
    name = getattr(value, "__qualname__", type(value).__qualname__)
    parts = ", ".join(f"{k}={text}" for k, text in zip(names, texts, strict=True))
    return f"{name.split('.<locals>')[0]}({parts})"
