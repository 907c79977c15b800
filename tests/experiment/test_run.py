import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import toys
from toys import make_bowl

import softqd


@pytest.fixture(scope="module")
def algorithm():
    return softqd.squad_published(
        make_bowl(), population_size=8, batch_size=4, num_neighbors=3
    )


def test_history_counts_what_was_spent(algorithm):
    result = softqd.run(algorithm, num_iterations=25, log_every=10)
    assert result.history["iteration"].tolist() == [0, 10, 20, 25]
    assert result.history["evaluations"].tolist() == [8, 168, 328, 408]
    assert result.history["gradient_evaluations"].tolist() == [0, 80, 160, 200]
    assert len({len(column) for column in result.history.values()}) == 1
    np.testing.assert_allclose(
        result.history["mean_quality"][-1], result.population.quality.mean(), rtol=1e-6
    )


def test_runs_of_one_algorithm_are_traced_once(bowl):
    traced = []

    def evaluate(x):
        traced.append(x)
        return bowl.evaluate(x)

    problem = dataclasses.replace(bowl, evaluate=evaluate)
    algorithm = toys.climb(problem)
    first = softqd.run(algorithm, seed=0, num_iterations=2)
    count = len(traced)
    second = softqd.run(algorithm, seed=1, num_iterations=3)
    assert len(traced) == count > 0
    other = softqd.run(toys.climb(problem), seed=1, num_iterations=3)
    assert len(traced) > count
    np.testing.assert_array_equal(second.population.quality, other.population.quality)
    assert not np.array_equal(first.population.quality, second.population.quality)


def test_log_points_do_not_change_the_run(algorithm):
    a = softqd.run(algorithm, num_iterations=9, log_every=1)
    b = softqd.run(algorithm, num_iterations=9, log_every=100)
    np.testing.assert_array_equal(a.population.solutions, b.population.solutions)


def test_zero_iterations_give_the_start(algorithm):
    result = softqd.run(algorithm, seed=3, num_iterations=0)
    start = jax.jit(algorithm.init)(jax.random.key(3))
    np.testing.assert_allclose(result.population.quality, start.quality, rtol=1e-6)
    assert result.history["iteration"].tolist() == [0]


@pytest.mark.parametrize(("budget", "iterations"), [(8, 0), (23, 0), (24, 1), (100, 5)])
def test_evaluations_are_never_exceeded(algorithm, budget, iterations):
    result = softqd.run(algorithm, max_evaluations=budget)
    assert result.history["iteration"][-1] == iterations
    assert result.history["evaluations"][-1] <= budget


def test_seconds_end_a_run(algorithm):
    result = softqd.run(algorithm, max_seconds=0.2)
    assert result.history["iteration"][-1] > 0
    assert 0.2 <= result.timings["run"] < 5


def test_seeds_together_equal_seeds_alone_for_20_iterations():
    problem = softqd.problems.linear_projection(behavior_dim=4, solution_dim=32)
    algorithm = softqd.squad_published(
        problem, population_size=64, batch_size=16, gamma_sq=0.5
    )
    many = softqd.run(algorithm, seed=[1, 2, 3], num_iterations=20)
    assert [r.seed for r in many] == [1, 2, 3]
    for result in many:
        alone = softqd.run(algorithm, seed=result.seed, num_iterations=20)
        np.testing.assert_allclose(
            result.population.solutions, alone.population.solutions, atol=2e-3
        )
        np.testing.assert_allclose(
            result.history["mean_quality"], alone.history["mean_quality"], rtol=1e-4
        )


def test_measures_become_columns_and_survive_a_checkpoint(algorithm, tmp_path):
    def measure(population):
        return {"span": float(np.ptp(population.behavior))}

    options = {"seed": [1, 2], "log_every": 2, "measure": measure}
    options |= {"checkpoint_dir": tmp_path, "resume": True}
    softqd.run(algorithm, num_iterations=2, **options)
    for result in softqd.run(algorithm, num_iterations=5, **options):
        assert result.history["iteration"].tolist() == [0, 2, 4, 5]
        assert len(result.history["span"]) == 4
        last = np.ptp(np.asarray(result.population.behavior))
        np.testing.assert_allclose(result.history["span"][-1], last)


def test_callback_sees_every_log_point(algorithm):
    seen = []
    softqd.run(
        algorithm,
        num_iterations=20,
        log_every=5,
        callback=lambda p: seen.append((p.iteration, p.population().quality.shape)),
    )
    assert seen == [(i, (8,)) for i in (5, 10, 15, 20)]


def test_warm_start_from_solutions(algorithm):
    first = softqd.run(algorithm, num_iterations=5)
    second = softqd.run(
        algorithm, num_iterations=0, solutions=first.population.solutions
    )
    np.testing.assert_array_equal(
        first.population.solutions, second.population.solutions
    )


def explosive(limit):
    """Quality turns into NaN once the first coordinate passes a limit."""

    def evaluate(x):
        return jnp.where(x[0] > limit, jnp.nan, x[0]), jax.nn.sigmoid(x[:2])

    return softqd.Problem(evaluate, lambda key: jnp.zeros(2), (0, 1))


def test_non_finite_quality_stops_the_run_by_name(tmp_path):
    algorithm = softqd.squad_published(
        explosive(4.5),
        population_size=4,
        batch_size=2,
        num_neighbors=0,
        optimizer=optax.sgd(1.0),
    )
    start = jnp.zeros((4, 2)).at[2, 0].set(1.0)  # row 2 passes 4.5 in iteration 4
    with pytest.raises(
        softqd.NonFiniteError, match=r"iteration 4: .* of solution 2 is"
    ):
        softqd.run(
            algorithm,
            num_iterations=20,
            log_every=1,
            solutions=start,
            checkpoint_dir=tmp_path,
            checkpoint_every=0.0,
        )
    resumed = softqd.run(
        algorithm,
        num_iterations=3,
        solutions=start,
        checkpoint_dir=tmp_path,
        resume=True,
    )
    assert resumed.history["iteration"][-1] == 3
    assert resumed.population.quality.max() == 4.0


def test_non_finite_gradient_stops_the_run():
    def evaluate(x):
        return jnp.sqrt(jnp.abs(x[0])), jax.nn.sigmoid(x)  # infinite slope at 0

    problem = softqd.Problem(evaluate, lambda key: jnp.zeros(2), (0, 1))
    algorithm = softqd.squad_published(problem, population_size=4, batch_size=2)
    with pytest.raises(
        softqd.NonFiniteError, match=r"iteration 1: .* solution 0 is not"
    ):
        softqd.run(algorithm, num_iterations=3)


def test_non_finite_behavior_stops_the_run():
    def evaluate(x):
        behavior = jnp.where(x[0] > 0.5, jnp.nan, x[0])
        return x[0], jnp.stack([behavior, x[1]])

    problem = softqd.Problem(evaluate, lambda key: jnp.zeros(2))
    algorithm = softqd.squad_published(
        problem,
        population_size=4,
        batch_size=2,
        num_neighbors=0,
        optimizer=optax.sgd(0.2),
    )
    with pytest.raises(softqd.NonFiniteError, match="iteration 3: "):
        softqd.run(algorithm, num_iterations=9)


def test_failure_among_several_seeds_names_the_seed():
    def evaluate(x):
        return x[0], jax.nn.sigmoid(x)

    problem = softqd.Problem(
        evaluate, lambda key: jax.random.uniform(key, (2,)), (0, 1)
    )
    algorithm = softqd.squad_published(
        problem, population_size=4, batch_size=2, optimizer=optax.sgd(jnp.inf)
    )
    with pytest.raises(softqd.NonFiniteError, match="of seed 5 is not finite"):
        softqd.run(algorithm, seed=[5, 6], num_iterations=2)


@pytest.mark.parametrize("seed", [0, [0, 1]])
def test_a_quality_without_gradient_is_said(seed):
    problem = softqd.Problem(
        lambda x: (jnp.round(jnp.sum(x)), jnp.floor(4 * jnp.tanh(x[:2])) / 4),
        lambda key: jax.random.normal(key, (4,)),
        (-1, 1),
    )
    algorithm = softqd.squad_published(problem, population_size=8, batch_size=8)
    with pytest.warns(UserWarning, match="gradients are zero. Is evaluate differe"):
        softqd.run(algorithm, seed=seed, num_iterations=3)


def test_random_start_that_is_not_finite():
    problem = softqd.Problem(lambda x: (x.sum(), x), lambda key: jnp.full(2, jnp.nan))
    algorithm = softqd.squad_published(problem, population_size=4, batch_size=2)
    with pytest.raises(ValueError, match="quality of solution 0 at the start is not"):
        softqd.run(algorithm, num_iterations=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": []}, "seed must be between 1 and"),
        ({"seed": [1, 1]}, "seed holds duplicates"),
        ({"num_iterations": -1}, "num_iterations must be a whole number at least 0"),
        ({"log_every": 0}, "log_every must be a whole number at least 1"),
        ({"max_seconds": -1.0}, "max_seconds must be at least 0"),
        ({"max_evaluations": 1.5}, "max_evaluations must be a whole number"),
        ({"solutions": np.float32(1.0)}, r"solutions has shape \(\), but"),
        ({"solutions": {}}, "solutions hold no arrays"),
        ({"solutions": np.ones((8, 9))}, r"shape \(8, 9\), expected \(n, 6\)"),
        (
            {"solutions": {"x": np.ones((8, 6))}},
            "structure: those given lack 'solutions'",
        ),
        (
            {"solutions": np.full((8, 6), np.inf)},
            "solution 0 at the start is not finite",
        ),
    ],
)
def test_bad_arguments(algorithm, arguments, message):
    with pytest.raises(ValueError, match=message):
        softqd.run(algorithm, **{"num_iterations": 1, **arguments})


def test_progress_bar_writes_to_standard_error(algorithm, capsys):
    softqd.run(algorithm, num_iterations=3, progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "iteration" in captured.err
    assert "eval/s" in captured.err


def test_library_is_silent_without_progress(algorithm, capsys):
    softqd.run(algorithm, num_iterations=3)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


# --- checkpoints --------------------------------------------------------------------


def save_one(algorithm, folder, seed=0):
    softqd.run(algorithm, seed=seed, num_iterations=4, checkpoint_dir=folder)
    return Path(folder) / "state.npz"


@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.99])
def test_torn_checkpoint_is_refused_and_kept(algorithm, tmp_path, keep):
    path = save_one(algorithm, tmp_path)
    data = path.read_bytes()
    torn = data[: int(keep * len(data)) if keep < 1 else keep]
    path.write_bytes(torn)
    with pytest.raises(softqd.CheckpointError, match="damaged or not a checkpoint"):
        softqd.run(algorithm, num_iterations=8, checkpoint_dir=tmp_path, resume=True)
    assert path.read_bytes() == torn


def test_flipped_byte_is_noticed(algorithm, tmp_path):
    path = save_one(algorithm, tmp_path)
    data = bytearray(path.read_bytes())
    with np.load(path) as file:
        numbers = file["state.quality"].tobytes()
    data[data.index(numbers)] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(softqd.CheckpointError):
        softqd.run(algorithm, num_iterations=8, checkpoint_dir=tmp_path, resume=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gamma_sq": 0.3}, "belongs to another run: its config"),
        ({"population_size": 6}, "belongs to another run"),
    ],
)
def test_checkpoint_of_other_settings_is_refused(
    bowl, algorithm, tmp_path, change, message
):
    path = save_one(algorithm, tmp_path)
    before = path.read_bytes()
    settings = {"population_size": 8, "batch_size": 4, "num_neighbors": 3, **change}
    other = softqd.squad_published(bowl, **settings)
    with pytest.raises(softqd.CheckpointError, match=message):
        softqd.run(other, num_iterations=8, checkpoint_dir=tmp_path, resume=True)
    assert path.read_bytes() == before


def test_checkpoint_of_another_seed_or_problem_is_refused(algorithm, tmp_path):
    save_one(algorithm, tmp_path)
    with pytest.raises(softqd.CheckpointError, match=r"its seeds is \[0\], this run's"):
        softqd.run(
            algorithm, seed=1, num_iterations=8, checkpoint_dir=tmp_path, resume=True
        )
    shape = softqd.squad_published(
        make_bowl(dim=7), population_size=8, batch_size=4, num_neighbors=3
    )
    with pytest.raises(softqd.CheckpointError, match=r"float32\(8, 6\), this run has"):
        softqd.run(shape, num_iterations=8, checkpoint_dir=tmp_path, resume=True)


def test_checkpoint_is_not_overwritten_without_resume(algorithm, tmp_path):
    path = save_one(algorithm, tmp_path)
    before = path.read_bytes()
    with pytest.raises(softqd.CheckpointError, match="pass resume=True to continue"):
        softqd.run(algorithm, num_iterations=8, checkpoint_dir=tmp_path)
    assert path.read_bytes() == before


def test_other_file_in_place_of_a_checkpoint(algorithm, tmp_path):
    np.savez(tmp_path / "state.npz", something=np.ones(3))
    with pytest.raises(softqd.CheckpointError):
        softqd.run(algorithm, num_iterations=8, checkpoint_dir=tmp_path, resume=True)


SCRIPT = """
import sys, softqd
problem = softqd.problems.linear_projection(behavior_dim=2, solution_dim=16)
algorithm = softqd.squad_published(problem, population_size=32, batch_size=8)
def tell(point):
    print(point.iteration, flush=True)
result = softqd.run(algorithm, seed=4, num_iterations=int(sys.argv[2]), log_every=10,
                    checkpoint_dir=sys.argv[1], checkpoint_every=0.0, resume=True,
                    callback=tell)
result.save(sys.argv[1] + "/result")
"""


def start_script(folder, iterations):
    command = [sys.executable, "-c", SCRIPT, str(folder), str(iterations)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def wait_for_iterations(process, count):
    for _ in range(count):
        assert process.stdout.readline().strip().isdigit()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_run_continues_bit_for_bit(tmp_path, how):
    """Killed twice, at moments of the machine's choosing, then finished."""
    for _ in range(2):
        process = start_script(tmp_path / "killed", 100_000)
        wait_for_iterations(process, 3)
        time.sleep(0.01 * np.random.default_rng(os.getpid()).random())
        process.send_signal(how)
        process.communicate(timeout=60)
        assert process.returncode != 0
    with np.load(tmp_path / "killed" / "state.npz") as file:
        reached = int(file["state.iteration"])
    assert reached >= 40  # at least two of three log points a time were saved
    total = reached + 13
    for name in ("killed", "straight"):
        process = start_script(tmp_path / name, total)
        process.communicate(timeout=120)
        assert process.returncode == 0
    a, b = (softqd.load(tmp_path / n / "result") for n in ("killed", "straight"))
    np.testing.assert_array_equal(a.population.solutions, b.population.solutions)
    np.testing.assert_array_equal(a.population.quality, b.population.quality)
    assert a.history["evaluations"][-1] == b.history["evaluations"][-1]
