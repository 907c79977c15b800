import jax
import jax.numpy as jnp
import numpy as np
import pytest

from softqd import problems


def test_linear_projection_landmarks():
    problem = problems.linear_projection(behavior_dim=4, solution_dim=64)
    best, behavior = problem.evaluate(jnp.full(64, 2.048))
    assert float(best) == 100.0
    np.testing.assert_allclose(behavior, (2.048 + 5.12) / 10.24, rtol=1e-6)
    worst, behavior = problem.evaluate(jnp.full(64, -5.12))
    np.testing.assert_allclose(worst, 0.0, atol=2e-4)
    np.testing.assert_allclose(behavior, 0.0, atol=1e-6)


def test_linear_projection_against_the_printed_formula():
    x = np.random.default_rng(0).uniform(-7, 7, 32)
    y = x - 2.048
    rastrigin = 10 * 32 + (y**2 - 10 * np.cos(2 * np.pi * y)).sum()
    corner = np.full(32, -5.12) - 2.048
    worst = 10 * 32 + (corner**2 - 10 * np.cos(2 * np.pi * corner)).sum()
    folded = np.where(np.abs(x) <= 5.12, x, 5.12 / x).reshape(8, 4).mean(1)
    quality, behavior = problems.linear_projection(8, 32).evaluate(
        jnp.asarray(x, jnp.float32)
    )
    np.testing.assert_allclose(quality, 100 * (worst - rastrigin) / worst, rtol=1e-5)
    np.testing.assert_allclose(behavior, (folded + 5.12) / 10.24, rtol=1e-5)


def test_linear_projection_gradient_against_finite_differences(x64):
    problem = problems.linear_projection(2, 8)
    x = jnp.linspace(-6.0, 6.0, 8)
    step = 1e-6
    jacobian = jax.jacrev(
        lambda x: jnp.append(problem.evaluate(x)[1], problem.evaluate(x)[0])
    )(x)
    for i in range(8):
        e = step * jnp.eye(8)[i]
        up, down = problem.evaluate(x + e), problem.evaluate(x - e)
        np.testing.assert_allclose(
            jacobian[2, i],
            (up.quality - down.quality) / (2 * step),
            rtol=1e-6,
            atol=1e-7,
        )
        np.testing.assert_allclose(
            jacobian[:2, i],
            (up.behavior - down.behavior) / (2 * step),
            rtol=1e-6,
            atol=1e-8,
        )


@pytest.mark.parametrize("make", [problems.linear_projection, problems.sphere])
def test_starts_inside_its_box(make):
    problem = make(2, 64)
    x = jax.vmap(problem.sample)(jax.random.split(jax.random.key(0), 200))
    assert np.abs(x).max() <= 5.12
    # Uniform on [-5.12, 5.12]: variance (10.24)^2 / 12.
    np.testing.assert_allclose(x.var(), 10.24**2 / 12, rtol=0.05)
    _, behavior = jax.vmap(problem.evaluate)(x)
    assert (behavior >= 0).all()
    assert (behavior <= 1).all()
    assert problem.behavior_dim == 2


@pytest.mark.parametrize("make", [problems.linear_projection, problems.sphere])
def test_dimensions_must_divide(make):
    with pytest.raises(ValueError, match="solution_dim must be a multiple"):
        make(3, 64)


def test_sphere_landmarks():
    problem = problems.sphere(2, 16)
    assert float(problem.evaluate(jnp.full(16, 2.048))[0]) == 100.0
    np.testing.assert_allclose(problem.evaluate(jnp.full(16, -5.12))[0], 0.0, atol=1e-4)
    # Half way along the diagonal a quarter of the squared distance is left.
    middle = jnp.full(16, (2.048 - 5.12) / 2)
    np.testing.assert_allclose(problem.evaluate(middle)[0], 75.0, rtol=1e-6)


def test_arm_reaches_known_points():
    problem = problems.arm(num_joints=4)
    quality, hand = problem.evaluate(jnp.array([jnp.pi / 2, 0.0, 0.0, 0.0]))
    np.testing.assert_allclose(hand, [0.0, 1.0], atol=1e-6)
    # Variance of (pi/2, 0, 0, 0): mean square minus squared mean.
    variance = (np.pi / 2) ** 2 * (1 / 4 - 1 / 16)
    np.testing.assert_allclose(quality, 100 * (1 - variance), rtol=1e-5)
    _, hand = problem.evaluate(jnp.full(4, jnp.pi / 2))  # a closed square
    np.testing.assert_allclose(hand, [0.0, 0.0], atol=1e-6)


def test_arm_needs_a_joint():
    with pytest.raises(ValueError, match=r"num_joints must be .* at least 1; got 0"):
        problems.arm(0)
