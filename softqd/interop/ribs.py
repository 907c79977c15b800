"""pyribs schedulers on softqd problems, and SQUAD in pyribs schedulers.

pyribs says objective for quality and measures for behavior. Only methods of what the
user passes are called; the package itself is never imported, so it need not be there.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from softqd.experiment.loop import NonFiniteError
from softqd.experiment.progress import ProgressBar
from softqd.experiment.result import COUNTS, Result, versions
from softqd.experiment.run_folder import PYTHON
from softqd.interop._squad_emitter import SquadEmitter
from softqd.interop.rows import RowEvaluator, structure_of, unraveled
from softqd.ops.checks import check_count, check_first_evaluation
from softqd.types import Population, Problem

__all__ = ["SquadEmitter", "run_scheduler", "to_population"]


def run_scheduler(
    scheduler: Any,
    problem: Problem,
    num_iterations: int,
    *,
    seed: int = 0,
    progress: bool = False,
) -> Result:
    """Run a pyribs scheduler on a problem and return what `softqd.run` would.

    An iteration is ``ask`` and ``tell``; where one of ``scheduler.emitters`` has an
    ``ask_dqd`` of its own, ``ask_dqd`` and ``tell_dqd`` come first, with the Jacobian
    ``(n, 1 + d, p)``, quality before behaviors. The scheduler is changed in place: a
    second call goes on where the first ended.

    Build the archive with ``measure_dim`` d, ``ranges=list(zip(*problem.bounds(d)))``
    and ``solution_dim`` p, the number of values in one solution. A pytree is raveled as
    by `jax.flatten_util.ravel_pytree`; a problem without ``sample`` takes vectors.

    Args:
        scheduler: A `ribs.schedulers.Scheduler`, or an object with the same methods.
        problem: What to evaluate, in JAX's precision, whatever the archive's is.
        num_iterations: Number of iterations.
        seed: Of a stochastic problem's keys. Emitters have seeds of their own.
        progress: Show a progress bar.

    Returns:
        A `Result` with the elites of ``scheduler.result_archive`` as population, one
        history entry for the start and one per iteration. A Jacobian counts as one
        gradient evaluation and 1 + d vector-Jacobian products.

    Raises:
        NonFiniteError: Naming iteration and row, before the archive has seen them.
        ValueError: If scheduler, archive and problem do not fit together.

    Examples:
        >>> import numpy as np, softqd
        >>> from ribs.archives import GridArchive
        >>> from ribs.emitters import EvolutionStrategyEmitter
        >>> from ribs.schedulers import Scheduler
        >>> problem = softqd.problems.arm(num_joints=10)
        >>> archive = GridArchive(
        ...     solution_dim=10, dims=[20, 20], ranges=list(zip(*problem.bounds(2))))
        >>> emitter = EvolutionStrategyEmitter(
        ...     archive, x0=np.zeros(10), sigma0=0.3, batch_size=30)
        >>> scheduler = Scheduler(archive, [emitter])
        >>> result = run_scheduler(scheduler, problem, 50)
        >>> result.history["evaluations"][-1].item()
        1500
    """
    check_count("num_iterations", num_iterations, 0)
    run = _Run(scheduler, problem, seed)
    bar = ProgressBar() if progress else None
    with bar or nullcontext():
        for iteration in range(1, num_iterations + 1):
            run.step()
            if bar is not None:
                left = num_iterations - iteration
                bar.announce(left * run.seconds / iteration)
                bar.update(iteration / num_iterations, iteration, run.latest())
    return run.result()


def to_population(archive: Any, problem: Problem | None = None) -> Population:
    """The elites of a pyribs archive, every row occupied.

    Args:
        archive: Any pyribs archive that keeps elites.
        problem: If given, solutions are put into the pytree that its ``sample`` returns
            one of; else they stay vectors. Numbers keep the archive's precision.

    Raises:
        ValueError: If the archive keeps no elites, or others than the problem's.

    Examples:
        >>> import numpy as np
        >>> class Archive:
        ...     def data(self):
        ...         return {"solution": np.ones((5, 3)), "objective": np.arange(5.0),
        ...                 "measures": np.zeros((5, 2))}
        >>> population = to_population(Archive())
        >>> population.solutions.shape, population.quality.tolist()
        ((5, 3), [0.0, 1.0, 2.0, 3.0, 4.0])
    """
    elites = _data(archive)
    rows, quality, behavior = (
        np.asarray(elites[name]) for name in ("solution", "objective", "measures")
    )
    if behavior.dtype.kind not in "fiu":
        raise ValueError(
            f"the {_name(archive)} holds measures of type {behavior.dtype}; a behavior "
            "is a vector of numbers"
        )
    solutions = rows
    if problem is not None:
        solutions = unraveled(structure_of(problem, rows.shape[1:]), rows)
    return Population(solutions, quality, behavior, np.ones(len(quality), bool))


class _Run:
    """The mutable side of a run: scheduler, counters, history."""

    def __init__(self, scheduler: Any, problem: Problem, seed: int):
        if not (hasattr(scheduler, "ask") and hasattr(scheduler, "tell")):
            raise ValueError(
                "scheduler must be a pyribs scheduler, with methods ask and tell: "
                "ribs.schedulers.Scheduler(archive, emitters); got "
                f"{_name(scheduler)}"
            )
        self.scheduler, self.problem, self.seed = scheduler, problem, seed
        self.counts: dict[str, int] = dict.fromkeys(COUNTS, 0)
        self.iteration, self.seconds = 0, 0.0
        self.history: dict[str, list] = {}
        self.wants_gradients = any(map(_wants_gradients, _emitters(scheduler)))
        self.log()
        self.evaluator = _evaluator(problem, self.archive, seed)

    @property
    def archive(self) -> Any:
        """Where the elites are; asked for anew, since a scheduler may replace it."""
        archive = getattr(self.scheduler, "result_archive", None)
        return self.scheduler.archive if archive is None else archive

    def step(self) -> None:
        """One iteration of the scheduler."""
        began = time.perf_counter()
        compiling = self.evaluator.compile_seconds
        self.iteration += 1
        if self.wants_gradients:
            self._exchange(self.scheduler.ask_dqd, self.scheduler.tell_dqd, True)
        self._exchange(self.scheduler.ask, self.scheduler.tell, False)
        compiling = self.evaluator.compile_seconds - compiling
        self.seconds += time.perf_counter() - began - compiling
        self.log()

    def _exchange(self, ask: Callable, tell: Callable, has_jacobian: bool) -> None:
        rows = np.asarray(ask())
        answer = self.evaluator(rows, has_jacobian)
        self._refuse_nonfinite(answer)
        if not self.counts["evaluations"]:
            check_first_evaluation(self.problem, *answer[:2])
        self._count(len(rows), has_jacobian)
        with warnings.catch_warnings():
            if not len(rows):  # pyribs wonders that nothing was added
                warnings.simplefilter("ignore")
            tell(*answer)

    def _count(self, num_rows: int, has_jacobian: bool) -> None:
        num_jacobians = num_rows * has_jacobian
        self.counts["evaluations"] += num_rows
        self.counts["gradient_evaluations"] += num_jacobians
        num_products = num_jacobians * (1 + self.evaluator.behavior_dim)
        self.counts["vector_jacobian_products"] += num_products

    def _refuse_nonfinite(self, answer: tuple[np.ndarray, ...]) -> None:
        names = ("quality", "behavior", "gradient")
        for what, part in zip(names, answer, strict=False):
            is_finite = np.isfinite(part).all(axis=tuple(range(1, part.ndim)))
            if not is_finite.all():
                raise NonFiniteError(
                    f"iteration {self.iteration}: {what} of solution "
                    f"{is_finite.argmin()} of the {len(part)} that the scheduler asked "
                    "for is not finite. Make evaluate safe there, or give the emitters "
                    "bounds or a smaller sigma0; the archive has not seen it"
                )

    def log(self) -> None:
        """Append the current figures to the history."""
        quality = np.asarray(_data(self.archive, "objective"))
        row = {"iteration": self.iteration, **self.counts, "seconds": self.seconds}
        row["mean_quality"] = float(quality.mean()) if quality.size else math.nan
        row["max_quality"] = float(quality.max()) if quality.size else math.nan
        for name, value in row.items():
            self.history.setdefault(name, []).append(value)

    def latest(self) -> dict[str, float]:
        """The newest figures, for the progress bar."""
        newest = {name: column[-1] for name, column in self.history.items()}
        return {**newest, "rate": newest["evaluations"] / max(self.seconds, 1e-9)}

    def result(self) -> Result:
        """What the run leaves behind."""
        package = getattr(sys.modules.get("ribs"), "__version__", "unknown")
        timings = {"compile": self.evaluator.compile_seconds, "run": self.seconds}
        return Result(
            population=to_population(self.archive, self.problem),
            history={name: np.asarray(x) for name, x in self.history.items()},
            config=self._describe(),
            seed=int(self.seed),
            versions={**versions(), "ribs": package},
            timings=timings,
            problem=self.problem,
        )

    def _describe(self) -> dict[str, Any]:
        first, last = self.scheduler.archive, self.archive
        algorithm = {
            "name": _name(self.scheduler),
            "emitters": [_name(emitter) for emitter in _emitters(self.scheduler)],
            "archive": _name(first),
            "result_archive": None if last is first else _name(last),
        }
        problem = {"name": self.problem.name}
        return {"origin": PYTHON, "problem": problem, "algorithm": algorithm}


def _evaluator(problem: Problem, archive: Any, seed: int) -> RowEvaluator:
    """An evaluator for an archive that fits the problem."""
    evaluator = RowEvaluator(problem, archive.solution_dim, seed)
    if archive.measure_dim != evaluator.behavior_dim:
        d = evaluator.behavior_dim
        raise ValueError(
            f"the {_name(archive)} has measure_dim={archive.measure_dim}, but problem "
            f"{problem.name!r} has {d} behavior dimensions; build it with "
            f"ranges=list(zip(*problem.bounds({d}))) or measure_dim={d}"
        )
    return evaluator


def _data(archive: Any, *fields: str) -> Any:
    try:
        return archive.data(*fields)
    except NotImplementedError:
        raise ValueError(
            f"a {_name(archive)} keeps no elites; give the scheduler a second archive "
            "that does: Scheduler(archive, emitters, result_archive=GridArchive(...))"
        ) from None


def _emitters(scheduler: Any) -> list:
    """All emitters; a BanditScheduler holds them in a pool."""
    pool = getattr(scheduler, "emitter_pool", ())
    return list(getattr(scheduler, "emitters", pool))


def _wants_gradients(emitter: Any) -> bool:
    """Whether an emitter has an ``ask_dqd`` beyond the empty one of pyribs' base."""
    ask_dqd = getattr(emitter, "ask_dqd", None)
    return ask_dqd is not None and ask_dqd.__qualname__ != "EmitterBase.ask_dqd"


def _name(thing: Any) -> str:
    return type(thing).__name__
