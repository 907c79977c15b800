"""Solutions that are modules of Equinox and states of Flax, kept and put back."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import softqd

pytestmark = pytest.mark.parity


def equinox_problem():
    eqx = pytest.importorskip("equinox")

    def build(key):
        return eqx.nn.MLP(3, 2, 4, 2, key=key)

    # What is not an array, such as the activation, is the same for all.
    static = eqx.filter(build(jax.random.key(0)), eqx.is_array, inverse=True)

    def sample(key):
        return eqx.filter(build(key), eqx.is_array)

    def apply(net, x):
        return eqx.combine(net, static)(x)

    return apply, sample


def flax_problem():
    nnx = pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.second = nnx.Linear(3, 4, rngs=rngs)
            self.first = nnx.Linear(4, 2, rngs=rngs)

        def __call__(self, x):
            return self.first(jnp.tanh(self.second(x)))

    graph = nnx.split(Net(nnx.Rngs(0)))[0]

    def sample(key):
        return nnx.split(Net(nnx.Rngs(key)))[1]

    def apply(net, x):
        return nnx.merge(graph, net)(x)

    return apply, sample


@pytest.mark.parametrize("make", [equinox_problem, flax_problem])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_modules_survive(make, tmp_path):
    apply, sample = make()

    def evaluate(net):
        y = apply(net, jnp.array([1.0, -1.0, 0.5]))
        return 10.0 - jnp.sum(y**2), jax.nn.sigmoid(y)

    problem = softqd.Problem(evaluate, sample, (0, 1), name="net")
    algorithm = softqd.squad(problem, population_size=8)
    result = softqd.run(algorithm, num_iterations=3, checkpoint_dir=tmp_path / "c")
    result.save(tmp_path / "run")
    solutions = result.population.solutions

    def assert_equal(found):
        assert jax.tree.structure(found) == jax.tree.structure(solutions)
        jax.tree.map(np.testing.assert_array_equal, found, solutions)

    back = softqd.load(tmp_path / "run", like=problem).population
    assert_equal(back.solutions)
    one = jax.tree.map(lambda x: x[2], back.solutions)
    quality, behavior = evaluate(one)  # a module that can be called again
    np.testing.assert_allclose(quality, back.quality[2], rtol=1e-5)
    np.testing.assert_allclose(behavior, back.behavior[2], rtol=1e-5)
    bare = softqd.load(tmp_path / "run").population.solutions
    assert isinstance(bare, dict)
    start = softqd.run(algorithm, num_iterations=0, solutions=bare)
    assert_equal(start.population.solutions)
    options = {"checkpoint_dir": tmp_path / "c", "resume": True}
    assert_equal(
        softqd.run(algorithm, num_iterations=3, **options).population.solutions
    )
    longer = softqd.run(algorithm, num_iterations=5, **options)
    assert longer.history["iteration"][-1] == 5
