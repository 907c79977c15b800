import jax
import jax.numpy as jnp
import numpy as np
import pytest

import softqd
from softqd.algorithms import _dns
from softqd.ops.novelty import dominated_novelty


def line(evaluate=None):
    """One number: quality is its first digit away from 0, behavior the number."""
    return softqd.Problem(
        evaluate or (lambda x: (-jnp.abs(x[0] - 0.5), x[:1])),
        lambda key: jax.random.uniform(key, (1,)),
        behavior_bounds=(0.0, 1.0),
    )


def test_survivors_are_the_most_novel_of_parents_and_children(monkeypatch):
    """One step against the definition applied to what the step itself proposed."""
    problem = line()
    seen = {}

    def recording(problem, solutions, key=None, chunk_size=0):
        result = original(problem, solutions, key, chunk_size)
        seen["new"] = result
        return result

    algorithm = softqd.dns(problem, population_size=20, batch_size=15)
    state = jax.jit(algorithm.init)(jax.random.key(0))
    original = _dns.evaluation.evaluate
    monkeypatch.setattr(_dns.evaluation, "evaluate", recording)
    (after, info), new = jax.jit(lambda s: (algorithm.step(s), seen["new"]))(state)
    quality = jnp.concatenate([state.quality, new.quality])
    behavior = jnp.concatenate([state.behavior, new.behavior])
    score = dominated_novelty(quality, jnp.clip(behavior, 0, 1), 8)
    kept = np.argsort(-np.asarray(score), kind="stable")[:20]
    np.testing.assert_array_equal(
        np.sort(after.quality), np.sort(np.asarray(quality)[kept])
    )
    assert int(info.accepted) == (kept >= 20).sum()


@pytest.mark.filterwarnings("ignore:at the end, ")  # nothing holds children back
def test_the_best_is_never_lost():
    result = softqd.run(
        softqd.dns(line(), population_size=8, batch_size=4),
        num_iterations=50,
        log_every=1,
    )
    assert (np.diff(result.history["max_quality"]) >= 0).all()


def test_unsound_children_are_rejected_and_the_run_goes_on():
    def evaluate(x):
        quality = jnp.where(x[0] > 0.8, jnp.nan, -jnp.abs(x[0] - 0.5))
        return quality, jnp.clip(x[:1], 0, 1)

    start = np.linspace(0.1, 0.7, 8, dtype=np.float32)[:, None]
    algorithm = softqd.dns(line(evaluate), population_size=8, iso_sigma=0.5)
    state = jax.jit(algorithm.init)(jax.random.key(0), start)
    state, info = jax.jit(algorithm.step)(state)
    assert int(info.rejected) > 0
    assert np.isfinite(state.quality).all()
    assert info.is_finite.all()


@pytest.mark.parametrize("make", [softqd.dns, softqd.dns_g])
def test_single_parent_and_child(make):
    algorithm = make(
        softqd.problems.sphere(solution_dim=4), population_size=1, batch_size=1
    )
    result = softqd.run(algorithm, num_iterations=3, log_every=3)
    assert len(result.population.quality) == 1


def test_gradient_children_count_twice():
    problem = softqd.problems.sphere(solution_dim=4)
    algorithm = softqd.dns_g(
        problem, population_size=16, batch_size=6, grad_batch_size=5
    )
    result = softqd.run(algorithm, num_iterations=2, log_every=2)
    assert result.history["evaluations"].tolist() == [16, 16 + 2 * (6 + 2 * 5)]
    assert result.history["gradient_evaluations"].tolist() == [0, 10]


def test_gradient_children_improve_the_best():
    """Of a smooth peak, a gradient step of the best is better than the best."""
    problem = softqd.problems.sphere(solution_dim=64)
    settings = {"population_size": 32, "batch_size": 1, "iso_sigma": 0.0}
    settings |= {"line_sigma": 0.0, "grad_batch_size": 32, "step_size": 1.0}
    result = softqd.run(softqd.dns_g(problem, **settings), num_iterations=20)
    first, last = result.history["max_quality"][[0, -1]]
    assert last > first + 1.0


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"population_size": 0}, "population_size"),
        ({"batch_size": 0}, "batch_size"),
        ({"num_neighbors": 0}, "num_neighbors"),
        ({"grad_batch_size": 0}, "grad_batch_size"),
    ],
)
def test_wrong_settings(settings, name):
    with pytest.raises(ValueError, match=f"{name} must be a whole number at least 1"):
        softqd.dns_g(softqd.problems.sphere(), **settings)
