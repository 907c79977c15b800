"""Equal budgets: what an algorithm spends, and how much everyone may."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from softqd.experiment.many.plan import Method
from softqd.ops.outside import NoGradientError
from softqd.types import Algorithm, lift_arrays


class Cost(NamedTuple):
    """Evaluations of the first population, and of one iteration."""

    start: int
    step: int


def cost_of(algorithm: Algorithm) -> Cost:
    """What a run of the algorithm spends, as it reports it, without evaluating.

    Compiled code keeps only what its output needs: here, two constants.
    """

    def count(init: Callable, step: Callable, key: Any) -> tuple[Any, Any]:
        state = init(key)
        return state.init_evaluations, step(state)[1].evaluations

    functions = lift_arrays(algorithm.init), lift_arrays(algorithm.step)
    start, step = jax.jit(count)(*functions, jax.random.key(0))
    return Cost(int(start), int(step))


def with_budgets(
    methods: Sequence[Method],
    evaluations: int | None,
    kind_of: Callable[[Method], str] = lambda method: method.name,
) -> tuple[int, list[Method]]:
    """Give every method the same budget; by default the smallest preset's.

    Methods whose first population alone costs more cannot run. Those of one kind are
    known to cost the same.

    Returns:
        The budget, and the methods with ``evaluations`` in their configuration.

    Raises:
        ValueError: If no method can run.
    """
    methods = list(methods)
    costs: dict[str, Cost] = {}
    kinds: dict[str, Cost] = {}
    for i, method in enumerate(methods):
        if method.algorithm is not None:
            try:
                kind = kind_of(method)
                kinds[kind] = kinds.get(kind) or cost_of(method.algorithm)
                costs[method.name] = kinds[kind]
            except Exception as error:
                methods[i] = method._replace(
                    algorithm=None, error=_reason(method.algorithm, error)
                )
    spent = [
        cost.start + cost.step * _iterations(method)
        for method in methods
        if (cost := costs.get(method.name))
    ]
    budget = evaluations or min(spent, default=0)
    limited = [_limited(m, costs.get(m.name), budget) for m in methods]
    if all(method.algorithm is None for method in limited):
        raise ValueError(f"no algorithm can run on this problem: {_reasons(limited)}")
    return budget, limited


def _reasons(methods: Sequence[Method]) -> str:
    """Every reason once, with the methods it is about."""
    names: dict[str, list[str]] = {}
    for method in methods:
        names.setdefault(method.error, []).append(method.name)
    return "; ".join(
        ", ".join(some[:3])
        + f" and {len(some) - 3} more" * (len(some) > 3)
        + f": {why}"
        for why, some in names.items()
    )


def _reason(algorithm: Algorithm, error: Exception) -> str:
    """Why an algorithm cannot run: often, `evaluate` cannot be differentiated."""
    problem = algorithm.problem
    is_said = isinstance(error, NoGradientError)
    if is_said or problem is None or problem.sample is None:
        return str(error)
    key = jax.random.key(0)
    keys = (key,) if problem.is_stochastic else ()

    def total(solution: Any) -> Any:
        quality, behavior = problem.evaluate(solution, *keys)
        return quality + behavior.sum()

    try:
        jax.eval_shape(jax.grad(total), jax.eval_shape(problem.sample, key))
    except Exception as cause:
        return (
            f"it needs gradients, and evaluate of problem {problem.name!r} cannot be "
            f"differentiated ({str(cause).rstrip('.')}); use squad, dns or "
            "sep_cma_mae, which need none"
        )
    return str(error)


def _iterations(method: Method) -> int:
    return method.config["run"]["iterations"]


def _limited(method: Method, cost: Cost | None, budget: int) -> Method:
    run = {k: v for k, v in method.config["run"].items() if k != "iterations"}
    method = method._replace(
        config={**method.config, "run": {**run, "evaluations": budget}}
    )
    if cost and cost.start + cost.step > budget:
        reason = (
            f"evaluations={budget} do not suffice for a first population and one "
            f"iteration, {cost.start} + {cost.step}"
        )
        return method._replace(algorithm=None, error=reason)
    return method
