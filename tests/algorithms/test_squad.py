"""SQUAD with nothing set: any quality, any unit, with gradients and without."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.tree_util import Partial

import softqd
from softqd.algorithms import _squad
from softqd.algorithms._bandwidth import ANNEALING
from softqd.algorithms._pace import REACH
from softqd.algorithms._steps import GUESS, measured_steps
from softqd.metrics import vendi_score

SETTINGS = {"population_size": 48, "num_neighbors": 7}


def bounded(scale=1.0, quality=1.0, order=(0, 1, 2), unit=1.0, offset=0.0):
    """Three behaviors between -scale and scale, the third in a narrow part of it."""
    numbers = jnp.array(
        [scale, quality, unit, offset]
    )  # arguments: one program for all
    evaluate = Partial(evaluate_bounded, numbers, jnp.array(order))
    return softqd.Problem(evaluate, Partial(drawn, numbers[2], 6), (-scale, scale))


def evaluate_bounded(numbers, order, y):
    scale, quality, unit, offset = numbers
    x = y / unit
    behavior = scale * jnp.array([1.0, 1.0, 0.1]) * jnp.tanh(x[:3])
    value = 1.0 / (1.0 + jnp.sum((x - 0.3) ** 2) / 6)
    return quality * value + offset, behavior[order]


def drawn(unit, dim, key):
    return unit * jax.random.normal(key, (dim,))


def unbounded(scale=1.0, quality=1.0, order=(0, 1), unit=1.0):
    """Two behaviors without bounds, one of them a hundred times the other."""

    numbers = jnp.array([scale, quality, unit])
    evaluate = Partial(evaluate_unbounded, numbers, jnp.array(order))
    return softqd.Problem(evaluate, Partial(drawn, numbers[2], 5))


def evaluate_unbounded(numbers, order, y):
    scale, quality, unit = numbers
    x = y / unit
    behavior = scale * jnp.stack([x[0] + x[1] ** 2, 100.0 * x[2]])
    return quality * jnp.exp(-jnp.sum(x**2) / 8), behavior[order]


def after(problem, start=None, steps=12, **settings):
    algorithm = softqd.squad(problem, **{**SETTINGS, **settings})
    result = softqd.run(algorithm, seed=3, num_iterations=steps, solutions=start)
    return np.asarray(result.population.solutions)


def history(problem, steps=120, seed=1, log_every=10, **settings):
    algorithm = softqd.squad(problem, **{"population_size": 128, **settings})
    return softqd.run(algorithm, seed=seed, num_iterations=steps, log_every=log_every)


# --- units --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("problem", [bounded, unbounded])
@pytest.mark.parametrize("change", [{"scale": 2.0**10}, {"quality": 2.0**-10}])
def test_units_of_quality_and_behavior_do_not_matter(problem, change):
    np.testing.assert_allclose(after(problem(**change)), after(problem()), atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("problem", [bounded, unbounded])
@pytest.mark.parametrize("unit", [2.0**-10, 2.0**10])
def test_units_of_solutions_do_not_matter(problem, unit):
    """Not at all: powers of two do not round."""
    np.testing.assert_array_equal(after(problem(unit=unit)) / unit, after(problem()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "order"), [(bounded, (2, 0, 1)), (unbounded, (1, 0))]
)
def test_the_order_of_behaviors_does_not_matter(problem, order):
    found = after(problem(order=order))
    # Each solution's own direction out of a shared place is drawn, and not used here.
    np.testing.assert_allclose(found, after(problem()), atol=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_first_guess_of_a_step_does_not_matter(factor, monkeypatch):
    problem = softqd.problems.arm()
    scores = [spread_and_quality(problem, seed=[1, 2, 3])]
    steps = lambda: measured_steps(factor * GUESS)  # noqa: E731
    monkeypatch.setattr(_squad, "measured_steps", steps)
    scores.append(spread_and_quality(problem, seed=[1, 2, 3]))
    np.testing.assert_allclose(scores[1], scores[0], rtol=0.05)


def spread_and_quality(problem, **settings):
    runs = history(problem, steps=100, **settings)
    populations = [run.population for run in runs]
    quality = np.mean([p.quality.mean() for p in populations])
    spread = np.mean([p.behavior.std(0).mean() for p in populations])
    return quality, spread


# --- the level ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("offset", [-1.0, -2.0, -1000.0])
def test_a_negative_quality_spreads_as_any_other(offset):
    reference = history(bounded(offset=-1.0)).population.behavior.std(0)
    found = history(bounded(offset=offset)).population.behavior.std(0)
    np.testing.assert_allclose(found, reference, rtol=0.3 if offset < -100 else 0.05)
    positive = history(bounded()).population.behavior.std(0)
    assert (found > 0.6 * positive).all()


@pytest.mark.slow
def test_one_terrible_first_solution_changes_nothing():
    problem = bounded(offset=-0.6)
    key = jax.random.key(0)
    start = jax.vmap(problem.sample)(jax.random.split(key, 128))

    def cliff(x):
        quality, behavior = problem.evaluate(x)
        return jnp.where(x[5] > 50.0, -1e5, quality), behavior

    steep = dataclasses.replace(problem, evaluate=cliff)
    terrible = start.at[7, 5].set(60.0)
    algorithm = softqd.squad(steep, population_size=128)
    found = softqd.run(algorithm, num_iterations=100, solutions=terrible).population
    usual = softqd.run(algorithm, num_iterations=100, solutions=start).population
    assert np.median(found.quality) > np.median(usual.quality) - 0.05
    spread = np.percentile(found.behavior, 75, axis=0)
    np.testing.assert_allclose(
        spread, np.percentile(usual.behavior, 75, axis=0), rtol=0.3
    )


def test_the_level_of_the_problem_is_used():
    low = dataclasses.replace(bounded(), quality_level=-5.0)
    state = jax.jit(softqd.squad(low, **SETTINGS).init)(jax.random.key(0))
    assert float(state.level) == -5.0


def test_where_no_solution_shines_all_climb():
    dark = dataclasses.replace(bounded(), quality_level=100.0)
    with pytest.warns(UserWarning, match="no solution is better than the level 100 "):
        found = history(dark)
    assert found.history["lit"][-1] == 0
    assert found.population.quality.min() > 0.95


# --- the bandwidth and the pace -----------------------------------------------------


def test_overlap_follows_its_target():
    problem = softqd.problems.linear_projection(4, solution_dim=64)
    found = history(problem, overlap=0.05).history
    wanted = 0.05 * ANNEALING ** (1 - (found["iteration"][1:] - 1) / 119)
    np.testing.assert_allclose(found["overlap"][1:], wanted, rtol=0.25)


def test_a_bandwidth_of_the_user_stays():
    found = history(bounded(), steps=20, gamma_sq=0.3).history["gamma_sq"]
    np.testing.assert_allclose(found[1:], 0.3, rtol=1e-6)


@pytest.mark.slow
def test_bandwidth_does_not_oscillate():
    problem = softqd.problems.linear_projection(8, solution_dim=64)
    found = history(problem, steps=200, log_every=1).history
    steps = np.diff(np.log(found["gamma_sq"][100:]))
    # It falls with its target; single iterations, where children have moved, by little.
    assert (steps < 0).mean() > 0.6
    assert -np.log(ANNEALING) < steps.sum() < 0
    assert np.abs(steps).max() < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("problem", [bounded(), unbounded()])
def test_steps_end_within_a_part_of_the_bandwidth(problem):
    fast = optax.adam(0.5)
    algorithm = softqd.squad(problem, population_size=128, optimizer=fast)
    step, steps = jax.jit(algorithm.step), 100
    state = algorithm.plan(jax.jit(algorithm.init)(jax.random.key(0)), steps, None)
    for _ in range(steps - 1):
        state, _ = step(state)
    last, info = step(state)
    dim = state.behavior.shape[1]
    low, high = problem.bounds(dim)
    width = np.where(np.isfinite(high - low), high - low, 1.0)[None]
    unit = np.asarray(state.behavior) / width
    moved = (np.asarray(last.behavior) / width - unit) / unit.std(0, keepdims=True)
    moved = np.median((moved**2).sum(1)) ** 0.5  # children go anywhere
    assert info.pace < 0.9
    assert moved < 1.5 * REACH * float(info.gamma_sq) ** 0.5


@pytest.mark.slow
def test_overlap_trades_quality_for_diversity_without_a_cliff():
    problem = softqd.problems.linear_projection(4, solution_dim=64)
    quality, diversity = [], []
    low, high = problem.bounds(4)
    for overlap in 0.012 * 100 ** np.linspace(0, 1, 4):
        runs = history(problem, steps=80, seed=[1, 2, 3], overlap=float(overlap))
        found = [run.population for run in runs]
        quality.append(np.mean([x.quality.mean() for x in found]))
        units = [(np.asarray(x.behavior) - low) / (high - low) for x in found]
        diversity.append(np.mean([vendi_score(x) for x in units]))
    assert (np.diff(quality) < 0).all()
    # It saturates where the space is filled.
    assert (np.diff(diversity)[:2] > 1).all()
    assert diversity[3] > 0.95 * diversity[2]
    assert min(quality) > 0.6 * max(quality)
    assert max(np.diff(np.log(diversity))) < 1.0


# --- sizes, budgets, odd problems ---------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("problem", [bounded(), unbounded()])
def test_size_changes_nothing_abruptly(problem):
    quality, width = [], []
    for size in (16, 64, 256):
        runs = history(problem, steps=60, seed=[1, 2, 3], population_size=size)
        quality.append(np.mean([run.population.quality.mean() for run in runs]))
        behavior = np.concatenate([run.population.behavior for run in runs])
        quarters = np.percentile(behavior, [25, 75], axis=0)
        width.append(quarters[1] - quarters[0])
    assert min(quality) > 0.6 * max(quality)
    # Four times the solutions need at most four times the room.
    growth = np.divide(width[1:], width[:-1])
    assert (growth > 0.5).all()
    assert (growth < 4).all()


@pytest.mark.slow
def test_batches_change_nothing():
    in_batches = after(bounded(), steps=4, batch_size=20)  # of 48: the last is smaller
    np.testing.assert_allclose(in_batches, after(bounded(), steps=4), atol=1e-5)


@pytest.mark.slow
def test_batches_take_less_memory():
    """What an evaluation keeps for its gradient, 256 numbers for each of 6."""

    def evaluate(x):
        wide = jnp.outer(jnp.linspace(0.5, 1.5, 256), x)
        return 2.0 + jnp.sin(wide).mean(), jax.nn.sigmoid(jnp.cos(wide).mean(0)[:2])

    def temporary(batch_size):
        wide = softqd.Problem(
            evaluate, lambda key: jax.random.normal(key, (6,)), (0, 1)
        )
        sizes = {"population_size": 128, "batch_size": batch_size}
        algorithm = softqd.squad(wide, **sizes)
        state = jax.eval_shape(algorithm.init, jax.random.key(0))
        compiled = jax.jit(algorithm.step).lower(state).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    kept = 4 * 128 * 6 * 256
    assert temporary(8) < kept / 2
    assert temporary(None) > kept


@pytest.mark.slow
@pytest.mark.parametrize("problem", [bounded(), unbounded()])
def test_coinciding_solutions_part(problem):
    start = jnp.full((128, 6 if problem.behavior_bounds else 5), 0.1)
    algorithm = softqd.squad(problem, population_size=128)
    result = softqd.run(algorithm, seed=1, num_iterations=150, solutions=start)
    drawn = history(problem, steps=150).population.behavior
    behavior = np.asarray(result.population.behavior)
    assert (behavior.std(0) > 0.3 * np.asarray(drawn).std(0)).all()


@pytest.mark.slow
def test_a_constant_behavior_and_a_doubled_one_are_harmless():
    plain = bounded()

    def evaluate(x):
        quality, behavior = plain.evaluate(x)
        return quality, jnp.stack([behavior[0], behavior[0], behavior[1], 0.5])

    odd = softqd.Problem(evaluate, plain.sample, (-1, 1))
    found, usual = history(odd).population, history(plain).population
    assert found.quality.mean() > 0.8 * usual.quality.mean()
    spread = np.asarray(found.behavior).std(0)
    assert (spread[[0, 2]] > 0.5 * np.asarray(usual.behavior).std(0)[:2]).all()


def test_only_constant_behaviors_leave_the_ascent_alone():
    plain = bounded()
    constant = softqd.Problem(
        lambda x: (plain.evaluate(x)[0], jnp.zeros(2)), plain.sample, (-1, 1)
    )
    with pytest.warns(UserWarning, match="one and the same behavior"):
        found = history(constant)
    assert found.population.quality.min() > 0.99


@pytest.mark.parametrize("steps", [0, 1, 2, 50])
def test_any_budget_will_do(steps):
    result = history(bounded(), steps=steps)
    assert np.isfinite(result.population.quality).all()


def test_the_schedule_follows_a_budget_of_evaluations():
    algorithm = softqd.squad(bounded(), **SETTINGS)
    by_count = softqd.run(algorithm, seed=1, num_iterations=10)
    # Five at the start, then 48 solutions and 6 children.
    budget = 48 * 5 + 10 * 54 + 5
    by_evaluations = softqd.run(algorithm, seed=1, max_evaluations=budget)
    assert by_evaluations.history["evaluations"][-1] == budget - 5
    np.testing.assert_array_equal(
        by_count.population.quality, by_evaluations.population.quality
    )


# --- what is not finite -------------------------------------------------------------


def test_long_runs_spread_first_and_polish_last():
    at = (0, 8800, 9399.5, 9999)
    found = [float(_squad.progress_at(i, 10_000)) for i in at]
    assert found == pytest.approx([0.0, 0.0, 0.5, 1.0], abs=1e-6)


def test_solutions_step_back_from_where_nothing_is_finite():
    def evaluate(x):
        return jnp.where(x[0] < 1.0, 1.0 + x[0], jnp.nan), jnp.tanh(x[:2])

    def sample(key):
        return jax.random.uniform(key, (2,), minval=-1.0, maxval=0.9)

    problem = softqd.Problem(evaluate, sample, (-1.0, 1.0))
    optimizer = optax.sgd(0.2)
    result = history(problem, steps=40, log_every=1, optimizer=optimizer)
    assert result.history["stepped_back"][1:].max() > 0
    assert np.isfinite(result.population.quality).all()
    assert result.population.quality.max() > 1.9


def test_children_that_are_not_finite_lose():
    def evaluate(x):
        return jnp.where(x[0] < 1.0, 1.0 + x[0], jnp.nan), jnp.tanh(x[:2])

    problem = softqd.Problem(
        evaluate,
        lambda key: jax.random.uniform(key, (2,), minval=-1.0, maxval=0.99),
        (-1.0, 1.0),
        is_differentiable=False,
    )
    result = history(problem, steps=40, log_every=1)
    assert result.history["rejected"][1:].sum() > 0
    assert np.isfinite(result.population.quality).all()


def test_nothing_finite_at_all_ends_the_run():
    def evaluate(x):
        return jnp.sqrt(jnp.minimum(x[0], 0.0) * 0.0) + x[1], jnp.tanh(x)

    problem = softqd.Problem(
        evaluate, lambda key: jax.random.normal(key, (2,)), (-1, 1)
    )
    with pytest.raises(softqd.NonFiniteError, match="is not finite"):
        history(problem, steps=3)


# --- gradients ----------------------------------------------------------------------


def recording():
    """An optimizer that stays where it is and remembers what it was handed."""
    return optax.GradientTransformation(
        lambda params: jax.tree.map(jnp.zeros_like, params),
        lambda updates, _, params: (jax.tree.map(jnp.zeros_like, params), updates),
    )


@pytest.mark.parametrize("slope", [1e-3, 1.0, 1e3])
def test_gradients_come_in_units_of_the_population(slope):
    def evaluate(x):
        return 1.0 + slope * (jnp.sum(x["a"] ** 2) + x["b"]), jnp.tanh(x["a"][:2])

    def sample(key):
        return {"a": jax.random.normal(key, (3,)), "b": jnp.float32(0.5)}

    problem = softqd.Problem(evaluate, sample, (-1.0, 1.0))
    algorithm = softqd.squad(problem, optimizer=recording(), **SETTINGS)
    gradient = jax.jit(algorithm.init)(jax.random.key(0)).gradient
    rows = np.concatenate([gradient["a"], gradient["b"][:, None]], axis=1)
    assert np.sqrt(np.mean(rows**2)) == pytest.approx(1.0, rel=1e-5)


def test_gradient_is_that_of_the_written_out_objective(x64):
    """Quality less overlaps with the nearest, with quality there held constant."""
    problem = bounded()
    algorithm = softqd.squad(problem, optimizer=recording(), **SETTINGS)
    state = jax.jit(algorithm.init)(jax.random.key(2))
    unit = (np.asarray(state.behavior) + 1) / 2
    center, spread = unit.mean(0), np.maximum(unit.std(0), 0.01)
    z_all = (unit - center) / spread
    root = np.sqrt(np.asarray(state.quality))

    def own(x, i):
        quality, behavior = problem.evaluate(x)
        z = ((behavior + 1) / 2 - center) / spread
        dist_sq = jnp.sum((z[None] - z_all) ** 2, axis=1)
        near = np.argsort(((z_all[i] - z_all) ** 2).sum(1))[1:8]
        kernel = jnp.exp(-dist_sq[near] / state.gamma_sq)
        return quality - root[i] * jnp.sum(root[near] * kernel)

    expected = np.stack([jax.grad(own)(x, i) for i, x in enumerate(state.solutions)])
    expected /= np.sqrt((expected**2).mean())
    np.testing.assert_allclose(state.gradient, expected, atol=1e-5)


def test_evaluations_are_counted_by_what_a_step_is_made_of():
    state, info = first_step(bounded())
    assert int(state.init_evaluations) == 48 * 5
    assert int(state.init_gradient_evaluations) == 48
    assert int(state.init_vector_jacobian_products) == 48 * 2
    counts = info.evaluations, info.gradient_evaluations, info.vector_jacobian_products
    assert list(map(int, counts)) == [54, 48, 48]
    flat = dataclasses.replace(bounded(), is_differentiable=False)
    state, info = first_step(flat)
    assert int(state.init_evaluations) == 48
    assert [int(info.evaluations), int(info.gradient_evaluations)] == [6, 0]


def first_step(problem, **settings):
    algorithm = softqd.squad(problem, **{**SETTINGS, **settings})
    return jax.jit(algorithm.step)(jax.jit(algorithm.init)(jax.random.key(0)))


# --- without gradients --------------------------------------------------------------


def rounded_arm():
    arm = softqd.problems.arm()

    def evaluate(x):
        quality, behavior = arm.evaluate(x)
        return jnp.round(quality, 3), jnp.round(behavior, 4)

    return dataclasses.replace(arm, evaluate=evaluate)


@pytest.mark.slow
@pytest.mark.usefixtures("optimized_programs")
def test_without_gradients_it_passes_dns():
    """At as many evaluations, on a problem whose gradient is zero everywhere."""
    problem = dataclasses.replace(rounded_arm(), is_differentiable=False)
    scores = []
    for build in (softqd.squad, softqd.dns):
        algorithm = build(problem, population_size=256)
        result = softqd.run(algorithm, max_evaluations=60_000)
        found = softqd.metrics.evaluate_population(
            result.population, problem.bounds(2), cells=128
        )
        scores.append(found["qd_score"])
    assert scores[0] > scores[1]


def test_a_missing_gradient_is_found_and_said():
    algorithm = softqd.squad(rounded_arm(), **SETTINGS)
    with pytest.warns(
        UserWarning, match="has no gradient: squad goes on with children"
    ):
        state = algorithm.init(jax.random.key(0))
    assert state.steps == ()


@pytest.mark.slow
def test_luck_does_not_keep_a_place():
    """Noise of 10 in the quality: the best of many draws would seem 30 too good."""
    arm = softqd.problems.arm()

    def evaluate(x, key):
        quality, behavior = arm.evaluate(x)
        return quality + 10.0 * jax.random.normal(key), behavior

    noisy = softqd.Problem(evaluate, arm.sample, (-1.0, 1.0), is_differentiable=False)
    population = history(noisy, steps=400).population
    true = jax.vmap(arm.evaluate)(population.solutions)[0]
    assert (np.asarray(population.quality) - true).mean() < 5.0
    assert true.mean() > 85.0


# --- settings -----------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["overlap", "gamma_sq"])
def test_widths_must_be_positive(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a positive number"):
        softqd.squad(bounded(), **{name: value})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"population_size": 1}, "population_size must be a whole number at least 2"),
        ({"num_neighbors": 0}, "num_neighbors must be a whole number at least 1"),
        ({"batch_size": 0}, "batch_size must be a whole number at least 1"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        softqd.squad(bounded(), **settings)
