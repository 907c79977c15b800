import numpy as np
import pytest

import softqd
from softqd.experiment.run_folder import write_population


@pytest.fixture
def result(bowl):
    algorithm = softqd.squad(bowl, population_size=6, batch_size=3)
    return softqd.run(algorithm, seed=9, num_iterations=12, log_every=5)


def test_round_trip(result, tmp_path):
    result.save(tmp_path / "run")
    back = softqd.load(tmp_path / "run")
    np.testing.assert_array_equal(
        back.population.solutions, result.population.solutions
    )
    assert back.history.keys() == result.history.keys()
    for name, column in result.history.items():
        np.testing.assert_array_equal(back.history[name], column)
    assert back.seed == 9
    assert back.versions == result.versions
    assert back.timings == result.timings
    assert back.config["algorithm"]["name"] == "squad"


def test_population_file_holds_occupied_rows_without_pickle(tmp_path):
    population = softqd.Population(
        {"a": {"w": np.arange(6.0).reshape(3, 2)}, "b": np.arange(3.0)},
        np.array([1.0, 2.0, 3.0]),
        np.zeros((3, 2)),
        np.array([True, False, True]),
    )
    write_population(tmp_path / "p.npz", population)
    with np.load(tmp_path / "p.npz", allow_pickle=False) as file:
        assert set(file.files) == {
            "quality",
            "behavior",
            "solutions/a/w",
            "solutions/b",
        }
        assert file["quality"].tolist() == [1.0, 3.0]
    back = softqd.load_population(tmp_path / "p.npz")
    np.testing.assert_array_equal(back.solutions["a"]["w"], [[0.0, 1.0], [4.0, 5.0]])
    assert back.occupied.all()


def test_not_a_run_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="is not a run folder"):
        softqd.load(tmp_path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"behavior": np.ones((2, 2))}, "has no array 'quality'; it holds behavior"),
        ({"quality": np.ones(2)}, "has no array 'behavior'"),
        (
            {"quality": np.ones(3), "behavior": np.ones((2, 2))},
            r"got \(3,\) and \(2, 2\)",
        ),
        ({"quality": np.array([object()]), "behavior": np.ones((1, 1))}, "pickle"),
    ],
)
def test_bad_population_files(tmp_path, arrays, message):
    np.savez(tmp_path / "p.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        softqd.load_population(tmp_path / "p.npz")


def test_truncated_population_file(tmp_path):
    np.savez(tmp_path / "p.npz", quality=np.ones(100), behavior=np.ones((100, 2)))
    data = (tmp_path / "p.npz").read_bytes()
    (tmp_path / "p.npz").write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match="is not a readable"):
        softqd.load_population(tmp_path / "p.npz")
