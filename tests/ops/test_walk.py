"""Programs with calls outside, against the same programs in JAX alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from softqd.ops.outside import Door, OutsideEvaluate
from softqd.ops.walk import Walker, abreast, answered


def inside(x):
    return jnp.sin(x).sum(), x[:2] ** 2


class Counted:
    """Computes in JAX what is asked of it, and keeps count."""

    def __init__(self):
        self.asked = []

    def evaluate(self, solutions, words):
        self.asked.append(("evaluate", len(solutions)))
        return jax.vmap(inside)(solutions)

    def linearize(self, solutions, words):
        self.asked.append(("linearize", len(solutions)))
        found, pullback = jax.vjp(jax.vmap(inside), solutions)

        def counted(*cotangents):
            self.asked.append(("pullback", len(solutions)))
            return pullback(cotangents)[0]

        return found, counted


def make_outside():
    counted = Counted()
    door = Door(counted.evaluate, counted.linearize)
    return counted, OutsideEvaluate(door, inside)


X = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(4, 3)


def batched(evaluate, x):
    return jax.vmap(evaluate)(x)


def nested(evaluate, x):
    return jax.vmap(jax.vmap(jax.jit(evaluate), 1), 1)(x.reshape(3, 2, 2))


def gradients(evaluate, x):
    found, pullback = jax.vjp(jax.jit(jax.vmap(evaluate)), x)
    return found, pullback(found)


def jacobian(evaluate, x):
    """Rows of one batch are pulled back from several times."""
    _, pullback = jax.vjp(jax.vmap(evaluate), x)
    unit = jnp.eye(3)
    pull = lambda e: pullback((jnp.full(4, e[0]), jnp.tile(e[None, 1:], (4, 1))))  # noqa: E731
    return jax.vmap(pull)(unit), jax.lax.map(pull, unit)


def each_jacobian(evaluate, x):
    """The same with rows outside and cotangents inside."""

    def one(x):
        _, pullback = jax.vjp(evaluate, x)
        return jax.vmap(lambda e: pullback((e[0], e[1:])))(jnp.eye(3))

    return jax.vmap(one)(x)


def looped(evaluate, x):
    def body(i, carry):
        x, total = carry
        quality, behavior = jax.vmap(evaluate)(x)
        pick = lambda: jax.vmap(evaluate)(x[:2])[0].sum()  # noqa: E731
        more = jax.lax.cond(i % 2 == 0, pick, lambda: jnp.float32(0.0))
        return x * 0.5 + behavior.mean(), total + quality.sum() + more

    return jax.lax.fori_loop(0, jnp.int32(3), body, (x, jnp.float32(0.0)))


def scanned(evaluate, x):
    def body(total, row):
        quality, behavior = evaluate(row)
        return total + quality, (behavior, row)

    return jax.lax.scan(body, jnp.float32(0.0), x, reverse=True)


def chunked(evaluate, x):
    return jax.lax.map(evaluate, x[:3], batch_size=2)


def through_a_scan(evaluate, x):
    """Gradients are asked for in another order than they were evaluated in."""

    def total(x):
        return jax.lax.scan(lambda t, r: (t * evaluate(r)[0], None), 1.0, x)[0]

    return jax.grad(jax.checkpoint(total))(x), jax.grad(total)(x)


def scan_of_nothing(evaluate, x):
    return jax.lax.scan(lambda t, r: (t, evaluate(r)), jnp.float32(1.0), x[:0])


PROGRAMS = [
    *(batched, nested, gradients, jacobian, each_jacobian, looped, scanned, chunked),
    *(through_a_scan, scan_of_nothing),
]


def assert_close(found, expected):
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)  # noqa: E731
    jax.tree.map(close, found, expected)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_walk_computes_what_the_program_does(program):
    _, evaluate = make_outside()
    walked = answered(Walker(lambda x: program(evaluate, x))(X))
    assert_close(walked, jax.jit(lambda x: program(inside, x))(X))


@pytest.mark.parametrize("program", [gradients, each_jacobian, scanned])
def test_a_compiled_program_calls_back(program):
    _, evaluate = make_outside()
    found = jax.jit(lambda x: program(evaluate, x))(X)
    assert_close(found, program(inside, jnp.asarray(X)))


def test_a_gradient_takes_one_forward_and_one_backward_pass():
    counted, evaluate = make_outside()
    answered(Walker(lambda x: gradients(evaluate, x))(X))
    assert counted.asked == [("linearize", 4), ("pullback", 4)]


def test_walks_abreast_ask_for_the_same_at_once():
    """The second one takes another branch, and gets its own gradients all the same."""
    counted, evaluate = make_outside()

    def program(evaluate, x):
        far = jax.lax.cond(
            x[0, 0] > 0.5, lambda: jax.vmap(evaluate)(x)[0], lambda: x[:, 0]
        )
        return gradients(evaluate, x), far

    walker = Walker(lambda x: program(evaluate, x))
    starts = [X, X + 2.0]
    found = answered(abreast([walker(x) for x in starts]))
    for one, x in zip(found, starts, strict=True):
        assert_close(one, program(inside, jnp.asarray(x)))
    asked = [("linearize", 8), ("pullback", 8), ("evaluate", 4)]
    assert sorted(counted.asked) == sorted(asked)
