"""SQUAD as an emitter of pyribs, whose methods a scheduler calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from softqd.algorithms import squad
from softqd.interop._ask_tell import AskTell, told
from softqd.ops.checks import check_count
from softqd.ops.seeds import check_seed
from softqd.types import Problem


class SquadEmitter:
    """An emitter that finds solutions which are all good and all different.

    It has a population of its own, which the archive receives as it moves; the archive
    does not steer it. Where the scheduler's ``ask_dqd`` is called first, it climbs the
    gradients that ``tell_dqd`` brings; where ``ask`` is, it goes on with children
    alone, which need many more evaluations.

    Args:
        archive: Where the scheduler adds solutions. Its ranges bound the measures.
        x0: Where the population starts, ``(p,)``.
        sigma0: How far around it.
        initial_solutions: ``(batch_size, p)``, in place of ``x0``.
        bounds: A pair ``(low, high)`` for each of the ``p`` values; None where there is
            none.
        batch_size: The population.
        seed: None: another one each time.
        **settings: Others of `softqd.squad`, such as ``overlap``.

    Raises:
        ValueError: If an argument cannot be used.
    """

    def __init__(
        self,
        archive: Any,
        *,
        x0: Any = None,
        sigma0: float = 1.0,
        initial_solutions: Any = None,
        bounds: Any = None,
        batch_size: int = 64,
        seed: int | None = None,
        **settings: Any,
    ):
        check_count("batch_size", batch_size, 2)
        self.archive, self.solution_dim = archive, archive.solution_dim
        self.batch_size = batch_size
        self._start, self._bounds = initial_solutions, _box(bounds, self.solution_dim)
        if (x0 is None) == (initial_solutions is None):
            raise ValueError("give either x0 or initial_solutions")
        wanted = (self.solution_dim,) if x0 is not None else (batch_size,)
        if np.shape(initial_solutions if x0 is None else x0)[: len(wanted)] != wanted:
            raise ValueError(
                f"x0 must have shape ({self.solution_dim},) and initial_solutions "
                f"({batch_size}, {self.solution_dim})"
            )
        center = np.zeros(self.solution_dim) if x0 is None else np.asarray(x0, float)
        self._sample = lambda rng: center + sigma0 * rng.normal(size=center.shape)
        drawn = np.random.SeedSequence().generate_state(1, np.uint64)[0]
        self._seed = check_seed(drawn if seed is None else seed)
        self._settings = settings
        self._loop: AskTell | None = None

    # --- what a scheduler calls ---------------------------------------------------

    def ask_dqd(self) -> Float[np.ndarray, "n p"]:
        """Solutions whose gradients are wanted, or that come before them."""
        return self._rows(self._opened(is_climbing=True).ask())

    def tell_dqd(
        self,
        solution: Any,
        objective: Any,
        measures: Any,
        jacobian: Any,
        add_info: Any,
        **fields: Any,
    ) -> None:
        """What they evaluate to; gradients ``(n, 1 + d, p)``, objective first."""
        jacobian = np.asarray(jacobian)

        def pullback(of_quality: Any, of_behavior: Any) -> Any:
            cotangents = np.concatenate([of_quality[:, None], of_behavior], axis=1)
            return np.einsum("nc,ncp->np", cotangents, jacobian)

        self._told(solution, objective, measures, pullback)

    def ask(self) -> Float[np.ndarray, "n p"]:
        """Solutions that need no gradient; none while others are waited for."""
        loop = self._opened(is_climbing=False)
        if loop.wants_gradient:
            return self._rows(np.empty((0, self.solution_dim)))
        return self._rows(loop.ask())

    def tell(
        self,
        solution: Any,
        objective: Any,
        measures: Any,
        add_info: Any,
        **fields: Any,
    ) -> None:
        """What they evaluate to."""
        self._told(solution, objective, measures, None)

    # --- inside -------------------------------------------------------------------

    def _opened(self, is_climbing: bool) -> AskTell:
        """The loop, which begins with the first call."""
        if self._loop is None:
            algorithm = squad(
                self._problem(is_climbing),
                population_size=self.batch_size,
                **self._settings,
            )
            self._loop = AskTell(algorithm, self._seed, solutions=self._start)
        return self._loop

    def _problem(self, is_climbing: bool) -> Problem:
        return told(
            self._sample,
            self.archive.measure_dim,
            _ranges(self.archive),
            is_differentiable=is_climbing,
            solution_bounds=self._bounds,
            name=type(self.archive).__name__,
        )

    def _told(
        self, solution: Any, objective: Any, measures: Any, pullback: Callable | None
    ) -> None:
        if not len(solution):
            return
        assert self._loop is not None
        ranges, measures = _ranges(self.archive), np.asarray(measures)
        if ranges is not None:  # archives put what is outside into their outer cells
            measures = np.clip(measures, *ranges)
        quality = np.ones(len(solution)) if objective is None else objective
        self._loop.tell(quality, measures, pullback)

    def _rows(self, solutions: Any) -> Float[np.ndarray, "n p"]:
        return np.asarray(solutions, self.archive.dtypes["solution"])


def _ranges(archive: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Of the measures; None for an archive that has none."""
    sides = (getattr(archive, f"{side}_bounds", None) for side in ("lower", "upper"))
    low, high = sides
    return None if low is None or high is None else (low, high)


def _box(bounds: Any, dim: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Pairs for every value, as pyribs takes them, as two arrays."""
    if bounds is None:
        return None
    if len(bounds) != dim:
        raise ValueError(f"bounds must have {dim} pairs (low, high); got {len(bounds)}")
    pairs = [(None, None) if pair is None else pair for pair in bounds]
    low = [-np.inf if a is None else a for a, _ in pairs]
    high = [np.inf if b is None else b for _, b in pairs]
    return np.asarray(low), np.asarray(high)
