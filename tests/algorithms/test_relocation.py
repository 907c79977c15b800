import jax
import jax.numpy as jnp
import numpy as np
import pytest

from softqd.algorithms._relocation import (
    ENOUGH,
    LINE,
    NOISE,
    NOISE_ALONE,
    SELDOM,
    WIDER,
    Nearest,
    Places,
    RelocationState,
    is_due,
    nearest_places,
    relocation,
    take_least,
    take_nearest,
    worth,
)


def places(z, light):
    return Places(jnp.asarray(z, jnp.float32)[:, None], jnp.asarray(light, jnp.float32))


def test_worth_is_light_for_oneself():
    found = worth(places([0.0, 1.0, 50.0], [4.0, 4.0, 4.0]), jnp.float32(2.0))
    shared = 4.0 / (1.0 + np.exp(-0.5))
    np.testing.assert_allclose(found, [shared, shared, 4.0], rtol=1e-5)


def test_bright_neighbors_overlap_more():
    # Roots of the light are 1 and 3, their mean is 2.
    found = worth(places([0.0, 0.0], [1.0, 9.0]), jnp.float32(1.0))
    np.testing.assert_allclose(found, [1.0 / 2.5, 9.0 / 1.5], rtol=1e-6)


def test_a_child_is_weighed_without_the_one_it_replaces():
    old = places([0.0, 1.0], [4.0, 4.0])
    near = nearest_places(old, places([0.1], [5.0]), jnp.float32(1.0))
    assert near.row.tolist() == [0]
    np.testing.assert_allclose(near.worth, 5.0 / (1 + np.exp(-0.81)), rtol=1e-5)
    np.testing.assert_allclose(near.worth_of_nearest, 4 / (1 + np.exp(-1)), rtol=1e-5)
    both = np.exp(-0.81) + np.exp(-0.01)
    np.testing.assert_allclose(near.worth_beside, 5.0 / (1 + both), rtol=1e-5)


@pytest.mark.parametrize(("light", "expected"), [(4.2, [0]), (3.8, [2])])
def test_a_better_child_takes_the_place_of_the_nearest(light, expected):
    compete = relocation(2, is_alone=False).compete
    rows = compete(places([0.0, 9.0], [4.0, 1.0]), places([0.0], [light]), 1.0 / WIDER)
    assert rows.tolist() == expected


def test_without_gradients_a_child_takes_the_least_wherever_it_is():
    compete = relocation(2, is_alone=True).compete
    # The child is worse than its nearest, and better than the dim one far away.
    rows = compete(places([0.0, 90.0], [4.0, 1.0]), places([5.0], [3.0]), 1.0 / WIDER)
    assert rows.tolist() == [1]


def test_dark_children_take_nothing():
    compete = relocation(2, is_alone=True).compete
    rows = compete(places([0.0, 9.0], [0.0, 1.0]), places([5.0], [0.0]), 1.0)
    assert rows.tolist() == [2]


def test_of_equal_children_the_first_wins():
    row, ones = jnp.array([1, 1, 1]), jnp.ones(3)
    near = Nearest(row, 2 * ones, ones, ones)
    assert take_nearest(near, 2).tolist() == [1, 2, 2]


@pytest.mark.parametrize("seed", range(3))
def test_no_row_is_taken_twice(seed):
    rng = np.random.default_rng(seed)
    old = Places(rng.normal(size=(30, 2)).astype("f"), rng.random(30).astype("f"))
    new = Places(rng.normal(size=(12, 2)).astype("f"), rng.random(12).astype("f"))
    old, new = jax.tree.map(jnp.asarray, (old, new))
    rows = np.asarray(relocation(30, is_alone=True).compete(old, new, jnp.float32(0.1)))
    taken = rows[rows < 30]
    assert len(np.unique(taken)) == len(taken) > 3
    # The sum of what all add cannot fall by more than new overlaps bring.
    assert new.light[rows < 30].mean() > old.light[taken].mean()


def test_the_best_child_meets_the_least_solution():
    beside = jnp.array([0.3, 2.0, 5.0])
    near = Nearest(jnp.zeros(3, int), beside, beside, beside)
    rows = take_least(jnp.full(3, 4), near, jnp.array([9.0, 0.1, 0.4, 0.2]))
    assert rows.tolist() == [4, 3, 1]  # 0.3 is less than the third least, 0.4


@pytest.mark.parametrize(("is_alone", "noise"), [(False, NOISE), (True, NOISE_ALONE)])
def test_children_lie_around_and_between_their_parents(is_alone, noise):
    spread = jnp.array([1.0, 100.0])
    solutions = {"x": spread[None] * jax.random.normal(jax.random.key(0), (400, 2))}
    propose = relocation(32_000, is_alone=is_alone).propose
    children, parents = propose(jax.random.key(1), solutions)
    moved = children["x"] - solutions["x"][parents]
    # Independent noise, and the line to another: variance 2 of the difference.
    expected = np.sqrt(noise**2 + 2 * LINE**2)
    np.testing.assert_allclose(moved.std(0) / spread, expected, rtol=0.05)


def rounds_of(crew, state, num_taken, num_iterations=800):
    """How many rounds there are where each has so many children that take a place."""
    num_rounds = 0
    for _ in range(num_iterations):
        due = bool(is_due(state))
        num_rounds += due
        state = crew.update(state, jnp.int32(num_taken if due else 0))
    return num_rounds


@pytest.mark.parametrize("num_taken", [100, 5, 2, 0])
def test_there_are_as_many_rounds_as_pay(num_taken):
    crew = relocation(800, is_alone=False)
    # The mean over rounds is already there.
    state = crew.init()._replace(taken=jnp.float32(num_taken / crew.num_children))
    often = np.clip(ENOUGH * num_taken / crew.num_children, 1 / SELDOM, 1)
    assert rounds_of(crew, state, num_taken) == pytest.approx(800 * often, abs=2)


def test_rounds_begin_often_and_come_back_where_they_pay_again():
    crew = relocation(800, is_alone=False)
    assert rounds_of(crew, crew.init(), 0, 10) == 10
    seldom = RelocationState(jnp.zeros(()), jnp.ones(()))
    assert rounds_of(crew, seldom, 50, 160) > 80


def test_children_alone_come_in_every_iteration():
    crew = relocation(800, is_alone=True)
    assert rounds_of(crew, crew.init(), 0, 20) == 20
