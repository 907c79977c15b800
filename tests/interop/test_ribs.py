"""The logic, with a scheduler and an archive that only have pyribs' methods."""

import math
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toys import make_bowl

import softqd
from softqd.interop.ribs import run_scheduler, to_population


class Archive:
    """Keeps all it is given."""

    def __init__(self, solution_dim=6, measure_dim=2):
        self.solution_dim, self.measure_dim = solution_dim, measure_dim
        shapes = {"solution": (solution_dim,), "measures": (measure_dim,)}
        self.rows = {
            name: np.empty((0, *shapes.get(name, ())))
            for name in ("solution", "objective", "measures")
        }

    def __len__(self):
        return len(self.rows["objective"])

    def add(self, **rows):
        for name, new in rows.items():
            self.rows[name] = np.concatenate([self.rows[name], new])

    def data(self, field=None):
        return self.rows if field is None else self.rows[field]


class EmitterBase:
    def ask_dqd(self):
        raise AssertionError("the scheduler asks, not we")


class GradientEmitter(EmitterBase):
    def ask_dqd(self):
        super().ask_dqd()


class Scheduler:
    """Asks for given batches and keeps what it is told."""

    def __init__(self, archive, batches, gradient_batches=None):
        self.archive, self.told = archive, []
        self.batches = iter(batches)
        self.gradient_batches = iter(gradient_batches or ())
        self.emitters = [EmitterBase()]
        if gradient_batches is not None:
            self.emitters.append(GradientEmitter())

    def ask(self):
        self.asked = next(self.batches)
        return self.asked

    def ask_dqd(self):
        self.asked = next(self.gradient_batches)
        return self.asked

    def tell(self, objective, measures):
        self.told.append((objective, measures))
        self.archive.add(solution=self.asked, objective=objective, measures=measures)

    def tell_dqd(self, objective, measures, jacobian):
        self.tell(objective, measures)
        self.told[-1] += (jacobian,)


def batches(*sizes, dim=6):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(n, dim)) for n in sizes]


def bowl_quality(rows):
    return 10 - ((rows - 0.3) ** 2).sum(1)


def test_history_counts_what_was_asked_for():
    asked = batches(3, 5, 17)
    result = run_scheduler(
        Scheduler(Archive(), asked), make_bowl(), 3, seed=np.int64(4)
    )
    history = result.history
    assert history["iteration"].tolist() == [0, 1, 2, 3]
    assert history["evaluations"].tolist() == [0, 3, 8, 25]
    assert history["gradient_evaluations"].tolist() == [0] * 4
    assert history["vector_jacobian_products"].tolist() == [0] * 4
    assert math.isnan(history["max_quality"][0])
    assert math.isnan(history["mean_quality"][0])
    for i in (1, 2, 3):
        quality = bowl_quality(np.concatenate(asked[:i]))
        np.testing.assert_allclose(history["mean_quality"][i], quality.mean(), 1e-5)
        np.testing.assert_allclose(history["max_quality"][i], quality.max(), 1e-5)
    assert (np.diff(history["seconds"]) > 0).all()
    assert history["seconds"][-1] == result.timings["run"]


def test_compilation_does_not_count_as_running(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    class Slow(Scheduler):
        def tell(self, *answer):
            super().tell(*answer)
            clock[0] += 1.0

    def evaluate(x):  # in Python only while it is compiled
        clock[0] += 100.0
        return x.sum(), x[:2]

    problem = softqd.Problem(evaluate)
    result = run_scheduler(Slow(Archive(), batches(2, 2)), problem, 2)
    assert result.history["seconds"].tolist() == [0.0, 1.0, 2.0]
    assert result.timings["run"] == 2.0
    assert result.timings["compile"] >= 100.0


def test_history_has_the_columns_of_run():
    result = run_scheduler(Scheduler(Archive(), batches(3)), make_bowl(), 1)
    algorithm = softqd.squad(make_bowl(), population_size=4, batch_size=4)
    columns = list(softqd.run(algorithm, num_iterations=1).history)
    assert list(result.history) == columns[:7]


def test_gradients_are_counted_and_told():
    asked = batches(4, 4, 2, 2)
    scheduler = Scheduler(Archive(), asked[:2], asked[2:])
    history = run_scheduler(scheduler, make_bowl(), 2).history
    assert history["evaluations"].tolist() == [0, 6, 12]
    assert history["gradient_evaluations"].tolist() == [0, 2, 4]
    assert history["vector_jacobian_products"].tolist() == [0, 6, 12]
    x = asked[2]
    b = 1 / (1 + np.exp(-x[:, :2]))
    expected = np.zeros((2, 3, 6))
    expected[:, 0] = -2 * (x - 0.3)
    expected[:, 1, 0], expected[:, 2, 1] = (b * (1 - b)).T
    np.testing.assert_allclose(scheduler.told[0][2], expected, rtol=1e-5)
    assert [len(told) for told in scheduler.told] == [3, 2, 3, 2]


def test_a_batch_may_be_empty():
    asked = batches(4, 4, 0, 2)
    scheduler = Scheduler(Archive(), asked[:2], asked[2:])
    history = run_scheduler(scheduler, make_bowl(), 2).history
    assert history["evaluations"].tolist() == [0, 4, 10]
    assert history["gradient_evaluations"].tolist() == [0, 0, 2]
    shapes = [part.shape for part in scheduler.told[0]]
    assert shapes == [(0,), (0, 2), (0, 3, 6)]


def test_population_is_that_of_the_result_archive():
    scheduler = Scheduler(Archive(), batches(3))
    scheduler.result_archive = Archive()
    scheduler.result_archive.add(
        solution=np.ones((1, 6)), objective=[2.0], measures=[[0.1, 0.9]]
    )
    result = run_scheduler(scheduler, make_bowl(), 1)
    np.testing.assert_array_equal(result.population.solutions, np.ones((1, 6)))
    assert result.population.occupied.tolist() == [True]
    assert result.history["mean_quality"].tolist() == [2.0, 2.0]
    # Not the main archive's, even while it is empty.
    scheduler.result_archive = Archive()
    assert len(run_scheduler(scheduler, make_bowl(), 0).population.quality) == 0


def test_result_can_be_saved(tmp_path):
    scheduler = Scheduler(Archive(), batches(3), batches(1))
    result = run_scheduler(scheduler, make_bowl(), 1, seed=np.int64(4))
    again = softqd.load(result.save(tmp_path / "run"))
    np.testing.assert_array_equal(again.population.quality, result.population.quality)
    assert again.seed == 4
    assert again.config == {
        "origin": "Python",
        "problem": {"name": "bowl"},
        "algorithm": {
            "name": "Scheduler",
            "emitters": ["EmitterBase", "GradientEmitter"],
            "archive": "Archive",
        },
    }
    assert {"ribs", "jax", "softqd"} <= set(again.versions)


def tree_problem():
    return softqd.Problem(
        lambda x: (x["b"] + x["w"].sum(), x["w"][0]),
        lambda key: {"w": jnp.zeros((2, 2)), "b": jnp.zeros(())},
    )


def test_pytrees_are_raveled_as_to_ribs_does():
    (rows,) = batches(3, dim=5)
    scheduler = Scheduler(Archive(5), [rows])
    population = run_scheduler(scheduler, tree_problem(), 1).population
    np.testing.assert_array_equal(population.to_ribs()["solution"], rows)
    np.testing.assert_array_equal(population.solutions["b"], rows[:, 0])
    np.testing.assert_allclose(population.quality, rows.sum(1), rtol=1e-5)
    np.testing.assert_allclose(population.behavior, rows[:, 1:3], rtol=1e-6)


def test_empty_archive_is_an_empty_population():
    for problem, solutions in (
        (None, (0, 5)),
        (tree_problem(), {"w": (0, 2, 2), "b": (0,)}),
    ):
        population = to_population(Archive(5), problem)
        assert jax.tree.map(np.shape, population.solutions) == solutions
        assert population.quality.shape == population.occupied.shape == (0,)
        assert population.behavior.shape == (0, 2)


def test_nonfinite_values_stop_the_run_before_the_archive_sees_them():
    problem = softqd.Problem(
        lambda x: (jnp.log(x.sum()), x[:2]), lambda key: jnp.ones(3)
    )
    good = np.ones((3, 3))
    bad = good.copy()
    bad[1] = -1.0
    archive = Archive(3)
    with pytest.raises(
        softqd.NonFiniteError, match="iteration 2: quality of solution 1"
    ):
        run_scheduler(Scheduler(archive, [good, bad]), problem, 2)
    assert len(archive) == 3


def test_nonfinite_gradients_stop_the_run():
    problem = softqd.Problem(
        lambda x: (jnp.sqrt(x.sum()), x[:2]), lambda key: jnp.ones(3)
    )
    rows = np.ones((4, 3))
    rows[2] = 0.0
    with pytest.raises(softqd.NonFiniteError, match="1: gradient of solution 2 of"):
        run_scheduler(Scheduler(Archive(3), [rows], [rows]), problem, 1)


def test_behaviors_outside_the_declared_bounds_are_refused():
    problem = softqd.Problem(lambda x: (x.sum(), x[:2]), behavior_bounds=(0, 1))
    with pytest.raises(ValueError, match="outside the behavior_bounds"):
        run_scheduler(Scheduler(Archive(3), [np.full((2, 3), 2.0)]), problem, 1)


@pytest.mark.parametrize(
    ("archive", "asked", "message"),
    [
        (Archive(7), batches(2), "7, but .* 'bowl' has 6 values; .* solution_dim=6"),
        (Archive(6, 3), batches(2), r"measure_dim=3, but .*problem.bounds\(2\)"),
        (Archive(), batches(2, dim=5), r"shape \(2, 5\), expected \(n, 6\)"),
    ],
)
def test_what_does_not_fit_is_refused(archive, asked, message):
    with pytest.raises(ValueError, match=message):
        run_scheduler(Scheduler(archive, asked), make_bowl(), 1)


def test_other_things_are_refused():
    with pytest.raises(ValueError, match=r"must be a pyribs scheduler.* got Archive"):
        run_scheduler(Archive(), make_bowl(), 1)
    with pytest.raises(ValueError, match="num_iterations must be a whole number"):
        run_scheduler(Scheduler(Archive(), []), make_bowl(), 1.5)
    with pytest.raises(ValueError, match="5, but a solution of problem 'bowl' has 6"):
        to_population(Archive(5), make_bowl())
    matrices = Archive()
    matrices.solution_dim = (2, 3)
    with pytest.raises(ValueError, match=r"\(2, 3\), but .* has 6 values"):
        run_scheduler(Scheduler(matrices, []), make_bowl(), 1)


def test_archives_without_elites_or_with_words_are_refused():
    class Density(Archive):
        def data(self, field=None):
            raise NotImplementedError

    with pytest.raises(
        ValueError, match=r"Density keeps no elites; .* result_archive="
    ):
        run_scheduler(Scheduler(Density(), []), make_bowl(), 1)
    archive = Archive()
    archive.rows["measures"] = np.array([["red", "big"]], dtype=object)
    with pytest.raises(ValueError, match="measures of type object"):
        to_population(archive)


def test_progress_is_shown_on_standard_error(capsys):
    run_scheduler(Scheduler(Archive(), batches(3, 3)), make_bowl(), 2, progress=True)
    captured = capsys.readouterr()
    assert "iteration 2" in captured.err
    assert captured.out == ""
