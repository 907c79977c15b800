"""Ask and tell: an algorithm whose evaluations somebody else makes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from softqd.experiment import checkpoint
from softqd.experiment.drive import Limits
from softqd.experiment.files.archive import read_arrays, write_arrays
from softqd.experiment.loop import Loop
from softqd.experiment.program import Lanes, WalkedProgram
from softqd.experiment.result import Result
from softqd.interop._problem import drawn_by, one_drawn, outside_problem
from softqd.ops import evaluation
from softqd.ops.checks import as_array, check_count, check_solutions
from softqd.ops.outside import (
    LINEARIZE,
    PULLBACK,
    SAMPLE,
    Door,
    OutsideEvaluate,
    OutsideStochastic,
    Request,
    door_of,
)
from softqd.ops.seeds import check_seed
from softqd.ops.walk import Walk
from softqd.types import Algorithm, Problem

_TOLD = "told.npz"
_OVER = "this loop is over; its result() is what there is"


class AskTell:
    """An algorithm that asks for evaluations and is told them.

    ``ask`` gives solutions, ``tell`` takes what they evaluate to. An iteration asks
    once or several times, for batches of any size.

    Args:
        algorithm: Any, built from a problem in JAX, whose ``evaluate`` then only says
            what shapes to expect, or from one of this package.
        seed: The seed.
        num_iterations: How long the loop will be, if it is known: schedules follow it.
        max_evaluations: The same in evaluations.
        solutions: First solutions, leading axis ``n``, instead of random ones.

    Raises:
        ValueError: If the algorithm does not hold its problem where it can be replaced.

    Examples:
        >>> import numpy as np, softqd
        >>> problem = softqd.interop.told(
        ...     lambda rng: rng.normal(size=3), behavior_dim=2, behavior_bounds=(-9, 9))
        >>> algorithm = softqd.dns(problem, population_size=16, batch_size=8)
        >>> loop = softqd.interop.AskTell(algorithm, num_iterations=10)
        >>> while not loop.is_done:
        ...     x = loop.ask()
        ...     loop.tell(-(x**2).sum(1), np.tanh(x[:, :2]))
        >>> loop.result().history["evaluations"][-1].item()
        96
    """

    def __init__(
        self,
        algorithm: Algorithm,
        seed: int = 0,
        *,
        num_iterations: int | None = None,
        max_evaluations: int | None = None,
        solutions: Any = None,
    ):
        self._limits = Limits(num_iterations, max_evaluations)
        for name in ("num_iterations", "max_evaluations"):
            if getattr(self._limits, name) is not None:
                check_count(name, getattr(self._limits, name), 0)
        algorithm = _with_told_problem(algorithm)
        if solutions is not None and algorithm.problem is not None:
            solutions = check_solutions(algorithm.problem, solutions)
        self._solutions = solutions
        lanes = Lanes([check_seed(seed)], is_single=True)
        self._program = WalkedProgram(algorithm, lanes)
        self._loop = Loop(self._program)
        self._door = Door(_not_here)  # keeps what gradients are pulled from
        self._walk: Walk | None = None
        self._pending: Request | None = None
        self._is_asked = False
        self._answers: list[list[Any]] = []  # since the last whole iteration
        self._kept: list[list[Any]] = []  # to begin with, when the walk is next opened

    # --- the loop -----------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        """Whether no iteration is left in the limits given."""
        self._open()
        return self._pending is None

    @property
    def wants_gradient(self) -> bool:
        """Whether what is told next must come with a pullback."""
        self._open()
        return self._pending is not None and self._pending.call.kind == LINEARIZE

    @property
    def evaluations(self) -> int:
        """Spent in whole iterations, as `softqd.run` counts them."""
        return self._loop.ledger.evaluations

    def ask(self) -> Any:
        """Solutions to evaluate, a pytree of arrays with a leading axis.

        Raises:
            ValueError: If the solutions before have not been told, or the loop is over.
        """
        self._open()
        if self._pending is None:
            raise ValueError(_OVER)
        if self._is_asked:
            raise ValueError(
                "ask() was called twice; tell(quality, behavior) of the solutions first"
            )
        self._is_asked = True
        return self._pending.call.door.present(self._pending.arguments[0])

    def tell(
        self, quality: Any, behavior: Any, pullback: Callable[..., Any] | None = None
    ) -> None:
        """What the solutions asked for evaluate to.

        Args:
            quality: ``(n,)``; NaN or None where an evaluation failed.
            behavior: ``(n, d)``; the same.
            pullback: ``(quality_cotangent (n,), behavior_cotangent (n, d))`` to the
                gradient with respect to the solutions, of their structure. Needed
                where ``wants_gradient`` says so.

        What raises is not told, so that it can be told once more.

        Raises:
            ValueError: If nothing was asked, shapes are wrong, or gradients are needed.
        """
        if self._is_asked:
            self._open()
        request = self._pending
        if request is None or not self._is_asked:
            raise ValueError("nothing was asked; call ask() before tell()")
        answer: list[Any] = [*_checked(request, quality, behavior)]
        if request.call.kind == LINEARIZE:
            if pullback is None:
                raise ValueError(_needs_pullback(self._program.algorithm))
            pull = _checked_pullback(request, pullback)
            answer.append(self._door.hold(pull, request.size))
        self._kept = [*self._answers]
        self._send(answer)
        self._is_asked = False

    def result(self) -> Result:
        """What the iterations that are whole have found.

        Raises:
            ValueError: If the first population has not been told.
        """
        self._open()
        if self._loop.state is None:
            raise ValueError(
                "there is no population yet: ask() and tell() until the first "
                "solutions are evaluated"
            )
        (result,) = self._loop.results()
        assert isinstance(result, Result)
        return result

    # --- saving -------------------------------------------------------------------

    def save(self, directory: str | Path) -> None:
        """Write the state, and what has been told since, for `load`.

        Args:
            directory: Created if need be; an older state in it is replaced.
        """
        directory = Path(directory)
        arrays = {
            f"{i}/{j}": np.asarray(array)
            for i, answer in enumerate(self._answers)
            for j, array in enumerate(answer)
        }
        arrays["iteration"] = np.asarray(self._iteration)
        write_arrays(directory / _TOLD, arrays)
        if self._loop.state is not None:
            self._loop.save(directory)

    def load(self, directory: str | Path) -> None:
        """Go on where a loop of the same algorithm and seed was saved, bit for bit.

        What was asked there and not told is asked again.

        Raises:
            CheckpointError: If there is none, or it is of another loop.
            ValueError: If this loop has begun.
        """
        directory = Path(directory)
        if self._walk is not None:
            raise ValueError("this loop has begun; load into a new one")
        if not (directory / _TOLD).exists():
            raise checkpoint.CheckpointError(f"{directory} holds no saved loop")
        if checkpoint.exists(directory):
            self._loop.start(self._solutions, directory, *self._limits[:2])
        told = read_arrays(directory / _TOLD)
        answers: dict[str, list[Any]] = {}
        # Of another iteration than the state where saving was cut short between them.
        if told.pop("iteration") == self._iteration:
            for name, array in told.items():
                answers.setdefault(name.split("/")[0], []).append(array)
        self._kept = list(answers.values())
        self._open()

    # --- inside -------------------------------------------------------------------

    @property
    def _iteration(self) -> int:
        """Of the last state; -1 before there is one."""
        return -1 if self._loop.state is None else self._loop.ledger.iteration

    def _open(self) -> None:
        if self._walk is None:
            self._walk = self._iterations()
            self._answers.clear()
            self._send(None, *self._kept)

    def _send(self, *answers: Any) -> None:
        """Go on to the next evaluation; gradients are pulled on the way."""
        assert self._walk is not None
        self._pending = None  # and stays so if this is the end
        coming: list[Any] = list(answers)
        request = None
        try:
            while coming:
                answer = coming.pop(0)
                if answer is not None:
                    self._answers.append(answer)
                request = self._walk.send(answer)
                if not coming and request.call.kind in (PULLBACK, SAMPLE):
                    is_drawn = request.call.kind == SAMPLE
                    door = request.call.door if is_drawn else self._door
                    coming = [door.answer(request)]
        except StopIteration:
            return
        except BaseException:  # of a pullback, say: as it was before this call
            self._walk = None
            raise
        self._pending = request

    def _iterations(self) -> Walk:
        loop, limits = self._loop, self._limits
        if loop.state is None:
            state = yield from self._program.beginning(self._solutions)
            loop.head_for(loop.begun(state), *limits[:2])
            self._settled()
        while limits.steps_left(loop) > 0:
            before, began = loop.places_at_start(), time.perf_counter()
            found = yield from self._program.advancing(loop.state, 1)
            loop.advanced(found, 1, time.perf_counter() - began, before)
            loop.log()
            self._settled()

    def _settled(self) -> None:
        """What was told is part of the state, which needs no pullbacks either."""
        self._answers.clear()
        self._door.forget()
        self._kept, self._is_asked = [], False


# --- what is told -----------------------------------------------------------------


def _checked(request: Request, quality: Any, behavior: Any) -> Iterator[np.ndarray]:
    """Quality and behavior as arrays, if they fit what was asked."""
    names = ("quality", "behavior")
    for name, value, output in zip(
        names, (quality, behavior), request.call.outputs[:2], strict=True
    ):
        shape, dtype = (request.size, *output[0]), output[1]
        value = as_array(value)
        if isinstance(value, (list, tuple)):
            failed = np.full(output[0], np.nan)
            value = [failed if x is None else np.asarray(as_array(x)) for x in value]
        try:
            array = np.asarray(value, dtype)
        except (TypeError, ValueError):
            raise ValueError(
                f"{name} must be an array of numbers of shape {shape}, NaN where an "
                "evaluation failed"
            ) from None
        if array.shape != shape:
            raise ValueError(
                f"{name} has shape {array.shape}, expected {shape}: a row for each of "
                f"the {request.size} solutions asked for, in their order"
            )
        yield array


def _checked_pullback(request: Request, pullback: Callable) -> Callable:
    """A pullback that says what is wrong with its answer."""
    solutions = request.arguments[0]

    def pull(*cotangents: Any) -> PyTree:
        gradient = pullback(*map(np.asarray, cotangents))
        gradient = jax.tree.map(lambda g: np.asarray(as_array(g)), gradient)
        shapes, wanted = (
            jax.tree.map(lambda x: x.shape, tree) for tree in (gradient, solutions)
        )
        if shapes != wanted:
            raise ValueError(
                "pullback must return a gradient like the solutions asked for, of "
                f"shape {wanted}; got {shapes}"
            )
        return gradient

    return pull


def _needs_pullback(algorithm: Algorithm) -> str:
    return (
        f"{algorithm.name} takes gradients: tell(quality, behavior, pullback), where "
        "pullback(quality_cotangent, behavior_cotangent) returns the gradient with "
        "respect to the solutions. Without gradients use softqd.dns, "
        "softqd.sep_cma_mae, or softqd.squad on a problem with is_differentiable=False"
    )


def _not_here(*_: Any) -> Any:
    raise ValueError(
        "evaluations of this problem are told by softqd.interop.AskTell; nothing "
        "computes them, and only gradients of the last batch can be asked for"
    )


def told(
    sample: Callable[[np.random.Generator], Any] | None,
    behavior_dim: int,
    behavior_bounds: Any = None,
    *,
    is_differentiable: bool = False,
    **fields: Any,
) -> Problem:
    """A problem without ``evaluate``: its evaluations are told to `AskTell`.

    Args:
        sample: Draws one solution, a pytree of NumPy arrays; None where every loop is
            given its start.
        behavior_dim: Number of behavior dimensions.
        behavior_bounds: As in `softqd.Problem`.
        is_differentiable: Whether gradients are told.
        **fields: Others of `softqd.Problem`.
    """
    check_count("behavior_dim", behavior_dim, 1)
    return outside_problem(
        Door(_not_here, _not_here, None if sample is None else drawn_by(sample)),
        None if sample is None else one_drawn(sample),
        lambda: behavior_dim,
        behavior_bounds=behavior_bounds,
        is_differentiable=is_differentiable,
        **{"name": "told", **fields},
    )


def _with_told_problem(algorithm: Algorithm) -> Algorithm:
    """An algorithm whose problem is evaluated outside, whatever it was built from."""
    if door_of(algorithm.problem) is not None:
        return algorithm
    swapped: list[Problem] = []

    def swap(leaf: Any) -> Any:
        if not isinstance(leaf, Problem):
            return leaf
        swapped.append(_outside_of(leaf))
        return swapped[-1]

    is_problem = lambda x: isinstance(x, Problem)  # noqa: E731
    init, step = (
        jax.tree.map(swap, function, is_leaf=is_problem)
        for function in (algorithm.init, algorithm.step)
    )
    if len(swapped) < 2:
        raise ValueError(
            f"algorithm {algorithm.name!r} hides its problem; AskTell takes algorithms "
            "whose init and step are jax.tree_util.Partial(init, problem) and "
            "Partial(step, problem)"
        )
    return algorithm._replace(init=init, step=step, problem=swapped[-1])


def _outside_of(problem: Problem) -> Problem:
    """A problem of the same shapes whose evaluations are told."""
    is_differentiable = problem.is_differentiable
    if is_differentiable is None and problem.sample is not None:
        solution = jax.eval_shape(problem.sample, jax.random.key(0))
        is_differentiable = evaluation.is_differentiable(problem, solution)
    kind, key = OutsideEvaluate, ()
    if problem.is_stochastic:
        kind, key = OutsideStochastic, (jax.random.key(0),)
    evaluate = kind(Door(_not_here), lambda x: problem.evaluate(x, *key))
    return dataclasses.replace(
        problem, evaluate=evaluate, is_differentiable=is_differentiable
    )
