"""SQUAD: Soft QD Using Approximated Diversity, with nothing to tune.

Quality pulls and behavioral neighbors push apart, as in Algorithm 1 of Soft Quality-
Diversity Optimization (ICLR 2026), which `_squad_published.py` follows to the letter.
Here the method is put together from parts that set themselves: a level from which
quality is measured, a bandwidth, steps, a pace that holds them back, and children that
take places which they fill better. The whole population steps at once, and the
evaluation after a step is the one that the next gradient is taken at: one per solution
and iteration.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from softqd.algorithms._assembly import assemble, everyone, given
from softqd.algorithms._bandwidth import (
    Bandwidth,
    coordinates,
    fixed_bandwidth,
    mean_overlap,
    steered_bandwidth,
)
from softqd.algorithms._climb import Climbed, Standing, climb
from softqd.algorithms._pace import Pace, steered_pace
from softqd.algorithms._relocation import (
    Places,
    Relocation,
    RelocationState,
    is_due,
    relocation,
)
from softqd.algorithms._steps import (
    Start,
    Steps,
    StepsState,
    measured_steps,
    optimizer_steps,
)
from softqd.objective import repulsion, safe_sqrt
from softqd.ops import evaluation
from softqd.ops.bounds import reflected
from softqd.ops.checks import check_count, is_concrete, rows_finite
from softqd.ops.expressions import Optimizer, as_optimizer
from softqd.ops.level import first_level
from softqd.ops.precision import narrowed, widened
from softqd.ops.start import evaluate_first, first_solutions
from softqd.types import Algorithm, Evaluation, Key, Problem

# Iterations that schedules take a run for whose length is not known.
HORIZON = 1000
# Schedules take at most so many iterations, the last of a run: what comes before is
# spent on spreading. Polished for longer, solutions draw back from the rim of what can
# be reached.
POLISH = 1200
# Caution after a step that led nowhere, and after one that did not.
_HELD, _FREED = 0.5, 1.2


class SquadState(NamedTuple):
    """What the next iteration needs. Rows are solutions, in a fixed order."""

    key: Key
    iteration: Int[Array, ""]
    init_evaluations: Int[Array, ""]
    init_gradient_evaluations: Int[Array, ""]
    init_vector_jacobian_products: Int[Array, ""]
    solutions: PyTree
    quality: Float[Array, " n"]
    behavior: Float[Array, "n d"]
    gradient: PyTree  # upwards, at the solutions; () without gradients
    steps: Any  # a StepsState; () without gradients
    level: Float[Array, ""]
    gamma_sq: Float[Array, ""]
    pace: Float[Array, ""]
    children: RelocationState
    horizon: Int[Array, ""]  # iterations of the run, as far as known
    direction: Float[Array, "n d"]  # in which a solution leaves a place it shares


class SquadInfo(NamedTuple):
    """What a person wants to see of one iteration."""

    evaluations: Int[Array, ""]
    gradient_evaluations: Int[Array, ""]
    vector_jacobian_products: Int[Array, ""]
    is_finite: Bool[Array, " n"]
    gamma_sq: Float[Array, ""]
    overlap: Float[Array, ""]  # of the population with its neighbors
    lit: Float[Array, ""]  # share of solutions above the level
    pace: Float[Array, ""]
    relocated: Int[Array, ""]  # children that took a place
    rejected: Int[Array, ""]  # children whose evaluation was not finite
    stepped_back: Int[Array, ""]  # solutions whose step led to nothing finite


class Parts(NamedTuple):
    """What SQUAD is made of."""

    population_size: int
    batch_size: int
    num_neighbors: int
    bandwidth: Bandwidth
    pace: Pace
    steps: Steps


def squad(
    problem: Problem,
    *,
    population_size: int = 1024,
    overlap: float = 0.12,
    num_neighbors: int = 8,
    gamma_sq: float | None = None,
    optimizer: Optimizer | None = None,
    batch_size: int | None = None,
) -> Algorithm:
    r"""Find solutions that are all good and all different. Nothing needs to be set.

    Every iteration moves all solutions up the gradient of

    $\sum_i f_i - \sum_i \sum_{j \in N_i} \sqrt{f_i f_j} e^{-\|z_i-z_j\|^2/\gamma^2}$

    with neighbors, and $f_i$ inside the repulsion, held constant, $f$ measured from a
    level, and $z$ in standard deviations of the population. Then a few children are
    evaluated, and each takes the place of the solution nearest to it if it adds more
    light there. Where evaluate has no gradient, the method runs on children alone.

    Args:
        problem: The problem.
        population_size: N, at least 2.
        overlap: Diversity against quality: how much a solution and its neighbors
            overlap at the end of a run. Higher is more diverse, lower of higher
            quality; needs no change between problems. With more than 1024 solutions it
            is higher by the root of their number, so that more of them reach farther.
        num_neighbors: How many others repel a solution, at least 1.
        gamma_sq: Squared bandwidth, in squared standard deviations of the population.
            None: it sets itself, so that the overlap is met.
        optimizer: An optax optimizer that makes the steps, as they are, also as text,
            'adam(0.05)', or a learning rate of Adam; every solution has its own state.
            None: steps whose length is measured at the start.
        batch_size: Solutions evaluated at once. It limits memory and changes nothing
            else; with fewer than all, each is evaluated a second time for its gradient.
            None: all.

    Returns:
        An `Algorithm`. ``init`` also takes solutions to start from, N of them.

    Raises:
        ValueError: If a setting is out of range.

    Examples:
        >>> import jax, softqd
        >>> problem = softqd.problems.sphere(solution_dim=16)
        >>> algorithm = softqd.squad(problem, population_size=32)
        >>> state = algorithm.init(jax.random.key(0))
        >>> state, info = jax.jit(algorithm.step)(state)
        >>> int(info.evaluations)  # and four children
        36
    """
    settings = given(locals())
    _check_settings(settings)
    others = min(num_neighbors, population_size - 1)
    steered = gamma_sq is None
    parts = Parts(
        population_size=population_size,
        batch_size=min(batch_size or population_size, population_size),
        num_neighbors=others,
        bandwidth=steered_bandwidth(overlap, others, population_size)
        if steered
        else fixed_bandwidth(gamma_sq),
        pace=steered_pace(),
        steps=measured_steps()
        if optimizer is None
        else optimizer_steps(as_optimizer(optimizer)),
    )
    how = (_init, _step, everyone)
    algorithm = assemble("squad", problem, settings, parts, *how)
    return algorithm._replace(plan=lambda *limits: _plan(parts, problem, *limits))


def _plan(parts: Parts, problem: Problem, state: SquadState, iterations, evaluations):
    """Tell the state how long the run will be."""
    horizon = iterations
    if evaluations is not None:
        cost = _evaluations(parts, problem, bool(state.steps))
        spare = (evaluations - state.init_evaluations) // cost
        horizon = spare if horizon is None else jnp.minimum(horizon, spare)
    horizon = state.horizon if horizon is None else horizon
    return state._replace(horizon=jnp.full_like(state.horizon, horizon))


def _init(
    parts: Parts, problem: Problem, key: Key, solutions: PyTree = None
) -> SquadState:
    n, m = parts.population_size, parts.batch_size
    key, sample_key, evaluate_key, steps_key, leave_key = jax.random.split(key, 5)
    first, drawn = first_solutions(problem, sample_key, solutions, n, m)
    found, spent = evaluate_first(problem, first, evaluate_key, m)
    behavior = found.behavior
    to_z = coordinates(problem, behavior)
    state = SquadState(
        key=key,
        iteration=jnp.int32(0),
        init_evaluations=jnp.int32(drawn + spent),
        init_gradient_evaluations=jnp.int32(0),
        init_vector_jacobian_products=jnp.int32(0),
        solutions=first,
        quality=found.quality,
        behavior=behavior,
        gradient=(),
        steps=(),
        level=first_level(problem, found.quality),
        gamma_sq=parts.bandwidth.init(to_z(behavior)),
        pace=parts.pace.init().astype(behavior.dtype),
        children=_crew(parts, True).init(),
        horizon=jnp.int32(HORIZON),
        direction=jax.random.normal(leave_key, behavior.shape, behavior.dtype),
    )
    if not has_gradient(problem, first):
        return state
    climbed = _climb(parts, problem, state, first, evaluate_key, with_slope=True)
    start = Start(
        solutions=widened(first),
        quality=found.quality,
        gradient=climbed.slope,
        evaluate=lambda x: (
            evaluation.evaluate(
                problem, reflected(problem, narrowed(x, first)), evaluate_key, m
            ).quality
        ),
    )
    return state._replace(
        gradient=climbed.gradient,
        steps=parts.steps.init(steps_key, start),
        init_evaluations=state.init_evaluations + n * (1 + parts.steps.num_trials),
        init_gradient_evaluations=jnp.int32(n),
        init_vector_jacobian_products=jnp.int32(2 * n),  # and of quality alone
    )


class _Moved(NamedTuple):
    """The population after a step: rows, and coordinates of the bandwidth."""

    solutions: PyTree
    found: Evaluation
    z: Float[Array, "n d"]
    overlap: Float[Array, " n"]
    stepped_back: Int[Array, ""]


class _Relocated(NamedTuple):
    """The population after children took their places."""

    solutions: PyTree
    found: Evaluation
    gradient: PyTree
    steps: PyTree
    relocated: Int[Array, ""]
    rejected: Int[Array, ""]


def _step(
    parts: Parts, problem: Problem, state: SquadState
) -> tuple[SquadState, SquadInfo]:
    n, is_climbing = parts.population_size, bool(state.steps)
    key, step_key, children_key = jax.random.split(state.key, 3)
    progress = progress_at(state.iteration, state.horizon).astype(state.pace.dtype)
    to_z = coordinates(problem, state.behavior)
    if is_climbing:
        moved, inherited = _take_step(parts, problem, state, step_key, progress)
    else:
        moved, inherited = _refreshed(parts, problem, state, step_key), ((), ())
    overlap = mean_overlap(moved.overlap)
    distance = (moved.z - to_z(state.behavior)) ** 2
    distance = jnp.sqrt(jnp.sum(distance, axis=1).mean())
    is_lit = moved.found.quality > state.level
    next_gamma_sq = parts.bandwidth.update(state.gamma_sq, overlap, progress)
    crew = _crew(parts, is_climbing)
    new = _relocate(parts, problem, state, crew, moved, inherited, children_key)
    new_state = state._replace(
        key=key,
        iteration=state.iteration + 1,
        solutions=new.solutions,
        quality=new.found.quality,
        behavior=new.found.behavior,
        gradient=new.gradient,
        steps=new.steps,
        # Where no solution shines, none overlaps, at any bandwidth.
        gamma_sq=jnp.where(is_lit.any(), next_gamma_sq, state.gamma_sq),
        pace=parts.pace.update(state.pace, distance, state.gamma_sq, progress),
        children=crew.update(state.children, new.relocated),
    )
    saved = jnp.where(is_due(state.children), 0, crew.num_children)
    num_gradients = jnp.int32(n if is_climbing else 0)
    info = SquadInfo(
        evaluations=jnp.int32(_evaluations(parts, problem, is_climbing) - saved),
        gradient_evaluations=num_gradients,
        vector_jacobian_products=num_gradients,
        is_finite=jnp.full((n,), moved.stepped_back < n),
        gamma_sq=state.gamma_sq,
        overlap=overlap,
        lit=is_lit.mean(dtype=state.pace.dtype),
        pace=state.pace,
        relocated=new.relocated,
        rejected=new.rejected,
        stepped_back=moved.stepped_back,
    )
    return new_state, info


def progress_at(
    iteration: Int[Array, ""] | int, horizon: Int[Array, ""] | int
) -> Float[Array, ""]:
    """How far schedules are, from 0 to 1, in an iteration of a run of this length.

    Examples:
        >>> [float(progress_at(i, 101)) for i in (0, 50, 100, 200)]
        [0.0, 0.5, 1.0, 1.0]
    """
    length = jnp.minimum(horizon, POLISH)
    done = iteration - (horizon - length)
    return jnp.clip(done / jnp.maximum(length - 1, 1), 0.0, 1.0)


def _take_step(
    parts: Parts, problem: Problem, state: SquadState, key: Key, progress: Array
) -> tuple[_Moved, tuple[PyTree, StepsState]]:
    """Move all solutions; those that nothing finite comes of step back.

    Returns:
        The population, and gradients and steps that go with it.
    """
    where = widened(state.solutions)
    updates, steps = parts.steps.update(
        state.gradient, state.steps, where, progress, state.horizon
    )
    updates = jax.tree.map(lambda u: u * state.pace.astype(u.dtype), updates)
    proposed = jax.tree.map(lambda x, u: x + u.astype(x.dtype), where, updates)
    proposed = reflected(problem, narrowed(proposed, state.solutions))
    climbed = _climb(parts, problem, state, proposed, key)
    is_sound = climbed.is_sound

    def kept(new, old):
        return jnp.where(is_sound.reshape((-1,) + (1,) * (new.ndim - 1)), new, old)

    caution = jnp.where(is_sound, _FREED, _HELD) * steps.caution
    steps = steps._replace(
        moments=jax.tree.map(kept, steps.moments, state.steps.moments),
        caution=jnp.minimum(caution, 1.0),
    )
    solutions = jax.tree.map(kept, proposed, state.solutions)
    found = jax.tree.map(kept, climbed.found, Evaluation(state.quality, state.behavior))
    gradient = jax.tree.map(kept, climbed.gradient, state.gradient)
    stepped_back = (~is_sound).sum()
    moved = _Moved(solutions, found, climbed.z, climbed.overlap, stepped_back)
    return moved, (gradient, steps)


def _climb(
    parts: Parts,
    problem: Problem,
    state: SquadState,
    solutions: PyTree,
    key: Key,
    **how,
) -> Climbed:
    found = Evaluation(state.quality, state.behavior)
    standing = Standing(found, state.level, state.gamma_sq, state.direction)
    sizes = parts.num_neighbors, parts.batch_size
    return climb(problem, standing, solutions, key, *sizes, **how)


def _crew(parts: Parts, is_climbing: bool) -> Relocation:
    return relocation(parts.population_size, is_alone=not is_climbing)


class _Children(NamedTuple):
    """A round of children."""

    solutions: PyTree
    found: Evaluation
    parents: Int[Array, " c"]  # their rows
    rows: Int[Array, " c"]  # that children take; n where they take none
    rejected: Int[Array, ""]


def _relocate(
    parts: Parts,
    problem: Problem,
    state: SquadState,
    crew: Relocation,
    moved: _Moved,
    inherited: tuple[PyTree, Any],
    key: Key,
) -> _Relocated:
    """Put children, if a round of them is due, where they fill places better."""
    gradient, steps = inherited

    def make() -> _Children:
        return _make_children(parts, problem, state, crew, moved, key)

    def none() -> _Children:
        shapes = jax.eval_shape(make)
        empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        return empty._replace(rows=jnp.full_like(empty.rows, parts.population_size))

    # Only children pass through the branch: where seeds run together it computes both.
    young = jax.lax.cond(is_due(state.children), make, none) if steps else make()

    def put(old, new):
        return old.at[young.rows].set(new.astype(old.dtype), mode="drop")

    solutions, found = jax.tree.map(
        put, (moved.solutions, moved.found), (young.solutions, young.found)
    )
    if steps:  # the parent's gradient and moments come along
        own = gradient, steps.moments, steps.caution
        own = jax.tree.map(lambda x: put(x, x[young.parents]), own)
        gradient, steps = own[0], steps._replace(moments=own[1], caution=own[2])
    relocated = (young.rows < parts.population_size).sum()
    return _Relocated(solutions, found, gradient, steps, relocated, young.rejected)


def _make_children(
    parts: Parts,
    problem: Problem,
    state: SquadState,
    crew: Relocation,
    moved: _Moved,
    key: Key,
) -> _Children:
    propose_key, evaluate_key = jax.random.split(key)
    children, parents = crew.propose(propose_key, moved.solutions)
    children = reflected(problem, children)
    new = evaluation.evaluate(problem, children, evaluate_key, parts.batch_size)
    is_sound = rows_finite(new)
    to_z = coordinates(problem, state.behavior)
    z = to_z(jnp.where(is_sound[:, None], new.behavior, 0.0))

    def light(quality):
        return jnp.maximum(quality - state.level, 0.0)

    places = Places(moved.z, light(moved.found.quality))
    theirs = Places(z, jnp.where(is_sound, light(new.quality), 0.0))
    rows = crew.compete(places, theirs, state.gamma_sq)
    return _Children(children, new, parents, rows, (~is_sound).sum())


def _refreshed(parts: Parts, problem: Problem, state: SquadState, key: Key) -> _Moved:
    """The population without a step; of a stochastic problem, some evaluated again."""
    found = Evaluation(state.quality, state.behavior)
    if problem.is_stochastic:
        found = _evaluated_again(parts, problem, state, key)
    z = coordinates(problem, state.behavior)(found.behavior)
    root = safe_sqrt(found.quality - state.level)
    rows, widths = jnp.arange(len(root)), jnp.full_like(root, state.gamma_sq)
    overlap = repulsion(z, rows, z, root, widths, parts.num_neighbors).overlap
    overlap /= jnp.where(root.max() > 0, root.mean(), 1.0)
    return _Moved(state.solutions, found, z, overlap, jnp.int32(0))


def _evaluated_again(
    parts: Parts, problem: Problem, state: SquadState, key: Key
) -> Evaluation:
    """As many as there are children, in turn: luck does not keep a place."""
    n, count = parts.population_size, _crew(parts, False).num_children
    rows = (state.iteration * count + jnp.arange(count)) % n
    some = jax.tree.map(lambda x: x[rows], state.solutions)
    new = evaluation.evaluate(problem, some, key, parts.batch_size)
    rows = jnp.where(rows_finite(new), rows, n)
    old = Evaluation(state.quality, state.behavior)
    return jax.tree.map(lambda x, y: x.at[rows].set(y, mode="drop"), old, new)


def has_gradient(problem: Problem, solutions: PyTree) -> bool:
    """Whether SQUAD climbs: as declared, or as tracing the gradient tells."""
    if problem.is_differentiable is not None:
        return problem.is_differentiable
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), solutions)
    is_so = evaluation.is_differentiable(problem, one)
    if not is_so:
        warnings.warn(
            f"evaluate of problem {problem.name!r} has no gradient: squad goes on with "
            "children alone, which need many more evaluations. Say so with "
            "Problem(is_differentiable=False), or write evaluate with operations that "
            "JAX differentiates",
            stacklevel=2,
        )
    return is_so


def _evaluations(parts: Parts, problem: Problem, is_climbing: bool) -> int:
    """Of one iteration with a round of children."""
    children = _crew(parts, is_climbing).num_children
    if is_climbing:
        return parts.population_size + children
    return 2 * children if problem.is_stochastic else children


def _check_settings(settings: dict[str, Any]) -> None:
    check_count("population_size", settings["population_size"], 2)
    check_count("num_neighbors", settings["num_neighbors"], 1)
    if settings["batch_size"] is not None:
        check_count("batch_size", settings["batch_size"], 1)
    for name in ("overlap", "gamma_sq"):
        value: Any = settings[name]
        if name == "gamma_sq" and value is None:
            continue
        if is_concrete(value) and not (np.ndim(value) == 0 and 0 < value < np.inf):
            raise ValueError(f"{name} must be a positive number; got {value!r}")
