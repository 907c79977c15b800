import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from toys import make_bowl

import softqd
from softqd.metrics import vendi_score
from softqd.ops.distances import mean_nearest_dist_sq


def published_iteration(problem, state, order, *, m, k, gamma_sq, lr):
    """One iteration as facts about the published runs describe it, in plain NumPy."""
    x, f = np.array(state.solutions), np.array(state.quality)

    def logit(b):
        b = np.clip(b, 1e-6, 1 - 1e-6)
        return np.log(b / (1 - b))

    z, f = logit(np.array(state.behavior)), np.maximum(f, 1e-6)
    evaluate = lambda x: [np.array(v) for v in problem.evaluate(jnp.asarray(x))]  # noqa: E731

    def jacobian(x):
        b = lambda x: jax.scipy.special.logit(problem.evaluate(x)[1])  # noqa: E731
        q = lambda x: problem.evaluate(x)[0]  # noqa: E731
        return np.array(jax.grad(q)(jnp.asarray(x))), np.array(
            jax.jacrev(b)(jnp.asarray(x))
        )

    for start in range(0, len(x), m):
        batch = order[start : start + m]
        for i in batch:
            f[i], b = evaluate(x[i])
            z[i] = logit(b)
        new = {}
        for i in batch:
            near = np.argsort(((z - z[i]) ** 2).sum(1), kind="stable")[: k + 1]
            df, dz = 1.0, np.zeros_like(z[i])
            for j in near[near != i]:
                kernel = np.exp(-((z[i] - z[j]) ** 2).sum() / gamma_sq)
                if kernel < 1e-6:
                    continue
                f_i, f_j = max(f[i], 0.0), max(f[j], 0.0)
                if f[i] > 0:
                    df -= 0.5 * 0.5 * np.sqrt(f_j / max(f_i, 1e-6)) * kernel
                dz += 0.5 * np.sqrt(f_i * f_j) * kernel * 2 * (z[i] - z[j]) / gamma_sq
            jac_f, jac_z = jacobian(x[i])
            g = df * jac_f + dz @ jac_z
            new[i] = x[i] + lr * g
        for i in batch:
            x[i] = new[i]
            f[i], b = evaluate(x[i])
            z[i] = logit(b)
    return x, f


def start(algorithm, seed, *solutions):
    """The first state; compiled, since its many small operations take longer."""
    return jax.jit(algorithm.init)(jax.random.key(seed), *solutions)


@pytest.mark.parametrize("m", [1, 4, 7, 20])  # 7 does not divide 20
def test_one_iteration_equals_the_published_one(x64, m):
    problem = make_bowl()
    # Plain ascent: a first Adam step would show the signs of the gradient only.
    algorithm = softqd.squad_published(
        problem,
        population_size=20,
        batch_size=m,
        num_neighbors=5,
        gamma_sq=0.8,
        optimizer=optax.sgd(0.05),
    )
    state = start(algorithm, 1)
    order_key = jax.random.split(state.key, 3)[1]
    order = np.array(jax.random.permutation(order_key, 20))
    x, f = published_iteration(problem, state, order, m=m, k=5, gamma_sq=0.8, lr=0.05)
    new, info = jax.jit(algorithm.step)(state)
    np.testing.assert_allclose(new.solutions, x, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(new.quality, f, rtol=1e-9)
    assert (int(info.evaluations), int(info.gradient_evaluations)) == (40, 20)
    assert int(info.vector_jacobian_products) == 20


def test_no_neighbors_is_independent_ascent(bowl):
    algorithm = softqd.squad_published(
        bowl, population_size=6, batch_size=4, num_neighbors=0
    )
    state = start(algorithm, 0)
    after = state
    for _ in range(3):
        after, _ = jax.jit(algorithm.step)(after)
    adam = optax.adam(0.05)
    for x, found in zip(state.solutions, after.solutions, strict=True):
        moments = adam.init(x)
        for _ in range(3):
            gradient = jax.grad(lambda x: -bowl.evaluate(x)[0])(x)
            updates, moments = adam.update(gradient, moments, x)
            x = optax.apply_updates(x, updates)
        np.testing.assert_allclose(found, x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("num_neighbors", [11, 50])
def test_all_neighbors(bowl, num_neighbors):
    def one_step(k):
        algorithm = softqd.squad_published(
            bowl,
            population_size=12,
            batch_size=5,
            num_neighbors=k,
            optimizer=optax.sgd(0.05),
        )
        return jax.jit(algorithm.step)(start(algorithm, 2))[0].solutions

    np.testing.assert_allclose(one_step(num_neighbors), one_step(11), atol=1e-6)
    assert not np.allclose(one_step(num_neighbors), one_step(3), atol=1e-4)


@pytest.mark.parametrize(("n", "m"), [(2, 1), (5, 5), (9, 4)])
def test_every_solution_is_updated_exactly_once(n, m):
    algorithm = softqd.squad_published(make_bowl(), population_size=n, batch_size=m)
    state, info = jax.jit(algorithm.step)(start(algorithm, n))
    assert state.optimizer[0].count.tolist() == [1] * n
    assert int(info.evaluations) == 2 * n


def first_step(problem, **settings):
    algorithm = softqd.squad_published(
        problem,
        population_size=10,
        batch_size=4,
        optimizer=optax.sgd(0.05),
        **settings,
    )
    return jax.jit(algorithm.step)(start(algorithm, 7))


def test_bandwidth_forms_agree(bowl):
    expected, info = first_step(bowl, gamma_sq=0.6)
    np.testing.assert_allclose(info.gamma_sq, 0.6)
    other, _ = first_step(bowl, gamma_sq=0.7)
    assert np.abs(other.solutions - expected.solutions).max() > 1e-4
    each, _ = first_step(bowl, gamma_sq=jnp.full(10, 0.6))
    np.testing.assert_allclose(each.solutions, expected.solutions, atol=1e-6)
    schedule, _ = first_step(bowl, gamma_sq=optax.linear_schedule(0.6, 0.1, 10))
    np.testing.assert_allclose(schedule.solutions, expected.solutions, atol=1e-6)


def test_bandwidth_per_solution_follows_its_solution(bowl):
    gammas = jnp.where(jnp.arange(10) == 3, 0.6, 1e-6)  # the others see nobody
    mixed, _ = first_step(bowl, gamma_sq=gammas)
    free, _ = first_step(bowl, num_neighbors=0, gamma_sq=1.0)
    everyone, _ = first_step(bowl, gamma_sq=0.6)
    moved = np.abs(mixed.solutions - free.solutions).max(1) > 1e-6
    assert np.flatnonzero(moved).tolist() == [3]
    assert np.abs(everyone.solutions - free.solutions).max() > 1e-6


def test_schedules_advance_with_the_iteration(bowl):
    algorithm = softqd.squad_published(
        bowl,
        population_size=6,
        batch_size=6,
        gamma_sq=optax.linear_schedule(1.0, 0.0, 10),
        repulsion_weight=optax.linear_schedule(0.0, 1.0, 10),
    )
    state, infos = start(algorithm, 0), []
    for _ in range(3):
        state, info = jax.jit(algorithm.step)(state)
        infos.append((float(info.gamma_sq), float(info.repulsion_weight)))
    np.testing.assert_allclose(infos, [(1.0, 0.0), (0.9, 0.1), (0.8, 0.2)], rtol=1e-6)


@pytest.mark.parametrize(("rule", "power"), [("nearest", 1), ("inverse_nearest", -1)])
def test_bandwidth_rules_use_fresh_behaviors(bowl, rule, power):
    algorithm = softqd.squad_published(
        bowl, population_size=10, batch_size=4, gamma_sq=rule
    )
    state = start(algorithm, 7)
    for _ in range(2):
        z = jax.scipy.special.logit(jax.vmap(bowl.evaluate)(state.solutions)[1])
        expected = mean_nearest_dist_sq(z) ** power
        state, info = jax.jit(algorithm.step)(state)
        np.testing.assert_allclose(info.gamma_sq, expected, rtol=1e-3)


def test_clipping_acts_on_each_solution(bowl):
    optimizer = optax.chain(optax.clip_by_global_norm(1e-3), optax.sgd(1.0))
    algorithm = softqd.squad_published(
        bowl, population_size=6, batch_size=3, num_neighbors=0, optimizer=optimizer
    )
    state = start(algorithm, 0)
    new, _ = jax.jit(algorithm.step)(state)
    length = jnp.linalg.norm(new.solutions - state.solutions, axis=1)
    np.testing.assert_allclose(length, 1e-3, rtol=1e-3)


def test_learning_rate_schedule(bowl):
    schedule = optax.piecewise_constant_schedule(0.1, {1: 0.0})
    algorithm = softqd.squad_published(
        bowl, population_size=6, batch_size=3, optimizer=optax.sgd(schedule)
    )
    first = jax.jit(algorithm.step)(start(algorithm, 0))[0]
    second = jax.jit(algorithm.step)(first)[0]
    np.testing.assert_array_equal(first.solutions, second.solutions)


@pytest.mark.parametrize("quality", [-3.0, 0.0])
def test_dark_solutions_neither_repel_nor_are_repelled(quality):
    def evaluate(x):
        return quality + 0.0 * x.sum(), jax.nn.sigmoid(x[:2])

    problem = softqd.Problem(evaluate, lambda key: jax.random.normal(key, (3,)), (0, 1))
    algorithm = softqd.squad_published(problem, population_size=8, batch_size=4)
    state = jax.jit(algorithm.step)(start(algorithm, 0))[0]
    after, info = jax.jit(algorithm.step)(state)
    np.testing.assert_array_equal(after.solutions, state.solutions)
    assert info.is_finite.all()


def test_identical_solutions_stay_finite(bowl):
    algorithm = softqd.squad_published(bowl, population_size=8, batch_size=4)
    state = start(algorithm, 0, jnp.ones((8, 6)))
    for _ in range(3):
        state, info = jax.jit(algorithm.step)(state)
    assert info.is_finite.all()
    assert np.isfinite(state.solutions).all()


def test_behaviors_that_leave_their_bounds_are_counted():
    def evaluate(x):
        return 10.0 + x[0], x[:1]

    problem = softqd.Problem(
        evaluate, lambda key: jax.random.uniform(key, (2,)), (0, 1)
    )
    algorithm = softqd.squad_published(
        problem, population_size=5, batch_size=5, gamma_sq=1.0, optimizer=optax.sgd(2.0)
    )
    with pytest.warns(UserWarning, match="at the end, 5 solutions have behaviors out"):
        result = softqd.run(algorithm, num_iterations=1)
    assert result.history["clipped_behaviors"].tolist() == [0, 5]


def test_unbounded_behaviors_spread():
    def evaluate(x):
        return jnp.exp(-0.01 * x @ x), x[:2]

    problem = softqd.Problem(evaluate, lambda key: 0.01 * jax.random.normal(key, (2,)))
    algorithm = softqd.squad_published(
        problem, population_size=32, batch_size=8, gamma_sq=0.5
    )
    result = softqd.run(algorithm, num_iterations=50)
    assert result.population.behavior.std() > 0.2


def test_stochastic_problem_gets_fresh_keys():
    def evaluate(x, key):
        return 5.0 + jax.random.normal(key, ()), jax.nn.sigmoid(x[:2])

    problem = softqd.Problem(evaluate, lambda key: jax.random.normal(key, (3,)), (0, 1))
    algorithm = softqd.squad_published(problem, population_size=6, batch_size=4)
    state = start(algorithm, 0)
    new, _ = jax.jit(algorithm.step)(state)
    qualities = np.concatenate([state.quality, new.quality])
    assert len(np.unique(qualities)) == 12


def test_vmap_over_gamma_sq(bowl):
    def step(gamma_sq):
        algorithm = softqd.squad_published(
            bowl,
            population_size=6,
            batch_size=3,
            gamma_sq=gamma_sq,
            optimizer=optax.sgd(0.05),
        )
        return jax.jit(algorithm.step)(start(algorithm, 0))[0].solutions

    swept = jax.vmap(step)(jnp.array([0.1, 1.0]))
    np.testing.assert_allclose(swept[1], step(1.0), atol=1e-5)
    assert not np.allclose(swept[0], swept[1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"population_size": 1}, "population_size must be a whole number at least 2"),
        ({"population_size": 8.0}, "population_size must be a whole number"),
        (
            {"optimizer": "adm(0.1)"},
            "unknown optax function 'adm'; did you mean 'adam'",
        ),
        ({"batch_size": 0}, "batch_size must be a whole number at least 1"),
        ({"num_neighbors": -1}, "num_neighbors must be a whole number at least 0"),
        ({"gamma_sq": 0.0}, "gamma_sq must be positive and finite; got 0.0"),
        ({"gamma_sq": np.inf}, "gamma_sq must be positive and finite"),
        ({"gamma_sq": np.ones(3)}, r"gamma_sq has shape \(3,\); expected a number or"),
        ({"gamma_sq": "nearby"}, "unknown gamma_sq rule 'nearby'; use a positive"),
        ({"transform": "log"}, "unknown transform 'log'; use one of logit, probit"),
        ({"repulsion_weight": -1.0}, "repulsion_weight must be a number >= 0"),
    ],
)
def test_bad_settings(bowl, settings, message):
    with pytest.raises(ValueError, match=message):
        softqd.squad_published(
            bowl, **{"population_size": 10, "batch_size": 5, **settings}
        )


@pytest.mark.parametrize(
    ("solutions", "message"),
    [
        (np.ones((3, 6)), r"solutions has shape \(3, 6\), but population_size is 4"),
        (np.float32(1.0), r"solutions has shape \(\), but population_size is 4"),
        (np.full((4, 6), np.nan), "solutions of solution 0 at the start is not finite"),
        (np.ones((4, 6), int), "solutions has dtype int32, expected floating point"),
        ({}, "solutions hold no arrays"),
    ],
)
def test_bad_start(bowl, solutions, message):
    algorithm = softqd.squad_published(bowl, population_size=4, batch_size=2)
    with pytest.raises(ValueError, match=message):
        algorithm.init(jax.random.key(0), solutions)


def test_behavior_outside_its_bounds_at_the_start():
    problem = make_bowl(behavior_bounds=(0.0, 0.4))
    algorithm = softqd.squad_published(problem, population_size=4, batch_size=2)
    with pytest.raises(ValueError, match=r"outside the behavior_bounds \(0.0, 0.4\)"):
        algorithm.init(jax.random.key(0))
    with pytest.raises(ValueError, match="declare wider bounds"):
        softqd.run(algorithm, num_iterations=1)


@pytest.mark.slow
@pytest.mark.usefixtures("optimized_programs")
def test_linear_projection_reaches_the_published_numbers():
    """Table 'Additional statistics from LP experiments', d=4, SQUAD.

    The paper prints means over ten runs with standard errors 0.02, 0.15 and 0.01; one
    run scatters sqrt(10) times as much. Allowed are 3.5 of these.
    """
    problem = softqd.problems.linear_projection(behavior_dim=4)
    algorithm = softqd.squad_published(problem, gamma_sq=0.1)
    result = softqd.run(algorithm, seed=2001, num_iterations=1000, log_every=1000)
    quality, behavior = result.population.quality, result.population.behavior
    scatter = 3.5 * np.sqrt(10)
    assert abs(quality.mean() - 68.36) < scatter * 0.02
    assert abs(quality.max() - 89.28) < scatter * 0.15
    assert abs(vendi_score(behavior) - 6.55) < scatter * 0.01
