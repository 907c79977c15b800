"""Geometry of airfoils against algebra and NACA's tables."""

import jax.numpy as jnp
import numpy as np
import pytest

from softqd.ops.cst import (
    Airfoil,
    naca_thickness,
    stations,
    surfaces,
    trailing_edge_angle,
)


def airfoil(upper=0.2, lower=-0.1, leading_edge=0.0, trailing_edge=0.0):
    ones = jnp.ones(8, jnp.float32)
    edges = jnp.float32(leading_edge), jnp.float32(trailing_edge)
    return Airfoil(upper * ones, lower * ones, *edges)


def test_equal_weights_give_the_class_function():
    """Bernstein polynomials of one degree sum to 1."""
    x = jnp.asarray(stations(50), jnp.float32)
    upper, lower = surfaces(airfoil(), x)
    shape = np.sqrt(x) * (1 - x)
    np.testing.assert_allclose(upper, 0.2 * shape, atol=1e-6)
    np.testing.assert_allclose(lower, -0.1 * shape, atol=1e-6)


def test_ends():
    """The nose is at the origin, the tail is as thick as it says."""
    upper, lower = surfaces(airfoil(trailing_edge=0.01), jnp.array([0.0, 1.0]))
    np.testing.assert_allclose(upper - lower, [0.0, 0.01], atol=1e-7)


def test_nose_is_as_round_as_the_first_weight_says():
    """Near the nose y = w sqrt(x), a circle of radius w^2 / 2."""
    x = jnp.array([1e-6])
    upper, _ = surfaces(airfoil(), x)
    assert float(upper[0] ** 2 / (2 * x[0])) == pytest.approx(0.2**2 / 2, rel=1e-4)


def test_weight_of_the_leading_edge_moves_both_surfaces():
    """By x (1 - x)^8.5."""
    x = jnp.array([0.1, 0.5])
    moved = surfaces(airfoil(leading_edge=0.3), x)
    for after, before in zip(moved, surfaces(airfoil(), x), strict=True):
        np.testing.assert_allclose(after - before, 0.3 * x * (1 - x) ** 8.5, atol=1e-7)


@pytest.mark.parametrize("thickness", [0.0, 0.02])
def test_angle_of_the_tail_is_that_of_the_last_slopes(x64, thickness):
    one = Airfoil(
        jnp.linspace(0.2, 0.3, 8), jnp.linspace(-0.2, 0.05, 8), 0.1, thickness
    )
    step = 1e-6
    ys = surfaces(one, jnp.array([1 - step, 1.0]))
    above, below = (float(np.arctan((y[1] - y[0]) / step)) for y in ys)
    expected = np.degrees(below - above)
    assert float(trailing_edge_angle(one)) == pytest.approx(expected, abs=1e-3)


def test_naca_0012():
    """Abbott and von Doenhoff, Theory of Wing Sections, NACA 0012, half thickness."""
    places = np.array([0.0125, 0.05, 0.3, 0.6, 0.9, 1.0])
    table = [1.894, 3.555, 6.002, 4.563, 1.448, 0.126]
    np.testing.assert_allclose(50 * naca_thickness(0.12, places), table, atol=1e-3)
