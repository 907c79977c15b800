"""Problems in PyTorch, against the same ones in JAX; with the extra 'torch-parity'."""

import gc
import re
import weakref
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_conformance import ALGORITHMS, build

import softqd

pytestmark = [
    pytest.mark.torch_parity,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
torch = pytest.importorskip("torch")

FIELDS = {"behavior_bounds": (-1.0, 1.0), "quality_level": 0.0, "name": "bowl"}
START = np.random.default_rng(0).normal(size=(12, 6)).astype(np.float32)


def in_jax(x):
    return 5.0 - jnp.sum((x - 0.3) ** 2), jnp.tanh(x[:2] * x[2:4])


def in_torch(x):
    return 5.0 - ((x - 0.3) ** 2).sum(), torch.tanh(x[:2] * x[2:4])


def in_batches(x):
    return 5.0 - ((x - 0.3) ** 2).sum(1), torch.tanh(x[:, :2] * x[:, 2:4])


def sample(generator):
    return torch.randn(6, generator=generator)


def make(evaluate=in_torch, sample=sample, **settings):
    return softqd.interop.torch.problem(evaluate, sample, **{**FIELDS, **settings})


def assert_same(one, other, **tolerance):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), **tolerance)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_finds_what_the_same_function_in_jax_does(name):
    is_batched = name < "e"  # some so, some so
    evaluate = in_batches if is_batched else in_torch
    draw = lambda key: jax.random.normal(key, (6,))  # noqa: E731
    problems = (
        make(evaluate, batched=is_batched),
        softqd.Problem(in_jax, draw, **FIELDS),
    )
    found, expected = (
        softqd.run(build(name, problem), solutions=START, num_iterations=2)
        for problem in problems
    )
    assert isinstance(found.population.solutions, torch.Tensor)
    assert_same(found.population, expected.population, rtol=1e-3, atol=1e-4)
    counts = [r.history["vector_jacobian_products"][-1] for r in (found, expected)]
    assert counts[0] == counts[1]


@pytest.fixture(scope="module")
def squad():
    return softqd.squad(make(), population_size=8, num_neighbors=3)


RUN = {"seed": 1, "num_iterations": 4, "log_every": 2}


@pytest.fixture(scope="module")
def straight(squad):
    return softqd.run(squad, **RUN)


def test_a_checkpoint_is_gone_on_from_and_a_folder_is_read(squad, straight, tmp_path):
    def stop(point):
        if point.iteration == 2:
            raise KeyboardInterrupt

    kept = {"checkpoint_dir": tmp_path / "checkpoint"}
    with pytest.raises(KeyboardInterrupt):
        softqd.run(squad, **RUN, **kept, callback=stop)
    found = softqd.run(squad, **RUN, **kept, resume=True)
    assert_same(found.population, straight.population)
    population = softqd.load(found.save(tmp_path)).population
    assert_same(population, straight.population)
    again = softqd.run(squad, solutions=straight.population.solutions, num_iterations=0)
    assert_same(again.population.solutions, straight.population.solutions)


def test_seeds_side_by_side_are_each_alone(squad, straight):
    many = softqd.run(squad, **{**RUN, "seed": [5, 1]})
    assert_same(many[1].population, straight.population, rtol=1e-4, atol=1e-5)


def test_it_is_compared(tmp_path):
    methods = {"dns": lambda p: softqd.dns(p, population_size=8, batch_size=4)}
    methods["squad"] = lambda p: softqd.squad(p, population_size=8, num_neighbors=3)
    found = softqd.compare(make(), methods, seeds=2, evaluations=100, out=tmp_path)
    assert set(found.algorithms) == {"dns", "squad"}
    assert not any(entry.failures for entry in found.algorithms.values())


def test_a_step_is_one_forward_and_one_backward_pass():
    """And the graph of a batch is gone before the next one is evaluated."""
    passes, graphs = [], []

    def counted(x):
        gc.collect()
        assert not any(graph() is not None for graph in graphs)
        quality, behavior = in_batches(x)
        passes.append(("forward", len(x)))
        if quality.requires_grad:
            quality.register_hook(lambda g: passes.append(("backward", len(g))))
            graphs.append(weakref.ref(quality))
        return quality, behavior

    algorithm = softqd.squad_published(
        make(counted, batched=True, behavior_dim=2),
        population_size=4,
        batch_size=4,
        num_neighbors=2,
    )
    result = softqd.run(algorithm, num_iterations=2)
    steps = [("forward", 4), ("backward", 4), ("forward", 4)] * 2
    assert passes[-len(steps) :] == steps
    assert (
        sum(n for kind, n in passes if kind == "forward")
        == (result.history["evaluations"][-1])
    )
    gc.collect()
    assert not any(graph() is not None for graph in graphs)


def test_arrays_cross_by_dlpack_without_a_copy(monkeypatch):
    """One memory on both sides, seen on the CPU: on a GPU the same lines run."""
    from softqd.interop import _torch_problem

    to_torch, to_jax = _torch_problem._to_torch, _torch_problem._to_jax
    is_shared = []

    def there(array):
        tensor = to_torch(array)
        is_array = isinstance(array, jax.Array)  # none has become NumPy's on the way
        at = array.unsafe_buffer_pointer() if is_array else None
        is_shared.append(at == tensor.data_ptr())
        return tensor

    def back(tensor):
        array = to_jax(tensor)
        is_shared.append(array.unsafe_buffer_pointer() == tensor.data_ptr())
        return array

    algorithm = softqd.squad_published(
        make(in_batches, batched=True, behavior_dim=2),
        population_size=64,
        batch_size=64,
        num_neighbors=2,
    )
    monkeypatch.setattr(_torch_problem, "_to_torch", there)
    monkeypatch.setattr(_torch_problem, "_to_jax", back)
    softqd.run(algorithm, num_iterations=2)
    assert len(is_shared) >= 12
    assert is_shared.count(False) == 1  # the result's solutions, which are on the host
    assert not is_shared[-1]


def test_parameters_of_a_module_by_name():
    module = torch.nn.Linear(3, 2)

    def evaluate(parameters):
        out = torch.func.functional_call(module, parameters, torch.ones(3))
        return 5.0 - (out**2).sum(), torch.tanh(out)

    def sample(generator):
        return {
            name: torch.randn(x.shape, generator=generator)
            for name, x in module.named_parameters()
        }

    problem = make(evaluate, sample)
    algorithm = softqd.squad(problem, population_size=4, num_neighbors=2)
    result = softqd.run(algorithm, num_iterations=5)
    best = result.population[result.population.quality.argmax()]
    one = {name: x[0] for name, x in best.solutions.items()}
    quality, behavior = evaluate(one)
    np.testing.assert_allclose(best.quality[0], quality.detach(), rtol=1e-5)
    np.testing.assert_allclose(best.behavior[0], behavior.detach(), rtol=1e-5)


def test_solutions_keep_the_type_of_those_that_are_sampled():
    kinds = set()

    def evaluate(x):
        kinds.add(x.dtype)
        return in_batches(x)

    draw = lambda generator: sample(generator).double()  # noqa: E731
    algorithm = softqd.squad_published(
        make(evaluate, draw, batched=True),
        **{"population_size": 4, "batch_size": 4, "num_neighbors": 2},
    )
    softqd.run(algorithm, num_iterations=1)
    assert kinds == {torch.float64}


def in_place(x):
    quality, behavior = in_torch(x)
    x.mul_(2.0)
    return quality, behavior


@pytest.mark.parametrize(
    ("evaluate", "match"),
    [
        (lambda x: in_torch(x.detach()), "tensors without a gradient"),
        (lambda x: (x, x), r"got \[\(8, 6\), \(8, 6\)\]"),
        (lambda x: x.sum(), r"must return \(quality, behavior\).*got Tensor"),
    ],
)
def test_what_cannot_be_used_is_said(evaluate, match):
    algorithm = softqd.squad(make(evaluate, behavior_dim=2), population_size=8)
    with pytest.raises(ValueError, match=match):
        softqd.run(algorithm, num_iterations=1)


def test_solutions_are_not_changed_in_place():
    algorithm = softqd.dns(make(in_place), population_size=8, batch_size=8)
    with pytest.raises(ValueError, match="changed its solution in place"):
        softqd.run(algorithm, num_iterations=1)


@pytest.mark.parametrize(
    "evaluate",
    [
        lambda x: (x.sum() if x.sum() > 0 else -x.sum(), x[:2]),
        lambda x: (torch.tensor(x.sum().item()), x[:2]),
    ],
)
def test_what_vmap_cannot_batch_is_told_another_way(evaluate):
    with pytest.raises(RuntimeError, match="vmap") as caught:
        make(evaluate, behavior_bounds=None).behavior_dim  # noqa: B018 (raises)
    assert "batched=True" in " ".join(caught.value.__notes__)


def test_samples_are_tensors_of_numbers():
    with pytest.raises(ValueError, match=r"got \['torch.int64'\]"):
        make(sample=lambda generator: torch.arange(3))


def test_without_gradients_squad_goes_on_with_children_alone():
    algorithm = softqd.squad(make(is_differentiable=False), population_size=4)
    result = softqd.run(algorithm, num_iterations=1)
    assert result.history["gradient_evaluations"][-1] == 0


def test_asked_solutions_are_tensors():
    loop = softqd.interop.AskTell(softqd.dns(make(), population_size=4, batch_size=4))
    solutions = loop.ask()
    assert isinstance(solutions, torch.Tensor)
    loop.tell(*torch.func.vmap(in_torch)(solutions))
    assert loop.evaluations == 4


@pytest.mark.filterwarnings("ignore::UserWarning")  # few seeds
def test_code_blocks_of_the_page_run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "pytorch.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    assert blocks
    namespace = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)
    assert isinstance(namespace["best"].solutions, torch.Tensor)
    assert isinstance(namespace["loss"], softqd.interop.torch.SquadLoss)
