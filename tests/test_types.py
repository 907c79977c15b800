import dataclasses
import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import softqd
from softqd.types import check_evaluate


def good(x):
    return x.sum(), x[:2]


def test_name_bounds_and_dimension():
    problem = softqd.Problem(good, lambda key: jnp.zeros(5), (0, [1, 2]))
    assert problem.name == "good"
    assert problem.behavior_dim == 2
    np.testing.assert_array_equal(problem.bounds(2), [[0, 0], [1, 2]])


def test_unbounded_space():
    low, high = softqd.Problem(good).bounds(2)
    assert np.isneginf(low).all()
    assert np.isposinf(high).all()


class Activation:
    """A leaf that is a function, as modules of equinox have them."""

    def __call__(self, x):
        return x


def test_a_module_with_functions_in_it_is_told_from_a_solution(bowl):
    model = {"weight": jnp.ones(3), "activation": Activation()}
    problem = softqd.Problem(lambda m: good(m["weight"]), lambda key: model)
    message = (
        r"no array, \['activation'\] = <.*Leave it out; with equinox, params, stat"
    )
    with pytest.raises(ValueError, match=message):
        _ = problem.behavior_dim
    algorithm = softqd.squad(problem, population_size=4)
    for start in (
        lambda: softqd.run(algorithm, num_iterations=1),
        lambda: algorithm.init(jax.random.key(0), model),
    ):
        with pytest.raises(ValueError, match=message):
            start()


def test_dimension_unknown_without_sample():
    problem = softqd.Problem(good, behavior_bounds=(0, 1))
    assert problem.behavior_dim is None
    with pytest.raises(ValueError, match="give it sample="):
        softqd.cma_mega(problem)


@pytest.mark.parametrize(
    "bounds", [(1, 0), (0, 0), (0,), 3, (0, np.nan), ([[0.0]], [[1.0]]), "ab"]
)
def test_bad_bounds(bounds):
    with pytest.raises(ValueError, match="behavior_bounds must be"):
        softqd.Problem(good, behavior_bounds=bounds)


@pytest.mark.parametrize("field", ["evaluate", "sample", "render"])
def test_not_a_function(field):
    arguments = {"evaluate": good, field: 3}
    with pytest.raises(TypeError, match=f"{field} must be a function"):
        softqd.Problem(**arguments)


@pytest.mark.parametrize(
    ("evaluate", "message"),
    [
        (lambda x: x.sum(), r"must return \(quality, behavior\)"),
        (lambda x: (x, x), r"quality of shape \(4,\).*expected a scalar"),
        (lambda x: (x.sum(), x.sum()), r"behavior of shape \(\).*expected a vector"),
        (lambda x: (x.sum(), x[None]), r"behavior of shape \(1, 4\)"),
        (
            lambda x: (x.sum().astype(int), x),
            "quality of dtype int32.*expected a float",
        ),
        (lambda x: (x.sum(), x[:0]), "empty behavior"),
        (lambda x: (x.sum(), x[:3]), r"shape \(3,\), but behavior_bounds declare 2"),
    ],
)
def test_wrong_output_of_evaluate(evaluate, message):
    problem = softqd.Problem(evaluate, behavior_bounds=([0, 0], [1, 1]))
    with pytest.raises(ValueError, match=message):
        check_evaluate(problem, jnp.zeros(4))


@pytest.mark.parametrize(
    "evaluate",
    [
        lambda x: (float(x.sum()), x[:2]),
        lambda x: (np.asarray(x).sum(), x[:2]),
        # As torch's: "argument 'input' must be Tensor, not DynamicJaxprTracer".
        lambda x: "a" + x,
    ],
)
def test_functions_of_other_libraries_are_shown_their_door(evaluate):
    problem = softqd.Problem(evaluate, lambda key: jax.random.normal(key, (3,)))
    with pytest.raises(TypeError) as caught:
        softqd.dns(problem, population_size=4).init(jax.random.key(0))
    notes = " ".join(caught.value.__notes__)
    assert "softqd.interop.host.problem" in notes
    assert "softqd.interop.torch.problem" in notes


def test_stochastic_by_signature():
    def noisy(x, key):
        return x.sum(), x

    assert softqd.Problem(noisy).is_stochastic
    assert not softqd.Problem(good).is_stochastic
    assert softqd.Problem(Partial(lambda w, x, key: (x.sum(), x), 1.0)).is_stochastic
    assert not softqd.Problem(functools.partial(noisy, key=1)).is_stochastic


@jax.tree_util.register_pytree_node_class
class Scaler:
    """A callable pytree with an array and a leaf that is not one."""

    def __init__(self, weight, activation):
        self.weight, self.activation = weight, activation

    def __call__(self, x):
        y = self.activation(self.weight * x)
        return y.sum(), y[:2]

    def tree_flatten(self):
        return (self.weight, self.activation), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


@pytest.mark.parametrize(
    "evaluate",
    [
        Partial(lambda w, x: ((w * x).sum(), x[:2]), jnp.full(3000, 2.5)),
        Scaler(jnp.full(3000, 2.5), jnp.tanh),
    ],
)
def test_arrays_of_evaluate_travel_as_arguments(evaluate):
    problem = softqd.Problem(evaluate, lambda key: jax.random.normal(key, (3000,)))
    algorithm = softqd.squad(problem, population_size=4, batch_size=2)
    state = algorithm.init(jax.random.key(0))
    lowered = jax.jit(lambda step, state: step(state)).lower(algorithm.step, state)
    text = lowered.as_text()
    assert "2.5" not in text
    assert len(jax.tree.leaves(algorithm.step)) == 1
    plain = softqd.Problem(lambda x: evaluate(x), problem.sample)
    other = softqd.squad(plain, population_size=4, batch_size=2)
    as_constant = jax.jit(other.step).lower(state).as_text()
    assert "2.5" in as_constant  # what the assertion above would have seen


def test_population_compact_drops_empty_rows():
    population = softqd.Population(
        {"w": np.arange(6.0).reshape(3, 2)},
        np.array([1.0, np.nan, 3.0]),
        np.zeros((3, 1)),
        np.array([True, False, True]),
    )
    kept = population.compact()
    np.testing.assert_array_equal(kept.quality, [1.0, 3.0])
    np.testing.assert_array_equal(kept.solutions["w"], [[0.0, 1.0], [4.0, 5.0]])
    assert kept.occupied.all()


def test_population_counts_and_selects_solutions():
    population = mixed_population()  # three rows, two solutions
    assert len(population) == 2
    best = population[population.compact().quality.argmax()]
    assert best.quality.tolist() == [3.0]
    assert best.solutions["b"].tolist() == [9]
    assert population[::-1].quality.tolist() == [3.0, 1.0]
    assert population[np.array([True, False])].quality.tolist() == [1.0]
    assert len(population[np.array([False, False])]) == 0
    assert [one.quality.tolist() for one in population] == [[1.0], [3.0]]


@pytest.mark.parametrize("index", [2, [0, 2], [True, False, True]])
def test_population_says_how_many_solutions_it_has(index):
    with pytest.raises(IndexError, match="population of 2 solutions"):
        mixed_population()[index]


def test_population_is_a_pytree():
    population = mixed_population()
    doubled = jax.jit(lambda p: jax.tree.map(lambda x: 2 * x, p))(population)
    assert isinstance(doubled, softqd.Population)
    assert doubled.quality[0] == 2.0
    shape = jax.eval_shape(lambda p: p, population)
    assert shape.behavior.shape == (3, 2)


def mixed_population():
    """A pytree with a vector and a matrix; the middle row is empty."""
    return softqd.Population(
        {"w": np.arange(12.0).reshape(3, 2, 2), "b": jnp.array([7, 8, 9])},
        np.array([1.0, np.nan, 3.0], np.float32),
        jnp.array([[0.25, 0.5], [0.0, 0.0], [0.75, 1.0]]),
        np.array([True, False, True]),
    )


def test_to_pandas_has_a_column_per_number_and_occupied_rows():
    frame = mixed_population().to_pandas()
    expected = {
        "quality": [1, 3],
        "behavior_0": [0.25, 0.75],
        "behavior_1": [0.5, 1],
        "solution/b_0": [7, 9],
        "solution/w_0": [0, 8],
        "solution/w_1": [1, 9],
        "solution/w_2": [2, 10],
        "solution/w_3": [3, 11],
    }
    assert frame.to_dict("list") == expected
    assert (frame.dtypes == np.float64).all()


def test_to_pandas_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        mixed_population().to_pandas()


def test_to_ribs_ravels_solutions():
    rows = mixed_population().to_ribs()
    np.testing.assert_array_equal(
        rows["solution"], [[7, 0, 1, 2, 3], [9, 8, 9, 10, 11]]
    )
    np.testing.assert_array_equal(rows["objective"], [1, 3])
    np.testing.assert_array_equal(rows["measures"], [[0.25, 0.5], [0.75, 1]])
    assert all(type(array) is np.ndarray for array in rows.values())


def test_populations_without_rows_or_solutions():
    nobody = dataclasses.replace(mixed_population(), occupied=np.zeros(3, bool))
    assert nobody.to_pandas().shape == (0, 8)
    assert nobody.to_ribs()["solution"].shape == (0, 5)
    bare = dataclasses.replace(mixed_population(), solutions={})
    assert bare.to_pandas().columns.tolist() == ["quality", "behavior_0", "behavior_1"]
    assert bare.to_ribs()["solution"].shape == (2, 0)


def test_behavior_dim_may_be_declared():
    problem = softqd.Problem(good, behavior_bounds=(0, 1), behavior_dim=2)
    assert problem.behavior_dim == 2
    (again,) = jax.tree.map(lambda p: p, [problem])
    assert again.behavior_dim == 2
    assert softqd.cma_mega(problem, cells=4).problem.behavior_dim == 2


def test_a_declared_behavior_dim_is_held_to():
    problem = softqd.Problem(good, lambda key: jnp.zeros(4), behavior_dim=3)
    with pytest.raises(ValueError, match="declares behavior_dim=3"):
        softqd.squad(problem, population_size=2).init(jax.random.key(0))


def test_what_was_found_is_not_declared_of_a_copy():
    problem = softqd.Problem(good, lambda key: jnp.zeros(4))
    assert problem.behavior_dim == 2
    wider = dataclasses.replace(problem, evaluate=lambda x: (x.sum(), x))
    assert wider.behavior_dim == 4


@pytest.mark.parametrize("dim", [0, -1, 2.0, True, "2"])
def test_wrong_behavior_dims_are_refused(dim):
    with pytest.raises(ValueError, match="behavior_dim must be a whole number"):
        softqd.Problem(good, behavior_dim=dim)
