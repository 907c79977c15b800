"""The mutable side of a run: state on the device, counters and history on the host."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Int, PyTree

from softqd.experiment import checkpoint
from softqd.experiment.result import COUNTS, Result, versions
from softqd.experiment.watch import trouble
from softqd.ops.checks import check_first_evaluation, check_solutions
from softqd.ops.gpu import compiler_options
from softqd.ops.level import level_of
from softqd.types import Algorithm, Population, lift_arrays

# Longest time between two returns to Python: how soon Ctrl-C and the bar react.
_MAX_CHUNK_SECONDS = 0.5


class NonFiniteError(FloatingPointError):
    """A run met a quality, behavior or gradient that is not finite."""


class LogPoint(NamedTuple):
    """What a callback is given at every log point."""

    iteration: int
    history: dict[str, list]
    population: Callable[[], Population]


class _Tally(NamedTuple):
    """What is kept of a chunk of iterations, on the device."""

    counts: Int[Array, " 3"]  # as in COUNTS, summed
    first_bad: Int[Array, " 2"]  # first step with a non-finite row, or -1; that row


class Loop:
    """The mutable side of a run: device state, counters, history.

    With ``lanes``, a pytree with one row per seed, ``init`` is given a key and its row,
    and a run that is not finite ends alone: its error takes its result's place.
    """

    def __init__(self, algorithm, seeds, is_many, config, *, lanes=None, measure=None):
        self.algorithm, self.seeds, self.is_many = algorithm, seeds, is_many
        self.lanes, self.failures, self.measure = lanes, {}, measure
        self.config = config or _describe(algorithm)
        self.step = lift_arrays(algorithm.step)
        population = jax.vmap(algorithm.population) if is_many else algorithm.population
        self._population = jax.jit(population)
        self._quality = jax.jit(lambda state: _quality_of(population(state)))
        self._place = jax.jit(lambda state: _place_of(population(state)))
        # What was spent, per seed.
        self.counts: dict[str, list[int]] = {name: [0] * len(seeds) for name in COUNTS}
        self.iteration, self.evaluations_per_step = 0, 0
        self.seconds, self.compile_seconds = 0.0, 0.0
        self.seconds_per_step, self.num_chunks = 0.0, 0
        self.history: dict[str, list] = {}
        # From where quality is measured, per seed; None while nobody is there.
        self.levels: list[float | None] = []
        self.is_sound = False
        self.has_warned = False

    # --- starting -----------------------------------------------------------------

    def start(
        self,
        solutions: PyTree | None,
        resume_from: Path | None,
        num_iterations: int | None = None,
        max_evaluations: int | None = None,
    ) -> None:
        """Initialize, or continue from a checkpoint, towards these limits."""
        began = time.perf_counter()
        problem = self.algorithm.problem
        if solutions is not None and problem is not None:
            solutions = check_solutions(problem, solutions)
        keys = [jax.random.key(seed) for seed in self.seeds]
        key: Any = jnp.stack(keys) if self.is_many else keys[0]
        key = key if self.lanes is None else (key, self.lanes)
        init = lift_arrays(self.algorithm.init)
        build = Partial(_init, many=self.is_many)
        template = jax.eval_shape(build, init, key, solutions)
        lowered, options = self.lower(template), compiler_options()
        if resume_from is not None and checkpoint.exists(resume_from):
            self.state, meta = checkpoint.load(resume_from, template, self.identity())
            self.program = lowered.compile(options)
            self.iteration, self.counts = meta["iteration"], meta["counts"]
            self.history, self.seconds = meta["history"], meta["seconds"]
            self.evaluations_per_step = meta["evaluations_per_step"]
            self.failures = dict(meta.get("failures", []))
            self.levels = meta["levels"]
        else:
            start = jax.jit(build).lower(init, key, solutions)
            # Both programs at once: compilers work outside of Python. Running waits for
            # both, because compilers try their kernels out on the device.
            with ThreadPoolExecutor(1) as thread:
                program = thread.submit(lowered.compile, options)
                begin = start.compile(options)
            self.program = program.result()
            self.state = begin(init, key, solutions)
            for name in COUNTS:  # every seed spends the same here
                spent = np.asarray(getattr(self.state, f"init_{name}", 0))
                self.counts[name] = [int(spent.reshape(-1)[0])] * len(self.seeds)
            self.check_start()
            self._find_levels()
        if self.algorithm.plan is not None:
            limits = (num_iterations, max_evaluations)
            self.state = self.algorithm.plan(self.state, *limits)
        self.compile_seconds = time.perf_counter() - began
        if not self.history:
            self.log()
        self.is_sound = True

    def check_start(self) -> None:
        """Refuse a first population that is not finite or out of bounds."""
        if self.algorithm.problem is None:
            return
        for population in self.populations():
            keep = np.asarray(population.occupied)
            check_first_evaluation(
                self.algorithm.problem,
                np.asarray(population.quality)[keep],
                np.asarray(population.behavior)[keep],
            )

    def lower(self, state: PyTree) -> Any:
        """The program that advances a state of this shape, not compiled yet."""
        # Buffers of the old state are reused for the new one.
        program = jax.jit(_advance, static_argnames="many", donate_argnames=("state",))
        self.info = jax.eval_shape(
            jax.vmap(self.step) if self.is_many else self.step, state
        )[1]
        return program.lower(self.step, state, jnp.int32(0), many=self.is_many)

    def _find_levels(self) -> None:
        """Find levels among the first that are there; archives may start empty."""
        qualities, old = self.qualities(), self.levels or [None] * len(self.seeds)
        self.levels = [
            level_of(self.algorithm.problem, q) if level is None else level
            for q, level in zip(qualities, old, strict=True)
        ]

    # --- advancing ----------------------------------------------------------------

    def advance(self, num_steps: int) -> None:
        """Run some iterations on the device and count what they cost."""
        if None in self.levels:
            num_steps = 1
        # Their buffers are given away.
        before = (
            [] if self.iteration else jax.tree.map(np.array, self._place(self.state))
        )
        began = time.perf_counter()
        self.is_sound = False
        self.state, tally, self.info = self.program(
            self.step, self.state, jnp.int32(num_steps)
        )
        counts, first_bad = (np.asarray(x) for x in tally)
        spent = time.perf_counter() - began
        self._refuse_nonfinite(first_bad.reshape(-1, 2))
        self.is_sound = True
        self.iteration += num_steps
        by_seed = counts.reshape(-1, 3)
        self.counts = {
            name: (np.asarray(self.counts[name]) + by_seed[:, i]).tolist()
            for i, name in enumerate(COUNTS)
        }
        # A method may spend less later on, and never more than in its first iteration.
        per_step, per_gradient, _ = (by_seed.max(0) // num_steps).tolist()
        self.evaluations_per_step = max(self.evaluations_per_step, per_step)
        self.seconds += spent
        self.seconds_per_step = spent / num_steps
        self.num_chunks += 1
        if None in self.levels:
            self._find_levels()
        # Where every member has a gradient; of fewer, all children may be rejected.
        if before and per_gradient >= before[0].shape[-1] > 1:
            self._warn_if_still(before)

    def _warn_if_still(self, before: list[np.ndarray]) -> None:
        """Say so if gradients moved nothing."""
        after = map(np.asarray, self._place(self.state))
        if all(np.array_equal(*pair) for pair in zip(before, after, strict=True)):
            warnings.warn(
                f"after iteration {self.iteration} every quality and "
                "behavior is what it was: their gradients are zero. Is evaluate "
                "differentiable? round, floor, argmax, comparisons and casts to "
                "integers have no gradient; look at jax.grad of its quality",
                stacklevel=2,
            )

    def advance_within(self, max_evaluations: int) -> None:
        """Take the first iteration, and take it back if it cost too much.

        What an iteration costs is not known before; from then on it is.
        """
        names = ("counts", "iteration", "seconds", "info")
        before = {name: getattr(self, name) for name in names}
        state = jax.tree.map(jnp.copy, self.state)
        self.advance(1)
        if self.evaluations > max_evaluations:
            self.state = state
            vars(self).update(before)

    @property
    def evaluations(self) -> int:
        """Spent so far, by the seed that spent most."""
        return max(self.counts["evaluations"])

    def steps_per_chunk(self) -> float:
        """Iterations that take about half a second."""
        if not self.seconds_per_step:
            return 1
        return max(1, _MAX_CHUNK_SECONDS // self.seconds_per_step)

    def _refuse_nonfinite(self, first_bad: Int[np.ndarray, "seeds 2"]) -> None:
        is_bad = first_bad[:, 0] >= 0
        if not is_bad.any():
            return
        if self.lanes is not None:
            which = is_bad.nonzero()[0].tolist()
            new = {i: self._nonfinite(i, first_bad) for i in which}
            self.failures = new | self.failures  # the first of each counts
            return
        which = int(np.where(is_bad, first_bad[:, 0], np.inf).argmin())
        raise NonFiniteError(self._nonfinite(which, first_bad))

    def _nonfinite(self, which: int, first_bad: Int[np.ndarray, "seeds 2"]) -> str:
        step, row = first_bad[which].tolist()
        seed = f" of seed {self.seeds[which]}" if self.is_many else ""
        return (
            f"iteration {self.iteration + step + 1}: quality, behavior or gradient of "
            f"solution {row}{seed} is not finite. Lower the learning rate, clip the "
            "gradient (optax.clip_by_global_norm), or make evaluate safe there; an "
            "earlier checkpoint, if any, is kept"
        )

    # --- logging ------------------------------------------------------------------

    def log(self) -> None:
        """Append the current figures to the history, once per iteration."""
        if self.history and self.history["iteration"][-1] == self.iteration:
            return
        row: dict[str, Any] = {"iteration": self.iteration, **self.counts}
        row["seconds"] = self.seconds
        quality = self.qualities()
        row["mean_quality"] = [float(q.mean()) if q.size else math.nan for q in quality]
        row["max_quality"] = [float(q.max()) if q.size else math.nan for q in quality]
        row |= self._scalars() | self._measured()
        if self.iteration and not self.has_warned:
            self._warn_of_trouble()
        for name, value in row.items():
            self.history.setdefault(name, []).append(value)

    def _warn_of_trouble(self) -> None:
        """Say so, once, if a population cannot spread."""
        quality, behavior, occupied = map(np.asarray, self._place(self.state))
        if not self.is_many:
            quality, behavior, occupied = quality[None], behavior[None], occupied[None]
        for i, seed in enumerate(self.seeds):
            keep = occupied[i]
            # Who has no light to tell of does not need any.
            level = self.levels[i] if hasattr(self.info, "lit") else None
            found = trouble(quality[i][keep], behavior[i][keep], level)
            if found and i not in self.failures:
                of_seed = f" of seed {seed}" if self.is_many else ""
                warnings.warn(
                    f"after iteration {self.iteration}{of_seed}, {found}", stacklevel=2
                )
                self.has_warned = True
                return

    def _scalars(self) -> dict[str, list[float]]:
        """Single numbers in the algorithm's info, beyond the counters, per seed."""
        scalars = {}
        for name, leaf in self.info._asdict().items():
            if name in self.counts or leaf.ndim != self.is_many:
                continue
            is_known = not isinstance(leaf, jax.ShapeDtypeStruct)
            values = np.asarray(leaf) if is_known else np.full(leaf.shape, np.nan)
            scalars[name] = [float(v) for v in values.reshape(-1)]
        return scalars

    def _measured(self) -> dict[str, list[float]]:
        """What ``measure`` says of the population, per seed."""
        if self.measure is None:
            return {}
        rows = [self.measure(population) for population in self.populations()]
        return {name: [float(row[name]) for row in rows] for name in rows[0]}

    def latest(self) -> dict[str, float]:
        """The newest figures, first seed, for the progress bar."""
        newest = {name: column[-1] for name, column in self.history.items()}
        newest = {k: v[0] if isinstance(v, list) else v for k, v in newest.items()}
        rate = self.evaluations_per_step / max(self.seconds_per_step, 1e-9)
        return {**newest, "rate": rate * len(self.seeds)}

    def log_point(self) -> LogPoint:
        """What a callback sees."""
        return LogPoint(
            self.iteration, self._history_of(0), lambda: self.populations()[0]
        )

    # --- keeping ------------------------------------------------------------------

    def identity(self) -> dict[str, Any]:
        """What must be equal for a checkpoint to be resumed."""
        return {"seeds": self.seeds, "config": _jsonable(self.config)}

    def save(self, folder: Path) -> None:
        """Write a checkpoint."""
        meta = {
            "identity": self.identity(),
            "iteration": self.iteration,
            "counts": self.counts,
            "evaluations_per_step": self.evaluations_per_step,
            "history": self.history,
            "seconds": self.seconds,
            "failures": list(self.failures.items()),
            "levels": self.levels,
        }
        checkpoint.save(folder, self.state, meta)

    def populations(self) -> list[Population]:
        """The current population of every seed."""
        population = self._population(self.state)
        if not self.is_many:
            return [population]
        indices = range(len(self.seeds))
        return [jax.tree.map(lambda x, i=i: x[i], population) for i in indices]

    def qualities(self) -> list[np.ndarray]:
        """The occupied qualities of every seed; solutions stay on the device."""
        quality, occupied = map(np.asarray, self._quality(self.state))
        if not self.is_many:
            quality, occupied = quality[None], occupied[None]
        return [q[o] for q, o in zip(quality, occupied, strict=True)]

    def _history_of(self, index: int) -> dict[str, list]:
        pick = lambda v: v[index] if isinstance(v, list) else v  # noqa: E731
        return {name: [pick(v) for v in col] for name, col in self.history.items()}

    def results(self) -> list[Any]:
        """One `Result` per seed, on the host; of lanes, the error where one failed."""
        timings = {"compile": self.compile_seconds, "run": self.seconds}
        return [
            NonFiniteError(self.failures[i])
            if i in self.failures
            else Result(
                population=population.compact(),
                history={k: np.asarray(v) for k, v in self._history_of(i).items()},
                config=self.config,
                seed=self.seeds[i],
                versions=versions(),
                timings=timings,
                quality_level=self.levels[i] or 0.0,
            )
            for i, population in enumerate(self.populations())
        ]


def _quality_of(population: Population) -> tuple[Any, Any]:
    return population.quality, population.occupied


def _place_of(population: Population) -> list[Any]:
    return [population.quality, population.behavior, population.occupied]


def _init(init: Callable, key: Any, solutions: PyTree | None, many: bool) -> PyTree:
    one = (lambda k: init(k)) if solutions is None else (lambda k: init(k, solutions))
    return jax.vmap(one)(key) if many else one(key)


def _advance(step: Callable, state: PyTree, num_steps: Any, many: bool) -> tuple:
    """``num_steps`` iterations in one loop, whose length is not compiled in.

    The same program serves every chunk, so that a run does not depend on how it was
    cut into chunks.
    """

    def watched(i, state, tally, _):
        state, info = step(state)
        counts = jnp.stack([getattr(info, name) for name in COUNTS])
        bad_row = info.is_finite.argmin().astype(jnp.int32)
        is_first_bad = ~info.is_finite[bad_row] & (tally.first_bad[0] < 0)
        first_bad = jnp.where(is_first_bad, jnp.stack([i, bad_row]), tally.first_bad)
        return state, _Tally(tally.counts + counts, first_bad), info

    one = jax.vmap(watched, in_axes=(None, 0, 0, 0)) if many else watched
    shape = jax.eval_shape(jax.vmap(step) if many else step, state)[1]
    seeds = shape.evaluations.shape
    tally = _Tally(
        jnp.zeros((*seeds, 3), jnp.int32), jnp.full((*seeds, 2), -1, jnp.int32)
    )
    info = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shape)
    return jax.lax.fori_loop(
        0, num_steps, lambda i, carry: one(i, *carry), (state, tally, info)
    )


def _describe(algorithm: Algorithm) -> dict[str, Any]:
    """What is known of an algorithm that was not built from a configuration."""
    problem = algorithm.problem.name if algorithm.problem is not None else "unknown"
    settings = {
        name: value if isinstance(value, (bool, int, float, str)) else repr(value)
        for name, value in algorithm.settings.items()
        if value is None or isinstance(value, (bool, int, float, str, np.generic))
    }
    return {"problem": problem, "algorithm": {"name": algorithm.name, **settings}}


def _jsonable(value: Any) -> Any:
    return json.loads(json.dumps(value, default=repr))
