import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from softqd.algorithms._steps import (
    GUESS,
    HOLD,
    LAST,
    LONGER,
    PART,
    PROMISE,
    UNHURRIED,
    Start,
    measured_steps,
    optimizer_steps,
    promising_length,
    schedule,
    spread_of,
)

# Progress and horizon at the start of a run that is not short.
LONG_RUN = (jnp.float32(0.0), UNHURRIED)


def start_of(quality, solutions):
    evaluate = jax.vmap(quality)
    gradient = jax.vmap(jax.grad(quality))(solutions)
    return Start(solutions, evaluate(solutions), gradient, evaluate)


def parabola(distance, n=512, unit=1.0):
    """One coordinate, everyone at the same distance from the top of a parabola."""
    side = np.where(np.arange(n) % 2, 1.0, -1.0)[:, None] * distance * unit
    solutions = jnp.asarray(side, jnp.float32)
    return start_of(lambda x: -jnp.sum((x / unit) ** 2), solutions)


@pytest.mark.parametrize("guess", [2e-4, 0.2, 200.0])
@pytest.mark.parametrize("distance", [0.1, 1.0])
def test_promise_of_a_parabola(distance, guess):
    """At distance D a step s gains 2 D s - s^2 of the promised 2 D s.

    That is the part 1 - s / 2D, so that the part c is kept up to s = 2 D (1 - c).
    """
    unit = jnp.ones(1)
    found = promising_length(jax.random.key(0), parabola(distance), unit, guess)
    assert float(found) == pytest.approx(2 * distance * (1 - PROMISE), rel=0.03)


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_lengths_are_in_units_of_the_solution(unit):
    key = jax.random.key(0)
    found = promising_length(key, parabola(1.0, unit=unit), jnp.full(1, unit), 0.2)
    plain = promising_length(key, parabola(1.0), jnp.ones(1), 0.2)
    assert float(found) == pytest.approx(float(plain), rel=1e-4)


def test_of_unlike_solutions_the_middle_counts():
    distance = np.geomspace(0.1, 10.0, 1023)
    solutions = jnp.asarray(distance[:, None], jnp.float32)
    start = start_of(lambda x: -jnp.sum(x**2), solutions)
    found = promising_length(jax.random.key(0), start, jnp.ones(1), 0.2)
    assert float(found) == pytest.approx(2 * (1 - PROMISE), rel=0.4)


def test_a_quality_without_gradient_tells_nothing():
    start = start_of(lambda x: 0.0 * x.sum(), jnp.ones((64, 2)))
    assert float(promising_length(jax.random.key(0), start, jnp.ones(2), 5.0)) == (
        pytest.approx(GUESS)
    )


def test_qualities_that_are_not_finite_are_too_far():
    def quality(x):
        return jnp.where(jnp.abs(x[0]) < 1.0, x[0], jnp.nan)

    start = start_of(quality, jnp.zeros((512, 1)))
    found = promising_length(jax.random.key(0), start, jnp.ones(1), 0.2)
    assert float(found) == pytest.approx(1.0, rel=0.05)


def test_spread_of_coordinates():
    tree = {"a": jnp.array([[1.0, 10.0], [3.0, 50.0]]), "b": jnp.array([5.0, 5.0])}
    found = spread_of(tree)
    np.testing.assert_allclose(found["a"], [1.0, 20.0])
    # A constant one has the root mean square of the others.
    np.testing.assert_allclose(found["b"], np.sqrt((1 + 400) / 2), rtol=1e-6)


def test_spread_where_all_are_constant():
    np.testing.assert_allclose(spread_of(jnp.full((4, 3), 2.0)), 2.0, rtol=1e-6)
    np.testing.assert_allclose(spread_of(jnp.zeros((4, 3))), 1.0)


def test_first_step_is_a_part_of_the_promising_length_along_the_sign():
    steps = measured_steps()
    solutions = jax.random.normal(jax.random.key(1), (256, 3))
    start = start_of(lambda x: -jnp.sum(x**2), solutions)
    state = steps.init(jax.random.key(0), start)
    updates, _ = steps.update(start.gradient, state, solutions, *LONG_RUN)
    unit = spread_of(solutions)
    length = promising_length(jax.random.key(0), start, unit, GUESS)
    wanted = PART * length * np.sign(start.gradient) * np.asarray(unit)[None]
    np.testing.assert_allclose(updates, wanted, rtol=1e-3)


def test_caution_shortens_a_solutions_steps():
    steps = measured_steps()
    start = parabola(1.0, n=4)
    state = steps.init(jax.random.key(0), start)
    careful = state._replace(caution=jnp.array([1.0, 0.5, 0.0, 1.0]))
    arguments = (start.solutions, *LONG_RUN)
    plain, _ = steps.update(start.gradient, state, *arguments)
    held, _ = steps.update(start.gradient, careful, *arguments)
    np.testing.assert_allclose(held, plain * careful.caution[:, None])


def lengths(horizon):
    """Of a schedule: at first, where steps begin to shorten, halfway, and last."""
    moments = (0.0, HOLD, (1 + HOLD) / 2, 1.0)
    return [float(schedule(jnp.float32(p), horizon)) for p in moments]


def test_steps_shorten_late():
    wanted = [1.0, 1.0, (1 + LAST) / 2, LAST]
    np.testing.assert_allclose(lengths(UNHURRIED), wanted, rtol=1e-5)
    np.testing.assert_allclose(lengths(10 * UNHURRIED), wanted, rtol=1e-5)


def test_short_runs_take_longer_steps_and_end_as_fine():
    wanted = [2.0, 2.0, (2 + LAST) / 2, LAST]
    np.testing.assert_allclose(lengths(UNHURRIED // 2), wanted, rtol=1e-5)
    np.testing.assert_allclose(lengths(0)[::3], [LONGER, LAST], rtol=1e-5)


def test_an_optimizer_makes_its_own_steps():
    steps = optimizer_steps(optax.sgd(0.5))
    start = parabola(1.0, n=4)
    state = steps.init(jax.random.key(0), start)
    updates, _ = steps.update(start.gradient, state, start.solutions, *LONG_RUN)
    np.testing.assert_allclose(updates, 0.5 * start.gradient)
    assert steps.num_trials == 0
