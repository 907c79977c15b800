"""AskTell: every algorithm, told what JAX computes, does what `softqd.run` does."""

import os

import jax
import numpy as np
import pytest
from test_conformance import ALGORITHMS, build
from toys import make_bowl

import softqd
from softqd.interop import AskTell, told

BOWL = make_bowl()
evaluate = jax.jit(jax.vmap(BOWL.evaluate))


@jax.jit
def pull(solutions, *cotangents):
    _, pullback = jax.vjp(jax.vmap(BOWL.evaluate), solutions)
    return pullback(cotangents)[0]


def tell_truly(loop, solutions):
    found = evaluate(solutions)
    loop.tell(*found, lambda *cotangents: pull(solutions, *cotangents))
    return len(solutions)


def drive(loop):
    """To the end; how many solutions were evaluated."""
    asked = 0
    while not loop.is_done:
        asked += tell_truly(loop, loop.ask())
    return asked


def assert_same(one, other, **tolerance):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("dns", "squad") else pytest.mark.slow)
        for name in ALGORITHMS
    ],
)
def test_it_does_what_a_run_does(name):
    algorithm = build(name, BOWL)
    expected = softqd.run(algorithm, seed=3, num_iterations=3, log_every=1)
    loop = AskTell(algorithm, seed=3, num_iterations=3)
    assert drive(loop) == loop.evaluations
    result = loop.result()
    for column in ("evaluations", "gradient_evaluations", "vector_jacobian_products"):
        np.testing.assert_array_equal(result.history[column], expected.history[column])
    assert_same(result.population, expected.population, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_no_batch_is_asked_for_twice():
    """As expensive as they may be; a run in JAX evaluates them again for gradients."""
    algorithm = softqd.squad(BOWL, population_size=6, batch_size=4, num_neighbors=2)
    loop = AskTell(algorithm, seed=3, num_iterations=2)
    assert drive(loop) == loop.evaluations
    expected = softqd.run(algorithm, seed=3, num_iterations=2).population
    assert_same(loop.result().population, expected, rtol=1e-4, atol=1e-5)


def small(**settings):
    """A problem that is only told, and a method that compiles quickly."""
    problem = told(
        lambda rng: {"a": rng.normal(size=2), "b": rng.normal(size=(2, 1))},
        behavior_dim=2,
        behavior_bounds=(-20, 20),
        quality_level=0.0,
    )
    return softqd.dns(problem, population_size=8, batch_size=8, **settings)


def values(solutions):
    a, b = solutions["a"], solutions["b"][..., 0]
    return 50 - (a**2).sum(1), a + b


@pytest.fixture(scope="module")
def dns():
    return small()


def test_it_goes_on_where_it_was_saved(dns, tmp_path):
    straight = AskTell(dns, seed=1, num_iterations=3)
    while not straight.is_done:
        straight.tell(*values(straight.ask()))

    def cut_short(num_told):
        loop = AskTell(dns, seed=1, num_iterations=3)
        if (tmp_path / "told.npz").exists():
            loop.load(tmp_path)
        for _ in range(num_told):
            loop.tell(*values(loop.ask()))
        loop.ask()  # is asked again
        loop.save(tmp_path)

    for num_told in (0, 1, 1, 1, 0):
        cut_short(num_told)
    loop = AskTell(dns, seed=1, num_iterations=3)
    loop.load(tmp_path)
    assert loop.evaluations == 24
    loop.tell(*values(loop.ask()))
    assert loop.is_done
    assert_same(loop.result().population, straight.result().population)
    assert loop.result().history["evaluations"].tolist() == [8, 16, 24, 32]


def test_saving_follows_no_link(dns, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("kept")
    folder = tmp_path / "loop"
    folder.mkdir()
    # Names that could be guessed.
    for name in ("told.npz", f".told.npz.{os.getpid()}"):
        (folder / name).symlink_to(outside)
    AskTell(dns).save(folder)
    assert outside.read_text() == "kept"
    assert not (folder / "told.npz").is_symlink()
    (folder / "told.npz").write_text("PK damaged")
    with pytest.raises(ValueError, match=r"told\.npz is not a readable file of arrays"):
        AskTell(dns).load(folder)


def test_what_was_told_within_an_iteration_is_saved(tmp_path):
    """Of squad's start, which asks three times."""
    algorithm = softqd.squad(BOWL, population_size=4)
    loop = AskTell(algorithm, num_iterations=1)
    for _ in range(2):
        tell_truly(loop, loop.ask())
    loop.save(tmp_path)
    again = AskTell(algorithm, num_iterations=1)
    again.load(tmp_path)
    assert_same(again.ask(), loop.ask())
    assert loop.wants_gradient == again.wants_gradient


def test_another_loop_is_not_continued(dns, tmp_path):
    with pytest.raises(softqd.CheckpointError, match="holds no saved loop"):
        AskTell(dns).load(tmp_path)
    loop = AskTell(dns, seed=1)
    loop.tell(*values(loop.ask()))
    loop.save(tmp_path)
    with pytest.raises(softqd.CheckpointError, match="seeds is"):
        AskTell(dns, seed=2).load(tmp_path)
    with pytest.raises(ValueError, match="has begun"):
        loop.load(tmp_path)


def test_wrong_order_and_shapes_are_said(dns):
    loop = AskTell(dns, num_iterations=0)
    with pytest.raises(ValueError, match=r"call ask\(\) before tell"):
        loop.tell([], [])
    with pytest.raises(ValueError, match="no population yet"):
        loop.result()
    quality, behavior = values(loop.ask())
    with pytest.raises(ValueError, match=r"ask\(\) was called twice"):
        loop.ask()
    with pytest.raises(
        ValueError, match=r"quality has shape \(8, 1\), expected \(8,\)"
    ):
        loop.tell(quality[:, None], behavior)
    with pytest.raises(ValueError, match=r"behavior has shape \(8, 3\), .* \(8, 2\)"):
        loop.tell(quality, np.ones((8, 3)))
    with pytest.raises(ValueError, match="quality must be an array of numbers"):
        loop.tell(["good"] * 8, behavior)
    loop.tell(quality, behavior)
    assert loop.is_done
    with pytest.raises(ValueError, match="loop is over"):
        loop.ask()
    assert len(loop.result().population) == 8


@pytest.mark.parametrize("failure", [None, np.nan])
def test_evaluations_that_failed_are_told_as_such(dns, failure):
    loop = AskTell(dns, num_iterations=1)
    loop.tell(*values(loop.ask()))
    kept = loop.result().population
    quality, behavior = map(list, values(loop.ask()))
    quality[1:], behavior[1:] = [failure] * 7, [failure and [failure] * 2] * 7
    quality[0] = 1e6
    loop.tell(quality, behavior)
    population = loop.result().population
    assert np.isfinite(population.quality).all()
    assert np.isin(population.quality, [*kept.quality, 1e6]).all()
    assert loop.evaluations == 16


def test_a_start_that_failed_is_refused(dns):
    loop = AskTell(dns)
    quality, behavior = values(loop.ask())
    quality[3] = np.nan
    with pytest.raises(ValueError, match="quality of solution 3 at the start"):
        loop.tell(quality, behavior)
    assert not loop.is_done
    quality[3] = 1.0
    loop.tell(quality, behavior)
    assert loop.result().population.quality[3] == 1.0


def test_what_raised_can_be_told_once_more():
    """A pullback with a mistake does not cost what was told before."""
    algorithm = softqd.squad(BOWL, population_size=4)
    loop, other = (AskTell(algorithm, num_iterations=2) for _ in range(2))
    while not loop.is_done:
        solutions = loop.ask()
        if loop.wants_gradient:
            with pytest.raises(ValueError, match="must return a gradient like"):
                loop.tell(*evaluate(solutions), lambda *_: np.zeros(3))
            with pytest.raises(ValueError, match="tell"):
                loop.ask()
        tell_truly(loop, solutions)
    drive(other)
    assert_same(loop.result().population, other.result().population)
    np.testing.assert_array_equal(
        loop.result().history["evaluations"], other.result().history["evaluations"]
    )


def test_a_sample_that_raised_is_drawn_once_more():
    calls = []

    def sample(rng):
        calls.append(rng)
        return 1 / 0 if len(calls) == 2 else rng.normal(size=2)  # the first is a model

    problem = told(sample, behavior_dim=2)
    loop = AskTell(softqd.dns(problem, population_size=8, batch_size=8))
    with pytest.raises(ZeroDivisionError):
        loop.ask()
    assert loop.ask().shape == (8, 2)


def test_gradients_are_asked_for():
    loop = AskTell(softqd.squad_published(BOWL, population_size=4, batch_size=4))
    while not loop.wants_gradient:
        loop.tell(*evaluate(loop.ask()))
    solutions = loop.ask()
    with pytest.raises(ValueError, match="squad_published takes gradients: tell"):
        loop.tell(*evaluate(solutions))
    with pytest.raises(ValueError, match="gradient like the solutions"):
        loop.tell(*evaluate(solutions), lambda *_: solutions[:1])


def test_algorithms_that_need_gradients_say_so_at_once(dns):
    with pytest.raises(ValueError, match="has no gradient, which this algorithm needs"):
        AskTell(softqd.ga_me(dns.problem, cells=4, batch_size=2)).ask()


def test_noise_is_the_users(bowl):
    """Of a problem that takes a key, solutions alone are asked for."""
    noisy = lambda x, key: (x.sum() + jax.random.normal(key), x[:2])  # noqa: E731
    problem = softqd.Problem(noisy, bowl.sample)
    loop = AskTell(softqd.dns(problem, population_size=4, batch_size=4))
    assert loop.ask().shape == (4, 6)
    loop.tell(np.ones(4), np.ones((4, 2)))
    assert loop.result().population.quality.tolist() == [1.0] * 4


def test_hidden_problems_are_named(bowl):
    algorithm = softqd.dns(bowl)
    hidden = algorithm._replace(step=lambda state: algorithm.step(state))
    with pytest.raises(ValueError, match="algorithm 'dns' hides its problem"):
        AskTell(hidden)


def test_given_solutions_start_it(dns):
    start = {"a": np.ones((8, 2)), "b": np.zeros((8, 2, 1))}
    loop = AskTell(dns, solutions=start)
    assert_same(loop.ask(), start)
