"""The renderer against a float64 loop, finite differences and autodiff of a scan."""

import functools

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from softqd.ops import circles as module
from softqd.ops import circles_kernel, gpu
from softqd.ops.circles import Circles, render_circles

SHAPES = [(1, 9, 7), (8, 16, 16), (37, 20, 31), (66, 24, 40)]


def scene(seed, k, height, width, batch=()):
    """Random circles; alphas near 0, near 1 and between, radii at both ends."""
    keys = jax.random.split(jax.random.key(seed), 4)
    center = jax.random.uniform(keys[0], (*batch, k, 2), minval=-0.1, maxval=1.1)
    center = jnp.round(center * 8) / 8  # some lie on the border
    x, y = width * center[..., 0], height * center[..., 1]
    return Circles(
        center=jnp.stack([x, y], -1),
        radius=1.0
        + jnp.clip(jax.random.normal(keys[1], (*batch, k)), 0, 1) * height / 2,
        color=jax.random.uniform(keys[2], (*batch, k, 3)),
        alpha=jax.nn.sigmoid(20 * jax.random.normal(keys[3], (*batch, k))),
    )


def loop(circles, height, width, background=1.0, softness=10.0):
    """The definition, in float64 NumPy."""
    center, radius, color, alpha = (np.asarray(c, np.float64) for c in circles)
    y, x = np.mgrid[:height, :width].astype(float)
    canvas = np.broadcast_to(background, (height, width, 3)).astype(float)
    for j in range(len(radius)):
        dist_sq = (x - center[j, 0]) ** 2 + (y - center[j, 1]) ** 2
        exponent = np.minimum((dist_sq - radius[j] ** 2) / softness, 700.0)
        a = (alpha[j] / (1 + np.exp(exponent)))[..., None]
        canvas = canvas * (1 - a) + a * color[j]
    return canvas


def scanned(circles, height, width):
    """The definition as a plain scan, for autodiff."""
    dtype = circles.radius.dtype
    y, x = (z.astype(dtype) for z in jnp.mgrid[:height, :width])

    def draw(canvas, c):
        dist_sq = (x - c.center[0]) ** 2 + (y - c.center[1]) ** 2
        a = (c.alpha * jax.nn.sigmoid((c.radius**2 - dist_sq) / 10.0))[..., None]
        return canvas * (1 - a) + a * c.color[None, None], None

    return jax.lax.scan(draw, jnp.ones((height, width, 3), dtype), circles)[0]


@pytest.fixture(params=["plain", "interpreted kernel"])
def render(request, monkeypatch):
    """Both implementations; the kernel runs in Pallas' interpreter."""
    if request.param == "plain":
        return functools.partial(render_circles, implementation="plain")
    for name in ("forward", "backward"):
        function = functools.partial(getattr(circles_kernel, name), interpret=True)
        monkeypatch.setattr(circles_kernel, name, function)
    monkeypatch.setattr(gpu, "has_kernels", lambda _: True)
    return functools.partial(render_circles, implementation="kernel")


@pytest.mark.parametrize(("k", "height", "width"), SHAPES)
def test_picture_equals_the_loop(render, k, height, width):
    circles = scene(k, k, height, width)
    picture = render(circles, height, width)
    expected = loop(circles, height, width)
    np.testing.assert_allclose(picture, expected, atol=1e-5)


@pytest.mark.parametrize(("k", "height", "width"), SHAPES)
def test_gradient_equals_autodiff_of_the_scan(render, k, height, width):
    circles = scene(k, k, height, width)
    weights = jax.random.normal(jax.random.key(1), (height, width, 3))
    found = jax.grad(lambda c: (render(c, height, width) * weights).sum())(circles)
    with jax.enable_x64(True):
        exact = jax.tree.map(lambda x: jnp.asarray(np.asarray(x), float), circles)
        expected = jax.grad(
            lambda c: (scanned(c, height, width) * np.asarray(weights)).sum()
        )(exact)
    for name, a, b in zip(Circles._fields, found, expected, strict=True):
        np.testing.assert_allclose(
            a, np.asarray(b), atol=1e-4 * float(np.abs(b).max()), err_msg=name
        )


def test_gradient_against_finite_differences(x64):
    circles = jax.tree.map(lambda x: x.astype(float), scene(3, 5, 8, 9))
    weights = jax.random.normal(jax.random.key(1), (8, 9, 3))
    flat, unflatten = jax.flatten_util.ravel_pytree(circles)

    def value(flat):
        return (render_circles(unflatten(flat), 8, 9) * weights).sum()

    steps = 1e-6 * jnp.eye(len(flat))
    up, down = (jax.vmap(value)(flat[None] + sign * steps) for sign in (1, -1))
    slopes = (up - down) / 2e-6
    np.testing.assert_allclose(jax.grad(value)(flat), slopes, rtol=1e-5, atol=1e-6)


def test_what_an_opaque_circle_hides_still_decides_its_alpha(render):
    """Three opaque disks: d picture / d alpha of the front is front minus second."""
    circles = Circles(
        center=jnp.full((3, 2), 8.0),
        radius=jnp.full(3, 40.0),
        color=jnp.array([[0.0, 0.0, 0.0], [0.2, 0.4, 0.6], [1.0, 0.5, 0.1]]),
        alpha=jnp.ones(3),
    )
    gradient = jax.grad(lambda c: render(c, 16, 16).mean((0, 1))[2])(circles)
    np.testing.assert_allclose(gradient.alpha, [0.0, 0.0, 0.1 - 0.6], atol=1e-6)


def test_batches_and_backgrounds(render):
    circles = scene(5, 6, 10, 12, batch=(2, 3))
    pictures = render(circles, 10, 12, background=(0.1, 0.2, 0.9), softness=3.0)
    assert pictures.shape == (2, 3, 10, 12, 3)
    one = jax.tree.map(lambda x: x[1, 2], circles)
    expected = loop(one, 10, 12, (0.1, 0.2, 0.9), 3.0)
    np.testing.assert_allclose(pictures[1, 2], expected, atol=1e-5)


def test_later_circles_lie_over_earlier_ones(render):
    circles = Circles(
        jnp.full((2, 2), 4.0), jnp.full(2, 30.0), jnp.eye(3)[:2], jnp.ones(2)
    )
    np.testing.assert_allclose(render(circles, 8, 8)[4, 4], [0, 1, 0], atol=1e-6)


def test_backward_pass_keeps_little():
    """Residuals stay far below circles x pixels."""
    k, size = 256, 64
    circles = scene(0, k, size, size)
    _, pullback = jax.vjp(lambda c: render_circles(c, size, size), circles)
    held = sum(x.nbytes for x in jax.tree.leaves(pullback))
    assert held < 1.2 * 4 * k * size * size / module.SEGMENT


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"radius": jnp.ones((0, 4))}, "at least one picture"),
        ({"radius": jnp.ones(0)}, "at least one circle"),
        ({"color": jnp.ones((4, 4))}, r"circles.color has shape \(4, 4\); \(4, 3\)"),
        ({"center": jnp.ones((3, 2))}, "circles.center has shape"),
    ],
)
def test_wrong_shapes(change, message):
    circles = scene(0, 4, 8, 8)._replace(**change)
    with pytest.raises(ValueError, match=message):
        render_circles(circles, 8, 8)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"softness": 0.0}, "softness must be positive"),
        ({"implementation": "fast"}, "'auto', 'plain' or 'kernel'"),
        ({"height": 0}, "must have pixels"),
    ],
)
def test_wrong_settings(settings, message):
    arguments = {"height": 8, "width": 8, **settings}
    with pytest.raises(ValueError, match=message):
        render_circles(scene(0, 4, 8, 8), **arguments)


def test_kernel_is_refused_where_it_cannot_run():
    if jax.default_backend() == "gpu":
        pytest.skip("this machine has a GPU")
    with pytest.raises(ValueError, match="needs an NVIDIA GPU"):
        render_circles(scene(0, 4, 8, 8), 8, 8, implementation="kernel")
