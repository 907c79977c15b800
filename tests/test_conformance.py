"""What every registered algorithm must keep, from the day it is registered."""

import functools
import inspect
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toys
from jax.errors import KeyReuseError
from toys import make_bowl

import softqd
from softqd import registry

# Small sizes, for whatever an algorithm sets by default and calls so.
SMALL = {
    "batch_size": 5,
    "cells": 24,
    "grad_batch_size": 4,
    "num_emitters": 3,
    "num_neighbors": 4,
    "population_size": 12,
    "start_size": 7,
}
ALGORITHMS = sorted(registry.ALGORITHMS)


@pytest.fixture(params=[jnp.float32, jnp.float64, jnp.float16, jnp.bfloat16])
def dtype(request):
    """A type of solutions, with double precision where it needs that."""
    with jax.enable_x64(request.param == jnp.float64):
        yield request.param


def build(name, problem=None):
    problem = make_bowl() if problem is None else problem
    factory = registry.ALGORITHMS[name]
    found = inspect.signature(factory).parameters
    small = {k: v for k, v in SMALL.items() if k in found and found[k].default}
    return factory(problem, **small)


@functools.cache
def ready(name):
    """Algorithm, first state and compiled step, shared by the tests that only read."""
    algorithm = build(name)
    return (
        algorithm,
        jax.jit(algorithm.init)(jax.random.key(3)),
        jax.jit(algorithm.step),
    )


def assert_same(a, b, **tolerance):
    def plain(x):
        is_key = jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(x) if is_key else x)

    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(
        map(plain, jax.tree.leaves(a)), map(plain, jax.tree.leaves(b)), strict=True
    ):
        if tolerance:
            np.testing.assert_allclose(x, y, **tolerance)
        else:
            np.testing.assert_array_equal(x, y)


class Keyed(NamedTuple):
    """The least state that draws random numbers."""

    key: Any
    quality: Any


def use_keys_once(algorithm):
    """Have JAX follow every key through a start and two steps.

    Raises:
        KeyReuseError: If two draws share a key, or a step leaves behind a used one.
    """
    with jax.debug_key_reuse(True):
        state = jax.jit(algorithm.init)(jax.random.key(3))
        jax.jit(lambda s: algorithm.step(algorithm.step(s)[0]))(state)


def step_remembers_nothing(algorithm, state):
    """A step traced again is the same program with the same constants."""
    programs = [jax.make_jaxpr(lambda s: algorithm.step(s))(state) for _ in range(2)]
    assert str(programs[0]) == str(programs[1])
    for one, other in zip(*(program.consts for program in programs), strict=True):
        np.testing.assert_array_equal(one, other)


def test_reused_keys_are_noticed():
    climb = toys.climb(make_bowl())

    def step(state):
        noise = jax.random.normal(state.key, ()) - jax.random.uniform(state.key, ())
        return state._replace(quality=state.quality + noise), None

    state = Keyed(jax.random.key(0), jnp.zeros(3))
    careless = climb._replace(init=lambda key: state._replace(key=key), step=step)
    with pytest.raises(KeyReuseError):
        use_keys_once(careless)


def test_keys_that_a_step_leaves_behind_used_are_noticed():
    def step(state):
        return state._replace(quality=jax.random.normal(state.key, (3,))), None

    state = Keyed(jax.random.key(0), jnp.zeros(3))
    careless = toys.climb(make_bowl())._replace(
        init=lambda key: state._replace(key=key), step=step
    )
    with pytest.raises(KeyReuseError):
        use_keys_once(careless)


def test_a_step_that_remembers_is_noticed():
    climb = toys.climb(make_bowl())
    seen = []

    def step(state):
        seen.append(1)
        return climb.step(state._replace(quality=state.quality * len(seen)))

    state = jax.eval_shape(climb.init, jax.random.key(0))
    step_remembers_nothing(climb, state)
    with pytest.raises(AssertionError):
        step_remembers_nothing(climb._replace(step=step), state)


def test_an_unset_batch_follows_a_small_population():
    for factory in registry.ALGORITHMS.values():
        if "population_size" in inspect.signature(factory).parameters:
            algorithm = factory(make_bowl(), population_size=4)
            state = jax.eval_shape(algorithm.init, jax.random.key(0))
            jax.eval_shape(algorithm.step, state)


@pytest.mark.parametrize("name", ALGORITHMS)
class TestConformance:
    def test_contract(self, name):
        algorithm, state, step = ready(name)
        new, info = step(state)
        assert jax.tree.structure(new) == jax.tree.structure(state)
        assert info._fields[:2] == ("evaluations", "gradient_evaluations")
        population = algorithm.population(new)
        n = len(population.occupied)
        assert population.quality.shape == population.occupied.shape == (n,)
        assert population.behavior.shape == (n, 2)
        assert population.occupied.dtype == bool
        assert info.is_finite.dtype == bool
        assert algorithm.name == name

    def test_evaluations_of_the_population_are_true(self, name):
        algorithm, state, step = ready(name)
        population = algorithm.population(step(state)[0])
        quality, behavior = jax.vmap(algorithm.problem.evaluate)(population.solutions)
        keep = np.asarray(population.occupied)
        np.testing.assert_allclose(
            population.quality[keep], quality[keep], rtol=1e-5, atol=1e-5
        )
        np.testing.assert_allclose(population.behavior[keep], behavior[keep], rtol=1e-5)

    def test_same_seed_same_bits(self, name):
        algorithm, state, step = ready(name)
        again = jax.jit(algorithm.init)(jax.random.key(3))
        assert_same(step(state), step(again))

    def test_other_seed_other_population(self, name):
        algorithm, state, step = ready(name)
        other = jax.jit(algorithm.init)(jax.random.key(4))
        one, other = step(state)[0], step(other)[0]
        one, other = algorithm.population(one), algorithm.population(other)
        assert not np.array_equal(one.quality, other.quality)

    def test_old_style_keys_are_welcome(self, name):
        """They give the same numbers, and a step keeps their style."""
        algorithm, state, _ = ready(name)
        old = jax.jit(algorithm.init)(jax.random.PRNGKey(3))
        assert_same(algorithm.population(old), algorithm.population(state))
        new, _ = jax.eval_shape(algorithm.step, old)
        assert new.key.dtype == old.key.dtype == jnp.uint32

    @pytest.mark.slow
    def test_keys_are_not_reused(self, name):
        algorithm, _, _ = ready(name)
        use_keys_once(algorithm)

    def test_loop_equals_scan(self, name):
        _, state, step = ready(name)
        looped = state
        for _ in range(4):
            looped, _ = step(looped)
        scanned, _ = jax.lax.scan(lambda s, _: step(s), state, length=4)
        assert_same(looped, scanned, rtol=1e-4, atol=1e-5)

    def test_one_compilation(self, name):
        algorithm, state, _ = ready(name)
        step = jax.jit(algorithm.step)
        for _ in range(3):
            state, _ = step(state)
        assert step._cache_size() == 1

    def test_steps_depend_on_their_state_alone(self, name):
        algorithm, state, _ = ready(name)
        step_remembers_nothing(algorithm, state)

    def test_given_solutions_are_left_untouched(self, name):
        """Neither written to, where they are NumPy's, nor donated, where they are ours.

        Traced with the array at hand, which needs no compilation.
        """
        algorithm, state, _ = ready(name)
        given = algorithm.population(state).solutions[:12]
        solutions = np.array(given)
        kept = solutions.copy()
        jax.eval_shape(lambda key: algorithm.init(key, solutions), jax.random.key(0))
        np.testing.assert_array_equal(solutions, kept)
        softqd.run(algorithm, solutions=given, num_iterations=1)
        np.testing.assert_array_equal(given, kept)  # raises where it was donated

    def test_reported_evaluations_are_the_counted_ones(self, name):
        calls = []

        def counted(x):
            jax.debug.callback(lambda *_: calls.append(1), x[0])
            return 10.0 - jnp.sum(x**2), jax.nn.sigmoid(x[:2])

        problem = softqd.Problem(
            counted, lambda key: jax.random.normal(key, (6,)), (0.0, 1.0)
        )
        algorithm = build(name, problem)
        state = jax.block_until_ready(jax.jit(algorithm.init)(jax.random.key(0)))
        jax.effects_barrier()
        assert len(calls) == int(state.init_evaluations)
        calls.clear()
        _, info = jax.block_until_ready(jax.jit(algorithm.step)(state))
        jax.effects_barrier()
        assert len(calls) == int(info.evaluations)
        assert int(info.gradient_evaluations) <= int(info.evaluations)

    def test_resumed_run_equals_the_straight_one(self, name, tmp_path):
        algorithm, _, _ = ready(name)
        straight = softqd.run(algorithm, seed=5, num_iterations=7, log_every=3)
        same = {"seed": 5, "num_iterations": 7, "log_every": 3}

        def stop(point):
            if point.iteration == 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            softqd.run(algorithm, checkpoint_dir=tmp_path, callback=stop, **same)
        resumed = softqd.run(algorithm, checkpoint_dir=tmp_path, resume=True, **same)
        assert_same(straight.population, resumed.population)
        assert straight.history["iteration"].tolist() == [0, 3, 6, 7]
        assert resumed.history["iteration"].tolist() == [0, 3, 6, 7]

    def test_longer_run_continues_a_shorter_one(self, name, tmp_path):
        algorithm, _, _ = ready(name)
        same = {"seed": 5, "log_every": 3, "checkpoint_dir": tmp_path}
        first = softqd.run(algorithm, num_iterations=4, **same)
        longer = softqd.run(algorithm, num_iterations=7, resume=True, **same)
        # 4 is a log point because the first part ended there.
        assert longer.history["iteration"].tolist() == [0, 3, 4, 6, 7]
        kept = longer.history["mean_quality"][:3]
        np.testing.assert_array_equal(kept, first.history["mean_quality"])

    def test_vmap_over_seeds(self, name):
        algorithm, _, _ = ready(name)
        many = softqd.run(algorithm, seed=[3, 8], num_iterations=5)
        for result in many:
            single = softqd.run(algorithm, seed=result.seed, num_iterations=5)
            assert_same(single.population, result.population, rtol=1e-3, atol=1e-4)

    def test_nested_pytree_solutions(self, name):
        def evaluate(params):
            hidden = jnp.tanh(params["in"]["w"] @ jnp.array([0.5, -0.3]))
            out = params["out"] @ hidden
            return 5.0 - out[2] ** 2, jax.nn.sigmoid(out[:2])

        def sample(key):
            a, b = jax.random.split(key)
            return {
                "in": {"w": jax.random.normal(a, (4, 2))},
                "out": jax.random.normal(b, (3, 4)),
            }

        problem = softqd.Problem(evaluate, sample, (0.0, 1.0))
        result = softqd.run(build(name, problem), num_iterations=30, log_every=30)
        assert result.population.solutions["in"]["w"].shape[1:] == (4, 2)
        # The best there is.
        assert 4.5 < result.history["max_quality"][-1] <= 5.0

    def test_evaluate_of_the_wrong_shape_is_refused(self, name):
        problem = softqd.Problem(lambda x: (x, x), lambda key: jnp.ones(3), (0.0, 2.0))
        with pytest.raises(ValueError, match=r"quality of shape \(3,\)"):
            build(name, problem).init(jax.random.key(0))

    def test_a_step_keeps_the_types_of_its_state(self, name, dtype):
        """As a loop demands: traced, which needs no compilation."""

        def types(tree):
            return [(x.shape, x.dtype) for x in jax.tree.leaves(tree)]

        algorithm = build(name, make_bowl(dtype=dtype))
        state = jax.eval_shape(algorithm.init, jax.random.key(0))
        new, _ = jax.eval_shape(algorithm.step, state)
        assert types(new) == types(state)
        population = jax.eval_shape(algorithm.population, state)
        assert population.solutions.dtype == dtype
        # Half precision is for solutions alone.
        wide = jnp.promote_types(dtype, jnp.float32)
        assert population.quality.dtype == population.behavior.dtype == wide

    @pytest.mark.slow
    def test_a_start_and_three_steps_in_every_precision(self, name, dtype):
        algorithm = build(name, make_bowl(dtype=dtype))

        @jax.jit
        def found(key):
            start = algorithm.init(key)
            end = jax.lax.fori_loop(0, 3, lambda _, s: algorithm.step(s)[0], start)
            return algorithm.population(end)

        population = found(jax.random.key(0)).compact()
        x = np.asarray(population.solutions, np.float64)
        # The bowl by NumPy at the solutions that were kept; some ten roundings of
        # numbers up to 32 are allowed.
        error = 320 * float(jnp.finfo(dtype).eps)
        quality = 10.0 - ((x - 0.3) ** 2).sum(1)
        np.testing.assert_allclose(population.quality, quality, atol=error)
        behavior = 1 / (1 + np.exp(-x[:, :2]))
        np.testing.assert_allclose(population.behavior, behavior, atol=error)
        assert len(x)

    def test_problem_without_sample_needs_solutions(self, name):
        problem = softqd.Problem(lambda x: (x.sum(), x[:2]))
        with pytest.raises(ValueError, match="has no sample function"):
            build(name, problem).init(jax.random.key(0))
