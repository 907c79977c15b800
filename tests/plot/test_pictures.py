import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import softqd
from softqd.plot import gallery, picture_table, representatives
from softqd.plot._pictures import best_of_cells


def make(dim=2, target=None):
    """Solutions are gray values; behavior and picture show them."""
    return softqd.Problem(
        lambda x: (x.sum(), jnp.broadcast_to(x, (dim,))),
        behavior_bounds=(0.0, 1.0),
        render=lambda x: jnp.broadcast_to(x, (4, 4, 3)),
        target=target,
    )


def population(values):
    x = np.asarray(values, np.float32)
    return softqd.Population(
        x[:, None], 1 - x, np.stack([x, -x], 1), np.ones(len(x), bool)
    )


def test_pictures_are_the_best_and_the_ends():
    figure = gallery(population([0.9, 0.1, 0.5]), make(target=np.full((4, 4, 3), 0.25)))
    shown = [float(a.images[0].get_array().mean()) for a in figure.axes if a.images]
    first, second = [0.1, 0.5, 0.9], [0.9, 0.5, 0.1]
    np.testing.assert_allclose(shown, [0.25, 0.1, *first, *second], rtol=1e-6)
    titles = [a.get_title() for a in figure.axes if a.images]
    assert titles[1] == "best: quality 0.9"
    assert titles[4] == "behavior 1, high: 0.9\nquality 0.1"


def test_one_solution_and_no_target():
    figure = gallery(population([0.4]), make())
    assert sum(bool(a.images) for a in figure.axes) == 1 + 3 * 2


def test_names_of_the_problem():
    problem = softqd.problems.image_composition(num_circles=6, size=8)
    solutions = jax.vmap(problem.sample)(jax.random.split(jax.random.key(0), 4))
    quality, behavior = jax.vmap(problem.evaluate)(solutions)
    everyone = softqd.Population(solutions, quality, behavior, jnp.ones(4, bool))
    titles = [a.get_title() for a in gallery(everyone, problem).axes]
    assert titles[0] == "target"
    assert sum("clustering" in title for title in titles) == 3


def test_representatives_are_those_that_select_takes():
    values = [0.9, 0.1, 0.5, 0.11, 0.3]
    problem = make(dim=1)
    values_of = np.array(values)[:, None]
    everyone = dataclasses.replace(population(values), behavior=values_of)
    figure = representatives(everyone, problem, size=3)
    shown = [float(a.images[0].get_array().mean()) for a in figure.axes]
    chosen = softqd.select(1 - np.array(values), np.array(values)[:, None], 3)
    np.testing.assert_allclose(shown, np.array(values)[chosen], rtol=1e-6)
    assert len(representatives(everyone, problem, size=9).axes) == 5


def test_what_cannot_be_drawn():
    with pytest.raises(ValueError, match="has no render"):
        gallery(population([0.5]), softqd.problems.arm())
    with pytest.raises(ValueError, match="empty"):
        gallery(population([]), make())


@pytest.mark.parametrize("draw", [gallery, representatives, picture_table])
def test_pictures_of_a_result_and_of_nobody(draw):
    problem, values = make(), [0.9, 0.1, 0.5]
    result = softqd.Result(population(values), {})
    shown = [a.images[0].get_array() for a in draw(result, problem).axes if a.images]
    expected = [
        a.images[0].get_array()
        for a in draw(result.population, problem).axes
        if a.images
    ]
    np.testing.assert_array_equal(shown, expected)
    with pytest.raises(ValueError, match="the population is empty"):
        draw(population([]), problem)


def test_representatives_need_bounds():
    problem = dataclasses.replace(make(), behavior_bounds=None)
    with pytest.raises(ValueError, match=r"bounded behavior space; .* 'gallery'"):
        representatives(population([0.5]), problem)


def test_table_shows_the_best_of_each_cell():
    x = np.array([0.0, 0.1, 0.45, 0.9, 1.0], np.float32)
    everyone = softqd.Population(
        x[:, None], np.array([1.0, 5, 3, 4, 2]), np.stack([x, x], 1), np.ones(5, bool)
    )
    figure = picture_table(everyone, make(), size=2)
    shown = {
        (i // 2, i % 2): float(a.images[0].get_array().mean())
        for i, a in enumerate(figure.axes)
        if a.images
    }
    # Rows from above: high values of the second behavior first.
    assert shown == {(0, 1): pytest.approx(0.9), (1, 0): pytest.approx(0.1)}
    assert figure.axes[1].get_title() == "0.9, 0.9\nquality 4"


def test_table_of_one_solution_and_of_constant_behaviors():
    figure = picture_table(population([0.4]), make(), size=3)
    assert sum(bool(a.images) for a in figure.axes) == 1
    assert (best_of_cells(np.arange(4.0), np.ones((4, 2)), 2) >= 0).sum() == 1


def test_table_wants_two_behaviors():
    one = np.ones((1, 1)), np.ones(1), np.ones((1, 3)), np.ones(1, bool)
    with pytest.raises(ValueError, match="has 3 behaviors"):
        picture_table(softqd.Population(*one), make(dim=3))
