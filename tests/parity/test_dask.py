"""Evaluations on a Dask cluster of two processes, one of which dies."""

import functools
import re
from pathlib import Path

import numpy as np
import pytest
import simulators

import softqd
from softqd import cli
from softqd.interop.host import EvaluationError, problem

distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.parity,
    # Of Dask, about itself, and of sockets that a killed worker left open.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SOLUTIONS = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
RUN = {"solutions": SOLUTIONS, "num_iterations": 2}


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    with distributed.Client(cluster) as client:
        yield client


def dns(evaluate, **settings):
    bounds = {"behavior_bounds": ((0, 0), (1, 1)), "name": "bowl"}
    found = problem(evaluate, None, **bounds, **settings)
    return softqd.dns(found, population_size=8, batch_size=8)


@pytest.fixture(scope="module")
def expected():
    return softqd.run(dns(simulators.bowl), **RUN).population


def test_the_population_is_the_same_though_a_worker_dies(client, expected, tmp_path):
    evaluate = functools.partial(simulators.dies, tmp_path, SOLUTIONS[3])
    found = softqd.run(dns(evaluate, executor=client), **RUN).population
    assert (tmp_path / "done").exists()
    np.testing.assert_array_equal(found.solutions, expected.solutions)
    np.testing.assert_array_equal(found.quality, expected.quality)


def test_an_error_is_the_users(client):
    with pytest.raises(EvaluationError, match="ZeroDivisionError: no wind") as caught:
        softqd.run(dns(simulators.raises, executor=client), **RUN)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_solution_that_workers_hang_in_is_named(client, tmp_path):
    evaluate = functools.partial(simulators.hangs, None, SOLUTIONS[3], seconds=4.0)
    algorithm = dns(evaluate, executor=client, timeout=1.5, retries=0)
    with pytest.raises(EvaluationError, match=r"did not return within 1\.5") as caught:
        softqd.run(algorithm, **RUN)
    np.testing.assert_array_equal(caught.value.solution, SOLUTIONS[3])


def test_from_the_command_line(cluster, client, tmp_path, capsys):
    run = ["run", "simulators:factory", "--algorithm", "dns", "--iterations", "2"]
    settings = ["--set", "population_size=8", "--set", "batch_size=8"]
    out = ["--out", str(tmp_path / "run")]
    address = ["--dask", cluster.scheduler_address]
    assert cli.invoke([*run, *settings, *out, *address]) == 0
    assert len(softqd.load(tmp_path / "run").population) == 8
    assert cli.invoke([*run, "--dask", "tcp://127.0.0.1:9"]) == 2
    assert "no Dask scheduler answers" in capsys.readouterr().err


# Whatever else listens where Dask shows its dashboard: it takes another port.
@pytest.mark.filterwarnings("ignore:Port 8787 is already in use:UserWarning")
def test_the_block_of_the_page_runs():
    page = Path(__file__).parents[2] / "docs" / "simulators.md"
    first, block = (
        re.search(f"```python{title}\n(.*?)```", page.read_text(), re.S)[1]
        for title in ("", ' title="with Dask"')
    )
    namespace = {"__name__": "docs"}
    exec(first, namespace)
    exec(block, namespace)
    assert len(namespace["result"].population) == 64
