"""The problem `airfoils` on networks of random weights in place of the package's.

What the package itself says is in ``tests/parity/test_airfoils.py``.
"""

import importlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import softqd
from softqd.networks import neuralfoil
from softqd.problems._airfoils import BEHAVIORS, PENALTY

pytestmark = pytest.mark.networks
FOLDER = "neuralfoil/nn_weights_and_biases"


def arrays(confidence=5.0):
    """A network of one hidden layer, sure of itself, and of lift over drag 100."""
    rng = np.random.default_rng(0)
    bias = np.zeros(198, np.float32)
    bias[0], bias[1], bias[2] = confidence, 1.0, 2 + np.log(0.005) / 2
    weight = 1e-3 * rng.normal(size=(198, 4)).astype(np.float32)
    return {
        "net.0.weight": rng.normal(size=(4, 25)).astype(np.float32),
        "net.0.bias": np.zeros(4, np.float32),
        "net.2.weight": weight,
        "net.2.bias": bias,
    }


def write(root, network, **inputs):
    """A package of that name, found but never imported: it would fail."""
    folder = root / FOLDER
    folder.mkdir(parents=True)
    (root / "neuralfoil" / "__init__.py").write_text("raise RuntimeError('imported')")
    known = {"mean_inputs_scaled": np.zeros(25), "inv_cov_inputs_scaled": np.eye(25)}
    np.savez(folder / "scaled_input_distribution.npz", **(known | inputs))
    np.savez(folder / "nn-small.npz", **network)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes a package and puts it before an installed one."""

    def put(network=None, **inputs):
        write(tmp_path, arrays() if network is None else network, **inputs)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "neuralfoil", raising=False)
        importlib.invalidate_caches()

    return put


def smooth(half=1.5, mean=0.5, tail=0.0):
    """An airfoil of equal weights, in tenths; its tail in thousandths."""
    return jnp.array([mean + half] * 8 + [mean - half] * 8 + [0.0, tail], jnp.float32)


def test_without_the_package_one_line_says_what_to_type(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r'pip install "softqd\[airfoils\]"') as caught:
        softqd.problems.airfoils()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"model_size": "huge"}, "model_size must be one of xxsmall"),
        ({"behavior_dim": 1}, "behavior_dim must be a whole number between 2 and 5"),
        ({"behavior_dim": 6}, "behavior_dim must be a whole number between 2 and 5"),
        ({"reynolds": 0.0}, "reynolds must be between 1000 and 1e"),
        ({"angle_deg": float("nan")}, "angle_deg must be between -20 and 20"),
        ({"start_spread": -1.0}, "start_spread must be between 0 and 10"),
    ],
)
def test_settings_are_checked_before_files(settings, named):
    with pytest.raises(ValueError, match=named):
        softqd.problems.airfoils(**settings)


@pytest.mark.parametrize(
    ("network", "inputs"),
    [
        ({"net.0.weight": np.zeros((198, 24)), "net.0.bias": np.zeros(198)}, {}),
        ({"net.0.weight": np.zeros((3, 25)), "net.0.bias": np.zeros(3)}, {}),
        ({"net.0.weight": np.zeros((198, 25))}, {}),
        (None, {"inv_cov_inputs_scaled": -np.eye(25)}),
        (None, {"mean_inputs_scaled": np.zeros(7)}),
    ],
)
def test_files_of_another_kind_are_refused(package, network, inputs):
    package(network, **inputs)
    with pytest.raises(ValueError, match="does not hold the arrays expected"):
        softqd.problems.airfoils(model_size="small")


def test_no_pickle_is_loaded(package):
    package({"net.0.weight": np.array([{}], object), "net.0.bias": np.zeros(3)})
    with pytest.raises(ValueError, match="cannot be read"):
        neuralfoil.load("small")


def test_quality_is_lift_over_drag_where_nothing_is_missing(package):
    """As for an airfoil whose tail is thicker than that of NACA 0005."""
    package(inv_cov_inputs_scaled=1e-9 * np.eye(25))
    params, one = neuralfoil.load("small"), neuralfoil.to_airfoil(smooth(tail=2.0))
    flow = {"angle_deg": 4.0, "reynolds": 1e6}
    found = neuralfoil.aerodynamics(params, one, **flow)
    quality, behavior = softqd.problems.airfoils(model_size="small").evaluate(
        smooth(tail=2.0)
    )
    assert float(quality) == pytest.approx(float(found.lift / found.drag), rel=1e-5)
    # Of 0.3 sqrt(x) (1 - x) + 0.002 x, the largest, near x = 1/3.
    assert float(behavior[0]) == pytest.approx(60 / 3**1.5 + 0.2 / 3, rel=1e-3)
    assert float(found.drag) == pytest.approx(0.005, rel=0.05)


def test_mirror_image_in_the_mirrored_flow_has_the_opposite_lift(package):
    package()
    params = neuralfoil.load("small")
    one = neuralfoil.to_airfoil(smooth(mean=1.0))
    image = one._replace(upper=-one.lower, lower=-one.upper)
    here, there = (
        neuralfoil.aerodynamics(params, airfoil, angle_deg=angle, reynolds=1e6)
        for airfoil, angle in ((one, 3.0), (image, -3.0))
    )
    signs = jnp.array([-1.0, 1.0, -1.0, 1.0])
    np.testing.assert_allclose(jnp.stack(here), signs * jnp.stack(there), rtol=1e-5)
    flat = neuralfoil.to_airfoil(smooth(mean=0.0))
    at_zero = neuralfoil.aerodynamics(params, flat, angle_deg=0.0, reynolds=1e6)
    assert float(at_zero.lift) == float(at_zero.moment) == 0.0


@pytest.mark.parametrize(
    ("half", "tail", "missing"), [(0.0, 0.0, 1.0), (1.5, 0.63, 0.348)]
)
def test_missing_thickness_costs(package, half, tail, missing):
    """All of it where surfaces touch, and a third at a tail of 0.06% of the chord.

    At the last station, x = 0.99975, NACA 0005 has 0.00105 + 0.117 (1 - x), and the
    airfoil 0.3 (1 - x) + 0.00063.
    """
    package(inv_cov_inputs_scaled=1e-9 * np.eye(25))
    solution = smooth(half=half, tail=tail)
    assert lost(solution) == pytest.approx(PENALTY * missing, abs=1.0)


def test_surfaces_that_cross_cost_more_than_those_that_touch(package):
    package(inv_cov_inputs_scaled=1e-9 * np.eye(25))
    assert lost(smooth(half=-0.5)) > PENALTY + 50.0


def test_missing_confidence_costs(package):
    """A logit of 0 is a confidence of 1/2, which lacks 4/9 of 0.9."""
    package(arrays(confidence=0.0), inv_cov_inputs_scaled=1e-9 * np.eye(25))
    assert lost(smooth(tail=2.0)) == pytest.approx(PENALTY * 4 / 9, abs=0.5)


def lost(solution):
    """What quality is below the ratio of lift to drag."""
    params, one = neuralfoil.load("small"), neuralfoil.to_airfoil(solution)
    found = neuralfoil.aerodynamics(params, one, angle_deg=4.0, reynolds=1e6)
    quality = softqd.problems.airfoils(model_size="small").evaluate(solution)[0]
    return float(found.lift / found.drag - quality)


def test_behaviors_are_as_many_as_asked_and_stay_within_bounds(package):
    package()
    key = jax.random.key(0)
    for dim in (2, 5):
        problem = softqd.problems.airfoils(model_size="small", behavior_dim=dim)
        assert problem.behavior_dim == len(problem.behavior_names) == dim
        assert all("%" in n or "coefficient" in n or "deg" in n for n, *_ in BEHAVIORS)
    high = problem.solution_bounds[1]
    _, behavior = problem.evaluate(jnp.asarray(high))
    assert (behavior <= np.array(problem.behavior_bounds[1])).all()
    solution = jax.vmap(problem.sample)(jax.random.split(key, 64))
    low, high = problem.solution_bounds
    assert ((solution >= low[None]) & (solution <= high[None])).all()


def test_first_solutions_without_noise_are_naca_airfoils(package):
    """Thickness from 8 to 18%, camber from 0 to 4%, as their digits say."""
    package()
    calm = softqd.problems.airfoils(
        model_size="small", behavior_dim=5, start_spread=0.0
    )
    solutions = jax.vmap(calm.sample)(jax.random.split(jax.random.key(1), 256))
    _, behavior = jax.vmap(calm.evaluate)(solutions)
    thickness, camber = np.asarray(behavior[:, 0]), np.asarray(behavior[:, 3])
    assert thickness.min() == pytest.approx(8.0, abs=0.2)
    assert thickness.max() == pytest.approx(18.0, abs=0.2)
    assert camber.min() == pytest.approx(0.0, abs=0.1)
    assert camber.max() == pytest.approx(4.0, abs=0.2)


def test_picture_covers_the_area_of_the_airfoil(package):
    """The integral of 2 w sqrt(x) (1 - x) is 8 w / 15."""
    package()
    problem = softqd.problems.airfoils(model_size="small")
    picture = np.asarray(problem.render(smooth(half=1.5, mean=0.0)))
    assert picture.shape == (128, 384, 3)
    cover = (1 - picture) / (1 - picture.min((0, 1)))
    chord = 384 * 15 / 16
    assert cover[..., 0].sum() / chord**2 == pytest.approx(0.15 * 8 / 15, rel=0.01)
    assert (picture[:, :10] == 1).all()
    assert (picture[:, -10:] == 1).all()
