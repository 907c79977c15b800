"""Files and arrays of the libraries people use; ribs comes with the extra 'parity'."""

import numpy as np
import pytest

import softqd
from softqd import cli, metrics
from softqd.experiment.files.readers import read_population

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
RANGES = [(0.0, 1.0), (-5.0, 5.0)]


def grid_archive(archives, **options):
    return archives.GridArchive(solution_dim=12, dims=[8, 8], ranges=RANGES, **options)


def cvt_archive(archives, **options):
    centroids = np.random.default_rng(7).uniform([0, -5], [1, 5], (40, 2))
    return archives.CVTArchive(
        solution_dim=12, centroids=centroids, ranges=RANGES, **options
    )


def candidates(n=60):
    rng = np.random.default_rng(0)
    behavior = np.stack([rng.random(n), rng.uniform(-5, 5, n)], axis=1)
    return rng.normal(size=(n, 12)), rng.normal(size=n), behavior


@pytest.mark.parametrize("make", [grid_archive, cvt_archive])
@pytest.mark.parametrize("index", [True, False])
def test_archive_saved_as_csv(tmp_path, make, index):
    archive = make(pytest.importorskip("ribs.archives"))
    archive.add(*candidates())
    archive.data(return_type="pandas").to_csv(tmp_path / "a.csv", index=index)
    population, origin = read_population(tmp_path / "a.csv")
    elites = archive.data()
    assert len(population.quality) == archive.stats.num_elites
    np.testing.assert_array_equal(population.quality, elites["objective"])
    np.testing.assert_array_equal(population.behavior, elites["measures"])
    np.testing.assert_array_equal(population.solutions, elites["solution"])
    assert origin == (
        "CSV: quality from 'objective' (guessed), behavior from 'measures_0', "
        "'measures_1' (guessed), solutions from 'solution_0' ... 'solution_11'"
    )


def test_archive_with_other_fields_on_the_command_line(tmp_path, capsys):
    archives = pytest.importorskip("ribs.archives")
    fields = {"note": ((), object), "speed": ((2,), np.float32)}
    archive = grid_archive(archives, extra_fields=fields)
    notes = np.array(["a, b"] * 60, dtype=object)
    archive.add(*candidates(), note=notes, speed=np.ones((60, 2)))
    path = tmp_path / "a.csv"
    archive.data(return_type="pandas").to_csv(path)
    assert cli.invoke(["evaluate", str(path), "--bounds", "0:1,-5:5"]) == 0
    out = capsys.readouterr().out
    assert f"{archive.stats.num_elites} solutions of" in out
    assert "measures_1' (guessed)" in out


@pytest.mark.parametrize("make", [grid_archive, cvt_archive])
def test_a_population_added_to_an_archive(make):
    archives = pytest.importorskip("ribs.archives")
    solutions, quality, behavior = candidates()
    half, archive = np.arange(60) < 30, make(archives)
    archive.add(solutions[half], quality[half], behavior[half])
    tree = {"a": solutions[:, :4].reshape(60, 2, 2), "b": solutions[:, 4:]}
    population = softqd.Population(tree, quality, behavior, half)
    other = make(archives)
    other.add(**population.to_ribs())
    for field in ("solution", "objective", "measures", "index"):
        np.testing.assert_array_equal(other.data(field), archive.data(field))
    assert len(other) == len(archive) > 0


@pytest.mark.torch_parity
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_torch_tensors(dtype):
    torch = pytest.importorskip("torch")
    _, quality, behavior = candidates()
    quality, behavior = np.abs(quality), metrics.to_unit(np.transpose(RANGES), behavior)
    q, b = (torch.tensor(x, dtype=getattr(torch, dtype)) for x in (quality, behavior))
    centroids = metrics.published_centroids(2, 512)
    tracked = b.clone().requires_grad_()
    for found, expected in (
        (softqd.soft_qd_score(q, tracked), softqd.soft_qd_score(quality, behavior)),
        (metrics.vendi_score(tracked), metrics.vendi_score(behavior)),
        (
            metrics.qd_score(q, tracked.T.T, torch.tensor(centroids)),
            metrics.qd_score(quality, behavior, centroids),
        ),
        (softqd.select(q, tracked, 5), softqd.select(quality, behavior, 5)),
        (
            softqd.squad_objective(q, b, 0.1),
            softqd.squad_objective(quality, behavior, 0.1),
        ),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    with pytest.raises(ValueError, match=r"pass x\.cpu\(\)\.float\(\)"):
        metrics.vendi_score(b.to("meta"))
