"""Neurons: the package's cell beside SciPy's solution, jaxley's own channels, algebra.

The recording was made by ``scripts/make_recording.py``, which knows nothing of the
package: the equations of the paper, solved by SciPy.
"""

import importlib.util
import runpy
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d

import softqd
from softqd.experiment import config
from softqd.networks._recordings import load_recording
from softqd.problems import _neurons
from softqd.registry import ALGORITHMS

pytestmark = pytest.mark.parity

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_recording.py"
PROTON = 1.602176634e-19  # C


def outside():
    spec = importlib.util.spec_from_file_location("make_recording", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script():
    return outside()


@pytest.fixture(scope="module")
def solved(script):
    """Voltage (mV) and sodium current (pA) of the hidden cell, every 0.05 ms."""
    time, _, states = script.solve(every=0.05)
    return time, states[0], script.sodium_current(script.HIDDEN, states)


@pytest.fixture(scope="module")
def hidden(script):
    return {name: jnp.log10(value) for name, value in script.HIDDEN.items()}


@pytest.fixture(scope="module")
def neuron():
    pytest.importorskip("jaxley")
    return softqd.problems.Neuron()


@pytest.fixture(scope="module")
def trace(neuron, hidden):
    return jax.tree.map(np.asarray, jax.jit(neuron.trace)(hidden))


@pytest.fixture(scope="module")
def problem(neuron):
    return softqd.problems.neurons()


@pytest.fixture(scope="module")
def kept():
    """The run of the page: the default, seed 0."""
    path = Path(__file__).parents[2] / "results" / "neurons_population.npz"
    return softqd.load_population(path)


def spikes(time, voltage):
    return time[1:][(voltage[1:] > -20) & (voltage[:-1] <= -20)]


def smoothed(x, every=0.05):
    return gaussian_filter1d(x, 1.0 / every, mode="constant", truncate=4)


def test_the_recording_is_the_hidden_cell_and_noise(script):
    recording = load_recording()
    _, current, states = script.solve()
    np.testing.assert_array_equal(recording.current, current)
    noise = recording.voltage - states[0]
    np.testing.assert_allclose(noise.std(), 0.5, rtol=0.1)
    assert abs(noise.mean()) < 0.1


def test_hidden_conductances_give_the_voltage_that_scipy_gives(neuron, trace, solved):
    """Within 0.15 ms of every spike, and 0.7 mV of the smoothed trace."""
    time, voltage, _ = solved
    np.testing.assert_allclose(neuron.time, time, atol=1e-9)
    expected, found = spikes(time, voltage), spikes(time, trace.voltage)
    assert neuron.num_spikes == len(expected) == 4
    np.testing.assert_allclose(found, expected, atol=0.16)
    assert np.sqrt(np.mean(smoothed(trace.voltage - voltage) ** 2)) < 0.7


def test_energy_is_that_of_the_sodium_that_scipy_counts(problem, hidden, solved):
    """Charge by the trapezoidal rule, three ions per ATP, four spikes."""
    time, _, current = solved
    coulombs = -np.trapezoid(current, time) * 1e-15
    expected = coulombs / PROTON / 3 / 4 / 1e6
    _, behavior = jax.jit(problem.evaluate)(hidden)
    np.testing.assert_allclose(behavior[2], expected, rtol=0.01)
    np.testing.assert_allclose(behavior[:2], [6.6, 0.71], rtol=1e-5)


@pytest.mark.filterwarnings("ignore")  # pandas wonders at jaxley
@jax.numpy_rank_promotion("allow")
def test_jaxleys_own_channels_agree_at_another_step(neuron, trace, hidden, script):
    """Rates as jaxley writes them, its default solver, half the step."""
    import jaxley as jx
    from jaxley.channels import pospischil

    own = (pospischil.Na(), pospischil.K(), pospischil.Km(), pospischil.CaL())
    cell = jx.Compartment()
    for channel in (*own, pospischil.Leak()):
        cell.insert(channel)
    side = np.sqrt(1e4 / (4 * np.pi))
    start = float(neuron.voltage[:20].mean())
    values = {"radius": side, "length": 2 * side, "v": start, "vt": script.THRESHOLD}
    values |= {"Km_taumax": script.SLOWEST, "Leak_eLeak": script.LEAK_REVERSAL}
    names = ("Na_gNa", "K_gK", "Km_gKm", "CaL_gCaL", "Leak_gLeak")
    cell_values = dict(zip(names, list(script.HIDDEN.values())[:5], strict=True))
    values |= {name: 1e-5 * value for name, value in cell_values.items()}
    values["capacitance"] = 1e-2 * script.HIDDEN["capacitance"]
    for name, value in values.items():
        cell.set(name, value)
    cell.init_states()
    cell.set("Km_p", 1 / (1 + np.exp(-(start + 35) / 10)))  # its own start is amiss
    cell.record("v", verbose=False)
    step = np.repeat(neuron.current[:-1], 2) / 1000
    cell.stimulate(jnp.asarray(step, jnp.float32), verbose=False)
    voltage = np.asarray(jax.jit(lambda: jx.integrate(cell, delta_t=0.025))())[0, ::2]
    expected, found = spikes(neuron.time, voltage), spikes(neuron.time, trace.voltage)
    np.testing.assert_allclose(found, expected, atol=0.31)
    assert np.sqrt(np.mean(smoothed(trace.voltage - voltage) ** 2)) < 1.3


def test_quality_is_half_at_the_tolerance(problem, neuron, hidden, trace):
    """SciPy's Gaussian filter, and the formula of the page."""
    shifted = {**hidden, "leak": hidden["leak"] + 0.3}
    run = jax.jit(lambda x: (problem.evaluate(x), neuron.trace(x).voltage))
    for solution in (hidden, shifted):
        (quality, _), voltage = run(solution)
        error_sq = np.mean(smoothed(np.asarray(voltage) - neuron.voltage) ** 2)
        np.testing.assert_allclose(quality, 100 / (1 + error_sq / 4), rtol=1e-3)
    assert run(hidden)[0].quality > 85


def test_rates_are_smooth_where_they_are_zero_by_zero():
    """x / (exp(x) - 1) and its derivative in 80 bits, or by their series."""
    from softqd.problems._neuron_cell import _linoid

    x = np.array([-3.0, -0.051, -0.049, -1e-4, 0.0, 1e-6, 0.049, 0.051, 8.0])
    exact = np.longdouble(x)
    with np.errstate(invalid="ignore"):
        value = np.where(x == 0, 1, exact / np.expm1(exact))
        slope = np.where(
            np.abs(x) < 1e-3,
            -0.5 + exact / 6,
            (np.expm1(exact) - exact * np.exp(exact)) / np.expm1(exact) ** 2,
        )
    found, slopes = jax.vmap(jax.value_and_grad(_linoid))(jnp.asarray(x, jnp.float32))
    np.testing.assert_allclose(found, value.astype(float), rtol=1e-5)
    np.testing.assert_allclose(slopes, slope.astype(float), atol=2e-5)


def test_gradient_matches_finite_differences(hidden, x64):
    problem = softqd.problems.neurons()
    fine = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), problem)
    way = dict(zip(hidden, np.random.default_rng(0).normal(size=6), strict=True))
    solution = {name: jnp.float64(x) for name, x in hidden.items()}

    @jax.jit
    def total(amount):
        moved = {name: x + amount * way[name] for name, x in solution.items()}
        quality, behavior = fine.evaluate(moved)
        return quality + behavior.sum()

    slope = (total(1e-6) - total(-1e-6)) / 2e-6
    np.testing.assert_allclose(jax.jit(jax.grad(total))(0.0), slope, rtol=1e-5)


def test_a_picture_shows_the_voltage_over_the_recorded_one(problem, hidden):
    picture = np.asarray(jax.jit(problem.render)(hidden))
    assert picture.shape == problem.target.shape == (128, 256, 3)
    assert picture.min() >= 0
    assert picture.max() <= 1
    # The first spike, from 20.8 of 80 ms on, reaches up to 46 of 60 mV.
    dark = np.flatnonzero((picture[:, 66:72] < 0.5).any((1, 2)))
    np.testing.assert_allclose(dark.min(), (60 - 46) / 160 * 127, atol=3)


def test_a_recording_of_the_user_is_used(tmp_path, neuron):
    """The first two spikes alone, at half the sampling rate, under another name."""
    recording = load_recording()
    path = tmp_path / "mine.csv"
    rows = np.stack(recording[1:], axis=1)[:401:2]
    np.savetxt(path, rows, delimiter=",", header="t,i,v", comments="")
    mine = softqd.problems.Neuron(str(path))
    assert (mine.name, mine.num_spikes, len(mine.time)) == ("mine", 2, 801)
    np.testing.assert_array_equal(mine.current, neuron.current[:801])
    at = slice(0, 801, 4)  # the times that were kept
    np.testing.assert_allclose(mine.voltage[at], neuron.voltage[:801][at], atol=1e-9)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("0,0,-70\n2,0,-70\n", r"mine has no spike, no rise through -20 mV"),
        ("0,0,-70\n0.5,0,0\n", r"mine must last from 1 to 1000 ms; got 0.5"),
        ("0,0,-70\n2000,0,0\n", r"mine must last from 1 to 1000 ms; got 2000"),
    ],
)
def test_a_recording_without_use_is_refused(tmp_path, rows, says):
    path = tmp_path / "mine.csv"
    path.write_text("t,i,v\n" + rows)
    with pytest.raises(ValueError, match=says):
        softqd.problems.neurons(str(path))


@pytest.mark.parametrize("name", ["tolerance", "smoothing"])
@pytest.mark.parametrize("value", [0, -1.0, float("inf"), "two"])
def test_bad_settings(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a positive number; got"):
        softqd.problems.neurons(**{name: value})


def test_voltage_is_drawn_from_minus_100_to_60_mv():
    flat = _neurons.draw(jnp.full(100, -100.0), jnp.full(100, 60.0))
    assert np.asarray(flat[0, 5]).tolist() == pytest.approx([0.78] * 3)
    assert np.asarray(flat[-1, 5]).tolist() == pytest.approx([0.0, 0.45, 0.7])
    assert float(flat[60].min()) == 1.0


def test_the_hidden_cell_is_among_what_a_run_covers(problem, kept, hidden):
    """A cell within the tolerance, a tenth of the side of the space away or less."""
    found = jax.jit(jax.vmap(problem.evaluate))(kept.solutions)
    good = np.asarray(found.quality) >= 50
    np.testing.assert_allclose(found.behavior, kept.behavior, rtol=0.02)
    low, high = problem.bounds(3)
    _, behavior = jax.jit(problem.evaluate)(hidden)
    apart = (np.asarray(found.behavior)[good] - np.asarray(behavior)) / (high - low)
    assert np.linalg.norm(apart, axis=1).min() < 0.1


def test_scipy_finds_the_cells_of_a_run_near_the_recording_too(script, kept):
    """Five different good ones: within the tolerance and the error of a step."""
    good = kept[np.asarray(kept.quality) >= 50]
    recording = load_recording()
    chosen = np.linspace(0, len(good) - 1, 5).astype(int)
    order = np.argsort(good.behavior[:, 2])  # from cheap to costly
    for row in order[chosen]:
        cell = {n: float(10 ** good.solutions[n][row]) for n in script.HIDDEN}
        _, _, states = script.solve(cell)
        difference = smoothed(states[0] - recording.voltage, script.EVERY)
        assert np.sqrt(np.mean(difference**2)) < 2.0 + 0.7


def test_the_preset_has_as_many_solutions_for_every_method(neuron):
    for name in ALGORITHMS:
        table = config.from_name("neurons", name)["algorithm"]
        assert table.get("population_size", table.get("cells")) == 256


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("jaxley")
    path = SCRIPT.parents[1] / "examples" / "neurons.py"
    monkeypatch.setattr("sys.argv", [path.name, str(tmp_path), "-", "3"])
    runpy.run_path(str(path), run_name="__main__")
    history = softqd.load(tmp_path).history
    assert history["mean_quality"][-1] > history["mean_quality"][0]
    assert "of 256 cells are within 2 mV" in capsys.readouterr().out
    assert (tmp_path / "traces.pdf").exists()
