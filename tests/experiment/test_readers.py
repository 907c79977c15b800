"""Population files of ours and of other tools; each bad one gets one clear line."""

import pickle
from pathlib import Path

import numpy as np
import pytest

import softqd
from softqd.experiment.files.readers import read_population

DATA = Path(__file__).parent.parent / "data"
POINTS = [(0.1, 0.2), (0.3, 0.4), (0.5, 0.6)]


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def refused(path, **names):
    """The one line of the error."""
    with pytest.raises(ValueError) as info:  # noqa: PT011 (every test reads the line)
        softqd.load_population(path, **names)
    assert "\n" not in str(info.value)
    assert str(path) in str(info.value)
    return str(info.value)


@pytest.mark.parametrize(
    "header",
    [
        "quality,behavior_0,behavior_1,solution_0",
        "Fitness,behavior0,behavior1,x_0",
        "objective,measures_0,measures_1,solutions_0",
        "score,measure_0,measure_1,genotype_0",
        "REWARD,Descriptor_1,Descriptor_2,x0",
        "fitness,desc_0,desc_1,genotypes_0",
        "quality,bd_0,bd_1,solution[0]",
        "quality,b0,b1,Solution_0",
        "quality,behavior[0],behavior[1],solution.0",
    ],
)
def test_csv_names_are_guessed_and_the_guess_is_stated(tmp_path, header):
    rows = [f"{i},{x},{y},{i + 7}" for i, (x, y) in enumerate(POINTS)]
    population, origin = read_population(write(tmp_path / "a.csv", header, *rows))
    np.testing.assert_array_equal(population.quality, [0.0, 1.0, 2.0])
    np.testing.assert_array_equal(population.behavior, POINTS)
    np.testing.assert_array_equal(population.solutions, [[7.0], [8.0], [9.0]])
    assert population.occupied.all()
    q, b0, b1, x = header.split(",")
    assert origin == (
        f"CSV: quality from {q!r} (guessed), behavior from {b0!r}, {b1!r} (guessed), "
        f"solutions from {x!r}"
    )


def test_csv_names_given(tmp_path):
    path = write(tmp_path / "a.csv", "y,name,x,fitness", "5,left,6,1", "7,right,8,2")
    population, origin = read_population(path, behavior=["x", "y"])
    np.testing.assert_array_equal(population.behavior, [[6.0, 5.0], [8.0, 7.0]])
    assert origin == (
        "CSV: quality from 'fitness' (guessed), behavior from 'x', 'y', no solutions"
    )
    population, origin = read_population(path, quality="x", behavior="y")
    np.testing.assert_array_equal(population.quality, [6.0, 8.0])
    np.testing.assert_array_equal(population.behavior, [[5.0], [7.0]])
    assert "guessed" not in origin


def test_csv_columns_are_ordered_by_number(tmp_path):
    names = [f"solution_{i}" for i in range(12)]
    header = ",".join(["behavior_1", *sorted(names), "quality", "behavior_0"])
    values = ",".join(["1", *(n.split("_")[1] for n in sorted(names)), "9", "0"])
    population, origin = read_population(write(tmp_path / "a.csv", header, values))
    np.testing.assert_array_equal(population.behavior, [[0.0, 1.0]])
    np.testing.assert_array_equal(population.solutions, [np.arange(12.0)])
    assert origin.endswith("solutions from 'solution_0' ... 'solution_11'")


def test_csv_index_and_threshold_are_ignored(tmp_path):
    header = ",solution_0,objective,measures_0,threshold,index"
    rows = ["0,0.5,1.5,0.25,-inf,3", "1,0.6,1.6,0.75,,4"]
    population = softqd.load_population(write(tmp_path / "a.csv", header, *rows))
    np.testing.assert_array_equal(population.quality, [1.5, 1.6])
    np.testing.assert_array_equal(population.behavior, [[0.25], [0.75]])
    np.testing.assert_array_equal(population.solutions, [[0.5], [0.6]])


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv_dialects(tmp_path, separator):
    text = f"\ufeffquality,behavior_0\r\n\r\n1,0.5\r\n{' 2 '},0.25".replace(
        ",", separator
    )
    (tmp_path / "a.txt").write_bytes(text.encode())  # as Excel does; any suffix
    population = softqd.load_population(tmp_path / "a.txt")
    np.testing.assert_array_equal(population.quality, [1.0, 2.0])


def test_csv_solutions_of_a_pytree(tmp_path):
    header = "quality,behavior_0,solution/a/w_1,solution/a/w_0,solution/b_0"
    population = softqd.load_population(write(tmp_path / "a.csv", header, "1,2,4,3,5"))
    assert population.solutions.keys() == {"a", "b"}
    np.testing.assert_array_equal(population.solutions["a"]["w"], [[3.0, 4.0]])
    np.testing.assert_array_equal(population.solutions["b"], [[5.0]])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["", " "], "is empty: it has no header"),
        (
            ["quality,behavior_0"],
            "holds no solutions: below its header there is no row",
        ),
        (["1,2", "3,4"], "has no header: its first line is numbers"),
        (["quality,behavior_0,quality", "1,2,3"], "has 2 columns 'quality'"),
        (["quality,behavior_0", "1,2", "1"], "line 3 has 1 cells, the header has 2"),
        (["quality,behavior_0", "1,2,3"], "line 2 has 3 cells, the header has 2"),
        (["quality,behavior_0", "", "1,up"], "line 3, column 'behavior_0' is 'up'"),
        (["quality,behavior_0", "1,"], "line 2, column 'behavior_0' is ''"),
        (
            ["quality,behavior_0", "1,2", "nan,2"],
            "quality must be finite; line 3 is nan",
        ),
        (["quality,behavior_0", "inf,2"], "quality must be finite; line 2 is inf"),
        (["quality,behavior_0", "1,-inf"], "behavior must be finite; line 2 is [-inf]"),
        (["f,behavior_0", "1,2"], "cannot tell the quality from the columns f, behav"),
        (
            ["score,reward,b0", "1,2,3"],
            "cannot tell the quality from the columns score",
        ),
        (["quality,x,y", "1,2,3"], "cannot tell the behavior from the columns x, y;"),
        (["quality,b0,bd_0", "1,2,3"], "say which with --behavior NAME,NAME"),
        (["quality,b0,b2", "1,2,3"], "numbered without a gap"),
        (["quality,b2,b3", "1,2,3"], "numbered without a gap"),
        (["quality,b0,b_0", "1,2,3"], "numbered without a gap"),
        (["quality,behavior_0", '1,"2'], "is not a readable"),
    ],
)
def test_bad_csv(tmp_path, lines, message):
    assert message in refused(write(tmp_path / "a.csv", *lines))


def test_long_headers_are_listed_in_short(tmp_path):
    columns = [*(f"solution_{i}" for i in range(500)), "gain", "b0"]
    path = write(tmp_path / "a.csv", ",".join(columns), ",".join(["1"] * 502))
    assert "from the columns gain, b0; expected" in refused(path)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"quality": "qualty"}, "unknown column 'qualty'; did you mean 'quality'?"),
        ({"behavior": ["up", "behavior_O"]}, "did you mean 'behavior_0'?"),
    ],
)
def test_names_that_a_csv_does_not_have(tmp_path, names, message):
    path = write(tmp_path / "a.csv", "quality,behavior_0,up", "1,2,3")
    assert message in refused(path, **names)


def test_a_column_is_used_once(tmp_path):
    path = write(tmp_path / "a.csv", "quality,behavior_0", "1,2")
    for names in ({"quality": "a", "behavior": ["a"]}, {"behavior": ["a", "a"]}):
        with pytest.raises(ValueError, match="must be different columns"):
            softqd.load_population(path, **names)


@pytest.mark.parametrize(("name", "slots"), [("repertoire", 24), ("unstructured", 12)])
def test_qdax_repertoire_without_its_empty_slots(name, slots):
    path = DATA / f"qdax_{name}.npz"
    population, origin = read_population(path)
    with np.load(path) as file:
        fitness = file["fitnesses"][:, 0]
        keep = np.isfinite(fitness)
        assert 0 < keep.sum() < len(keep) == slots
        assert population.quality.shape == (keep.sum(),)
        np.testing.assert_array_equal(population.quality, fitness[keep])
        np.testing.assert_array_equal(population.behavior, file["descriptors"][keep])
        np.testing.assert_array_equal(population.solutions, file["genotypes"][keep])
    assert np.isfinite(population.solutions).all()
    assert origin == (
        "npz of QDax: quality from 'fitnesses', behavior from 'descriptors', solutions "
        f"from 'genotypes'; {slots - keep.sum()} empty slots dropped"
    )


def test_qdax_slots_marked_by_nan_and_genotypes_of_a_network(tmp_path):
    np.savez(
        tmp_path / "r.npz",
        fitnesses=np.array([1.0, np.nan, 3.0, -np.inf]),
        descriptors=np.array([[0.1, 0.2], [0.3, 0.4], [np.nan, 0.5], [0.6, 0.7]]),
        extra_scores=np.array({}),  # pickled, but never looked at
        **{"genotypes/params/kernel": np.arange(8.0).reshape(4, 2)},
    )
    population, origin = read_population(tmp_path / "r.npz")
    np.testing.assert_array_equal(population.quality, [1.0])
    np.testing.assert_array_equal(population.behavior, [[0.1, 0.2]])
    np.testing.assert_array_equal(population.solutions["params"]["kernel"], [[0, 1]])
    assert "3 empty slots dropped" in origin


def test_qdax_files_that_cannot_be_used(tmp_path):
    path, descriptors = tmp_path / "r.npz", np.zeros((2, 2))
    np.savez(path, fitnesses=np.full((2, 1), -np.inf), descriptors=descriptors)
    assert "holds no solutions" in refused(path)
    np.savez(path, fitnesses=np.array([-np.inf, np.inf]), descriptors=descriptors)
    assert "quality must be finite; row 1 is inf" in refused(path)
    np.savez(path, fitnesses=np.ones((2, 3)), descriptors=descriptors)  # many aims
    assert "fitnesses must have shape (n,)" in refused(path)


def test_npz_arrays_by_name(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, gain=[3, 4], where=np.array(POINTS[:2]), x=[5, 6], y=[[7], [8]])
    population = softqd.load_population(path, quality="gain", behavior="where")
    assert population.quality.dtype == np.float64
    np.testing.assert_array_equal(population.quality, [3, 4])
    np.testing.assert_array_equal(population.behavior, POINTS[:2])
    population, origin = read_population(path, quality="gain", behavior=["x", "y"])
    np.testing.assert_array_equal(population.behavior, [[5, 7], [6, 8]])
    assert origin == "npz: quality from 'gain', behavior from 'x', 'y', no solutions"
    assert "unknown array 'gian'; did you mean 'gain'?" in refused(path, quality="gian")
    assert "(quality=, --quality NAME)" in refused(path)


def test_our_npz_keeps_precision_and_names_its_source(tmp_path):
    np.savez(
        tmp_path / "p.npz",
        quality=np.float32([1, 2]),
        behavior=np.zeros((2, 3), np.float32),
        solutions=np.arange(2),
    )
    population, origin = read_population(tmp_path / "p.npz")
    assert population.quality.dtype == population.behavior.dtype == np.float32
    assert population.solutions.tolist() == [0, 1]
    assert origin == (
        "npz: quality from 'quality', behavior from 'behavior', solutions from "
        "'solutions'"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"quality": np.array([1, -np.inf])}, "quality must be finite; row 1 is -inf"),
        ({"behavior": np.array([[np.nan], [0]])}, "behavior must be finite; row 0"),
        ({"behavior": np.ones((2, 0))}, "its behavior has shape (2, 0)"),
        ({"behavior": np.ones(2)}, "got (2,) and (2,)"),
        ({"quality": np.array(["a", "b"])}, "'quality' has type <U1, expected numbers"),
        (
            {"solutions": np.ones((3, 4))},
            "solutions has shape (3, 4), but quality has 2",
        ),
        ({"solutions": np.array([{}, {}])}, "holds pickled objects"),
        ({"solutions/a": np.ones(2), "solutions/a/b": np.ones(2)}, "'a/b'"),
    ],
)
def test_bad_npz(tmp_path, change, message):
    arrays = {"quality": np.ones(2), "behavior": np.ones((2, 1))}
    np.savez(tmp_path / "p.npz", **(arrays | change))
    assert message in refused(tmp_path / "p.npz")


class Trap:
    """Unpickling this would show."""

    def __reduce__(self):
        return pytest.fail, ("a pickle was loaded",)


@pytest.mark.parametrize("name", ["a.pkl", "a.pickle", "a.p", "a.npz", "a.csv", "a"])
@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_pickles_are_refused_with_a_way_to_convert(tmp_path, name, protocol):
    (tmp_path / name).write_bytes(pickle.dumps(Trap(), protocol))
    line = refused(tmp_path / name)
    assert "holds pickled objects, which are never loaded" in line
    assert 'archive.data(return_type="pandas").to_csv("archive.csv")' in line
    assert 'np.savez("repertoire.npz", genotypes=' in line


def test_old_pickles_are_known_by_their_name(tmp_path):
    (tmp_path / "a.pkl").write_bytes(pickle.dumps([1.0], 0))
    assert "holds pickled objects" in refused(tmp_path / "a.pkl")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npz", b"", "is empty"),
        ("a.csv", b"", "is empty"),
        ("a.npz", b"quality", "is not a readable"),
        ("a.csv", b"quality,\xff\xfe", "is not a readable"),
        ("a.bin", bytes(range(1, 99)), "its first line is not text"),
        ("a.bin", bytes(range(99, 255)), "is not a readable"),
        ("a.npz", b"PK\x03\x04 and nothing else", "is not a readable"),
    ],
)
def test_files_that_are_something_else(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    assert message in refused(tmp_path / name)


def test_a_folder_and_a_single_array(tmp_path):
    assert "is a folder; give the population.npz in it" in refused(tmp_path)
    np.save(tmp_path / "a.npy", np.ones(3))
    assert 'np.savez("population.npz", quality=' in refused(tmp_path / "a.npy")


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.999])
def test_truncated_npz(tmp_path, share):
    path = tmp_path / "p.npz"
    np.savez(path, quality=np.ones(100), behavior=np.ones((100, 2)))
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    assert "is not a readable" in refused(path)


def test_damaged_npz(tmp_path):
    path = tmp_path / "p.npz"
    np.savez(path, quality=np.ones(100), behavior=np.ones((100, 2)))
    data = bytearray(path.read_bytes())
    data[300] ^= 0xFF  # inside the first array
    path.write_bytes(data)
    assert "file 'quality.npy'" in refused(path)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pandas_round_trip(tmp_path, dtype):
    rng = np.random.default_rng(0)
    population = softqd.Population(
        rng.normal(size=(9, 12)).astype(dtype),
        rng.normal(size=9).astype(dtype),
        rng.random((9, 3)).astype(dtype),
        np.arange(9) % 3 > 0,
    )
    population.to_pandas().to_csv(tmp_path / "p.csv", index=False)
    back = softqd.load_population(tmp_path / "p.csv")
    for field in ("solutions", "quality", "behavior"):
        kept = getattr(population, field)[population.occupied]
        np.testing.assert_array_equal(getattr(back, field), kept)


def test_an_empty_name_is_not_the_default(tmp_path):
    np.savez(tmp_path / "a.npz", quality=np.ones(3), behavior=np.ones((3, 2)))
    with pytest.raises(ValueError, match="unknown array ''"):
        read_population(tmp_path / "a.npz", behavior=[""])
