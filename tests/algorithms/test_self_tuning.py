"""SQUAD without a gamma_sq: invariant, steered to its target, without a cliff."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import softqd
from softqd.algorithms._bandwidth import (
    ANNEALING,
    REACH,
    annealed,
    first_gamma_sq,
    mean_overlap,
    overlap_slope,
    scale_of,
    steer_gamma_sq,
    steer_pace,
)
from softqd.metrics import vendi_score

SETTINGS = {"population_size": 48, "batch_size": 48, "num_neighbors": 7}


def bounded(scale=1.0, quality=1.0, order=(0, 1, 2)):
    """Three behaviors between -scale and scale, the third in a narrow part of it."""
    narrow = jnp.array([1.0, 1.0, 0.1])

    def evaluate(x):
        behavior = scale * narrow * jnp.tanh(x[:3])
        value = 1.0 / (1.0 + jnp.sum((x - 0.3) ** 2) / 6)
        return quality * value, behavior[jnp.array(order)]

    return softqd.Problem(
        evaluate, lambda key: jax.random.normal(key, (6,)), (-scale, scale)
    )


def unbounded(scale=1.0, quality=1.0, order=(0, 1)):
    """Two behaviors without bounds, one of them a hundred times the other."""

    def evaluate(x):
        behavior = scale * jnp.stack([x[0] + x[1] ** 2, 100.0 * x[2]])
        value = jnp.exp(-jnp.sum(x**2) / 8)
        return quality * value, behavior[jnp.array(order)]

    return softqd.Problem(evaluate, lambda key: jax.random.normal(key, (5,)))


def after(problem, start=None, steps=12, **settings):
    algorithm = softqd.squad(problem, **{**SETTINGS, **settings})
    result = softqd.run(algorithm, seed=3, num_iterations=steps, solutions=start)
    return np.asarray(result.population.solutions)


@pytest.mark.parametrize("problem", [bounded, unbounded])
@pytest.mark.parametrize("change", [{"scale": 1000.0}, {"quality": 0.001}])
def test_units_do_not_matter(problem, change):
    np.testing.assert_allclose(after(problem(**change)), after(problem()), atol=2e-3)


@pytest.mark.parametrize(
    ("problem", "order"), [(bounded, (2, 0, 1)), (unbounded, (1, 0))]
)
def test_the_order_of_behaviors_does_not_matter(problem, order):
    np.testing.assert_allclose(after(problem(order=order)), after(problem()), atol=2e-3)


@pytest.mark.parametrize("problem", [bounded(), unbounded()])
def test_the_order_of_solutions_does_not_matter(problem):
    keys = jax.random.split(jax.random.key(5), SETTINGS["population_size"])
    start = jax.vmap(problem.sample)(keys)
    order = np.random.default_rng(0).permutation(len(start))
    moved = after(problem, start[order])
    np.testing.assert_allclose(moved, after(problem, start)[order], atol=2e-3)


def test_mean_overlap_of_equal_members_is_theirs():
    assert float(mean_overlap(jnp.full(5, 0.7))) == pytest.approx(0.7, rel=1e-6)
    # Shares 1 and 1/4: mean 5/8, which is the share of an overlap of 3/5.
    assert float(mean_overlap(jnp.array([0.0, 3.0]))) == pytest.approx(0.6)


def test_target_falls_by_the_same_factor_every_iteration():
    at = [float(annealed(0.25, jnp.int32(i), jnp.int32(4))) for i in range(5)]
    factor = ANNEALING ** (1 / 3)
    wanted = [0.25 * factor**3, 0.25 * factor**2, 0.25 * factor, 0.25, 0.25]
    np.testing.assert_allclose(at, wanted, rtol=1e-5)


@pytest.mark.parametrize("horizon", [0, 1])
def test_target_of_a_run_without_a_future_is_the_first(horizon):
    target = annealed(0.5, jnp.int32(0), jnp.int32(horizon))
    assert float(target) == pytest.approx(0.5 * ANNEALING)


def test_first_bandwidth_gives_the_target():
    z = jax.random.normal(jax.random.key(0), (100, 3))
    gamma_sq = first_gamma_sq(z, 10, jnp.float32(1.5))
    dist_sq = ((z[:, None] - z[None]) ** 2).sum(-1) + jnp.diag(jnp.full(100, jnp.inf))
    near = jnp.sort(dist_sq, axis=1)[:, :10]
    overlap = jnp.exp(-near / gamma_sq).sum(1)
    assert 1 / float((1 / (1 + overlap)).mean()) - 1 == pytest.approx(1.5, rel=1e-3)


def test_steering_reaches_the_target_where_neighbors_are_at_one_distance():
    gamma_sq, dist_sq, target = jnp.float32(0.7), 2.0, jnp.float32(0.4)
    for _ in range(10):
        overlap = 8 * jnp.exp(-dist_sq / gamma_sq)
        gamma_sq = steer_gamma_sq(gamma_sq, overlap, target, 8)
    assert float(8 * jnp.exp(-dist_sq / gamma_sq)) == pytest.approx(0.4, rel=1e-4)
    # The distance moved is proportional to the pace.
    pace = steer_pace(jnp.float32(0.5), jnp.float32(2.0), jnp.float32(1.5))
    assert float(pace) == pytest.approx(0.375, rel=1e-5)


def power_of(dist_sq, gamma_sq):
    """Overlap at this bandwidth, and by what power of it that grows."""
    near, far = (np.exp(-dist_sq / g).sum() for g in (gamma_sq, 1.001 * gamma_sq))
    return near, np.log(far / near) / np.log(1.001)


def test_overlap_slope_is_that_of_neighbors_at_one_distance_and_else_larger():
    overlap, power = power_of(np.full(8, 2.0), 0.7)
    assert float(overlap_slope(overlap, 8)) == pytest.approx(power, rel=2e-3)
    for seed in range(5):
        dist_sq = np.random.default_rng(seed).uniform(1.0, 4.0, 8)
        overlap, power = power_of(dist_sq, 0.7)
        assert float(overlap_slope(overlap, 8)) > power
    assert float(overlap_slope(jnp.float32(4.0), 8)) == 1.0


@pytest.mark.parametrize("batch_size", [16, 128])
def test_bandwidth_does_not_oscillate(batch_size):
    problem = softqd.problems.linear_projection(8, solution_dim=64)
    found = history(problem, steps=200, log_every=1, batch_size=batch_size).history
    steps = np.diff(np.log(found["gamma_sq"][100:]))
    # It falls with its target, on a logarithmic scale by less than that.
    assert (steps < 0).mean() > 0.9
    assert np.abs(steps).max() < np.log(ANNEALING) / 199


def test_steering_is_limited():
    zero, one = jnp.float32(0.0), jnp.float32(1.0)
    grown = steer_gamma_sq(jnp.float32(2.0), zero, one, 8)
    assert float(grown) == pytest.approx(2 * np.e, rel=1e-5)
    assert float(steer_pace(one, zero, one)) == 1.0
    assert float(steer_pace(jnp.float32(0.002), one, zero)) < 0.00101


@pytest.mark.parametrize("problem", [bounded(), unbounded()])
def test_steps_end_within_a_part_of_the_bandwidth(problem):
    fast = optax.adam(0.5)
    algorithm = softqd.squad(
        problem, population_size=128, batch_size=32, optimizer=fast
    )
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
    moved = np.sqrt((moved**2).sum(1).mean())
    assert info.pace < 0.5
    assert moved == pytest.approx(REACH * float(info.gamma_sq) ** 0.5, rel=0.5)


def test_scale_is_positive_where_a_behavior_is_constant():
    z = jnp.stack([jnp.zeros(8), jnp.full(8, 5.0), jnp.arange(8.0)], 1)
    problem = softqd.Problem(
        lambda x: (x[0], x), None, ((-1, -np.inf, 0), (1, np.inf, 9))
    )
    spread = scale_of(problem, z).spread
    assert (spread > 0).all()
    assert float(spread[2]) == pytest.approx(np.arange(8).std(), rel=1e-5)


def history(problem, steps=120, seed=1, log_every=10, **settings):
    sizes = {"population_size": 128, "batch_size": 64}
    algorithm = softqd.squad(problem, **{**sizes, **settings})
    return softqd.run(algorithm, seed=seed, num_iterations=steps, log_every=log_every)


def test_overlap_follows_its_target():
    problem = softqd.problems.linear_projection(4, solution_dim=64)
    found = history(problem, overlap=0.05).history
    wanted = 0.05 * ANNEALING ** (1 - (found["iteration"][1:] - 1) / 119)
    np.testing.assert_allclose(found["overlap"][1:], wanted, rtol=0.25)


def test_overlap_trades_quality_for_diversity_without_a_cliff():
    problem = softqd.problems.linear_projection(4, solution_dim=64)
    quality, diversity = [], []
    for overlap in 0.005 * 100 ** np.linspace(0, 1, 5):
        population = history(problem, steps=80, overlap=float(overlap)).population
        quality.append(population.quality.mean())
        low, high = problem.bounds(4)
        unit = (np.asarray(population.behavior) - low) / (high - low)
        diversity.append(vendi_score(unit))
    assert (np.diff(quality) < 0).all()
    assert (np.diff(diversity) > 0).all()
    assert min(quality) > 0.6 * max(quality)
    assert max(np.diff(np.log(diversity))) < 1.0


@pytest.mark.parametrize("problem", [bounded(), unbounded()])
def test_size_changes_nothing_abruptly(problem):
    quality, width = [], []
    for size in (16, 64, 256):
        sizes = {"population_size": size, "batch_size": 16}
        runs = history(problem, steps=60, seed=[1, 2, 3], **sizes)
        quality.append(np.mean([run.population.quality.mean() for run in runs]))
        behavior = np.concatenate([run.population.behavior for run in runs])
        quarters = np.percentile(behavior, [25, 75], axis=0)
        width.append(quarters[1] - quarters[0])
    assert min(quality) > 0.6 * max(quality)
    # Four times the solutions need at most four times the room.
    growth = np.divide(width[1:], width[:-1])
    assert (growth > 0.7).all()
    assert (growth < 4).all()


@pytest.mark.parametrize("problem", [bounded(), unbounded()])
def test_coinciding_solutions_part(problem):
    start = jnp.full((128, 6 if problem.behavior_bounds else 5), 0.1)
    algorithm = softqd.squad(problem, population_size=128, batch_size=64)
    result = softqd.run(algorithm, seed=1, num_iterations=150, solutions=start)
    drawn = history(problem, steps=150).population.behavior
    behavior = np.asarray(result.population.behavior)
    assert (behavior.std(0) > 0.3 * np.asarray(drawn).std(0)).all()


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
    assert history(constant).population.quality.min() > 0.99


@pytest.mark.parametrize("steps", [0, 1, 2, 50])
def test_any_budget_will_do(steps):
    result = history(bounded(), steps=steps)
    assert np.isfinite(result.population.quality).all()


def test_the_schedule_follows_a_budget_of_evaluations():
    problem = bounded()
    algorithm = softqd.squad(problem, **SETTINGS)
    by_count = softqd.run(algorithm, seed=1, num_iterations=10)
    by_evaluations = softqd.run(algorithm, seed=1, max_evaluations=48 * 21 + 5)
    np.testing.assert_array_equal(
        by_count.population.quality, by_evaluations.population.quality
    )


def test_the_published_form_is_what_a_bandwidth_means():
    problem = bounded()
    short = softqd.squad(problem, **SETTINGS, gamma_sq=0.3)
    long = softqd.squad(
        problem,
        **SETTINGS,
        gamma_sq=0.3,
        transform="logit",
        repulsion_weight=0.5,
        protect_quality=False,
        optimizer=optax.adam(0.05),
    )
    for name, value in long.settings.items():
        if name != "optimizer":
            assert short.settings[name] == value


@pytest.mark.parametrize("overlap", [0.0, -1.0, float("nan"), float("inf")])
def test_overlap_must_be_positive(overlap):
    with pytest.raises(ValueError, match="overlap must be a positive number"):
        softqd.squad(bounded(), overlap=overlap)


def test_a_schedule_of_the_overlap_is_followed():
    constant = optax.constant_schedule(0.4)
    found = history(bounded(), overlap=constant).history["overlap"][2:]
    np.testing.assert_allclose(found, 0.4, rtol=0.25)


def test_one_of_overlap_and_gamma_sq():
    with pytest.raises(ValueError, match=r"got 0\.1 and 2\.0\. Leave gamma_sq out"):
        softqd.squad(bounded(), overlap=0.1, gamma_sq=2.0)


def recording():
    """An optimizer that stays where it is and remembers what it was handed."""
    return optax.GradientTransformation(
        lambda params: jax.tree.map(jnp.zeros_like, params),
        lambda updates, _, params: (jax.tree.map(jnp.zeros_like, params), updates),
    )


@pytest.mark.parametrize("slope", [1e-3, 1.0, 1e3])
def test_gradients_come_in_units_of_their_batch(slope):
    def evaluate(x):
        return 1.0 + slope * (jnp.sum(x["a"] ** 2) + x["b"]), jnp.tanh(x["a"][:2])

    def sample(key):
        return {"a": jax.random.normal(key, (3,)), "b": jnp.float32(0.5)}

    problem = softqd.Problem(evaluate, sample, (-1.0, 1.0))
    algorithm = softqd.squad(problem, optimizer=recording(), **SETTINGS)
    state, _ = jax.jit(algorithm.step)(algorithm.init(jax.random.key(0)))
    seen = state.optimizer
    rows = np.concatenate([seen["a"], seen["b"][:, None]], axis=1)
    assert np.sqrt(np.mean(rows**2)) == pytest.approx(1.0, rel=1e-5)


def test_gradients_of_zero_stay_zero():
    problem = softqd.Problem(
        lambda x: (jnp.float32(1.0), jnp.zeros(2)),
        lambda key: jax.random.normal(key, (3,)),
        (-1.0, 1.0),
    )
    algorithm = softqd.squad(problem, optimizer=recording(), **SETTINGS)
    state, _ = jax.jit(algorithm.step)(algorithm.init(jax.random.key(0)))
    np.testing.assert_array_equal(state.optimizer, np.zeros((48, 3)))
