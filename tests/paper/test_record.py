import pytest

from softqd.paper.record import paper_evaluations, seed_histories


@pytest.mark.parametrize(
    ("algorithm", "counted"), [("squad_published", [192]), ("cma_mega", [400])]
)
def test_the_paper_counts_squad_once_per_solution_and_iteration(algorithm, counted):
    """16 at the start, then 12 iterations with two evaluations of each."""
    metrics = {"evaluations": [16 + 12 * 32], "gradient_evaluations": [12 * 16]}
    entry = {"config": {"algorithm": {"name": algorithm}}, "metrics": metrics}
    assert paper_evaluations(entry) == counted


def test_histories_by_seed():
    columns = {"iteration": [[0, 5], [0, 5]], "qvs": [[1.0, 2.0], [3.0, 4.0]]}
    first, second = seed_histories({"history": columns})
    assert first == {"iteration": [0, 5], "qvs": [1.0, 2.0]}
    assert second == {"iteration": [0, 5], "qvs": [3.0, 4.0]}
