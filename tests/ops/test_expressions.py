import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import softqd
from softqd.ops.expressions import as_optimizer


@pytest.mark.parametrize(
    "given", ["adam(0.1)", 0.1, np.float32(0.1), jnp.float32(0.1), optax.adam(0.1)]
)
def test_a_text_a_rate_and_an_optimizer_are_one(given):
    optimizer = as_optimizer(given)
    updates, _ = optimizer.update(jnp.array([3.0]), optimizer.init(jnp.zeros(1)))
    np.testing.assert_allclose(updates, [-0.1], rtol=1e-5)  # Adam's first step


def test_a_rate_may_be_traced():
    def first_step(rate):
        optimizer = as_optimizer(rate)
        return optimizer.update(jnp.float32(3.0), optimizer.init(jnp.float32(0.0)))[0]

    np.testing.assert_allclose(jax.jit(first_step)(0.1), -0.1, rtol=1e-5)


@pytest.mark.parametrize(
    "given", [True, 0.0, -1, np.nan, np.inf, np.ones(2), [0.1], "constant_schedule(1)"]
)
def test_what_is_no_optimizer_is_refused(given):
    with pytest.raises(ValueError, match="optimizer must be an optax optimizer, a tex"):
        as_optimizer(given)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("adam", "optimizer 'adam' cannot be read .it is not a call.; write for examp"),
        ("adm(0.1)", "unknown optax function 'adm'; did you mean 'adam'"),
        ("__import__('os')", "unknown optax function '__import__'"),
    ],
)
def test_texts_that_cannot_be_read(text, message):
    with pytest.raises(ValueError, match=message):
        as_optimizer(text)


@pytest.mark.parametrize(
    "factory", [softqd.squad, softqd.squad_published, softqd.cma_mega, softqd.cma_maega]
)
def test_algorithms_take_texts_and_rates(bowl, factory):
    given = {"cells": 4} if factory in (softqd.cma_mega, softqd.cma_maega) else {}
    factory(bowl, optimizer="adam(0.1)", **given)
    assert factory(bowl, optimizer=0.1, **given).settings["optimizer"] == 0.1
    with pytest.raises(ValueError, match="unknown optax function 'adm'"):
        factory(bowl, optimizer="adm(0.1)", **given)
