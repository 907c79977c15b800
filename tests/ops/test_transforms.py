import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import norm

import softqd
from softqd.ops.transforms import behavior_transform, is_outside


def problem_with(bounds):
    return softqd.Problem(lambda x: (x.sum(), x), behavior_bounds=bounds)


@pytest.mark.parametrize(("name", "exact"), [("logit", logit), ("probit", norm.ppf)])
def test_against_scipy(name, exact):
    b = np.linspace(-1.9, 3.9, 30, dtype=np.float32).reshape(10, 3)
    found = behavior_transform(problem_with((-2.0, 4.0)), 3, name)(jnp.asarray(b))
    np.testing.assert_allclose(found, exact((b + 2.0) / 6.0), rtol=1e-4, atol=1e-5)


def test_per_dimension_bounds_and_unbounded_dimensions():
    problem = problem_with(([0.0, -jnp.inf, -1.0], [2.0, jnp.inf, jnp.inf]))
    b = jnp.array([[0.5, 123.0, 7.0]])
    found = behavior_transform(problem, 3)(b)
    np.testing.assert_allclose(found, [[logit(0.25), 123.0, 7.0]], rtol=1e-5)


def test_edges_are_clipped_and_finite():
    apply = behavior_transform(problem_with((0.0, 1.0)), 1)
    found = apply(jnp.array([[0.0], [1.0], [-5.0], [9.0]]))
    edge = logit(1e-6)
    np.testing.assert_allclose(found[:, 0], [edge, -edge, edge, -edge], rtol=5e-3)
    slope = jax.grad(lambda b: apply(b).sum())(jnp.array([[-5.0], [0.5]]))
    np.testing.assert_allclose(slope[:, 0], [0.0, 4.0])


def test_own_function_gets_unit_coordinates():
    apply = behavior_transform(problem_with((0.0, 10.0)), 1, lambda u: 3 * u)
    np.testing.assert_allclose(apply(jnp.array([[5.0]])), [[1.5]])


def test_unknown_transform():
    with pytest.raises(ValueError, match="unknown transform 'lgit'; use one of logit"):
        behavior_transform(problem_with((0.0, 1.0)), 1, "lgit")


def test_is_outside_forgives_rounding_only():
    b = jnp.array([[0.5], [1.0000002], [1.001], [-0.001]])
    found = is_outside(problem_with((0.0, 1.0)), b)
    assert found.tolist() == [False, False, True, True]
