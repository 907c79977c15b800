"""Arrays of other libraries, through the door that every metric has."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import softqd
from softqd import metrics
from softqd.ops.checks import as_array


class Foreign:
    """An array that offers DLPack and nothing else."""

    def __init__(self, array, device=(1, 0)):
        self._array, self._device = np.asarray(array), device

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._device


QUALITY = np.array([1.0, 0.5, 2.0])
BEHAVIOR = np.array([[0.1, 0.2], [0.15, 0.2], [0.8, 0.9]])
CENTROIDS = np.array([[0.0, 0.0], [0.2, 0.2], [1.0, 1.0]])
POINTS = np.array([[0.5, 0.5], [0.1, 0.2]])


def test_what_jax_and_numpy_know_passes_unchanged():
    for x in (np.ones(3), jnp.ones(3), [1.0, 2.0], 3.0, np.float32(1)):
        assert as_array(x) is x
    grad = jax.grad(lambda f: softqd.lower_bound(f, BEHAVIOR, 1e-3))(QUALITY)
    volume = 2 * np.pi * 1e-6
    np.testing.assert_allclose(grad, np.full(3, volume), rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_other_arrays_are_copied_with_their_type(dtype):
    array = np.arange(6, dtype=dtype).reshape(2, 3).T
    copy = as_array(Foreign(array))
    np.testing.assert_array_equal(copy, array)
    assert copy.dtype == dtype
    copy[0, 0] = 9
    assert array[0, 0] == 0


def test_a_gradient_is_left_behind():
    class Tracked(Foreign):
        def __dlpack__(self, **options):
            raise RuntimeError("requires grad")

        def detach(self):
            return Foreign(self._array)

    np.testing.assert_array_equal(as_array(Tracked(QUALITY)), QUALITY)


def test_a_device_that_is_not_here_says_what_to_do():
    rocm = (10, 0)
    with pytest.raises(ValueError, match=r"cannot read a Foreign.*pass x\.cpu\(\)"):
        as_array(Foreign(QUALITY, rocm))


def test_arrays_on_a_device_of_jax_go_there_directly(monkeypatch):
    monkeypatch.setattr("softqd.ops.checks._DLPACK_CPU", None)  # as if not the CPU
    found = as_array(Foreign(QUALITY.astype(np.float32)))
    assert isinstance(found, jax.Array)
    np.testing.assert_array_equal(found, QUALITY)


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (lambda q, b: softqd.soft_qd_score(q, b, 0.1), (QUALITY, BEHAVIOR)),
        (lambda x, *p: softqd.behavior_value(x, *p, 0.1), (POINTS, QUALITY, BEHAVIOR)),
        (lambda q, b: softqd.lower_bound(q, b, 0.1), (QUALITY, BEHAVIOR)),
        (lambda q, b: metrics.truncation_error(q, b, 0.1), (QUALITY, BEHAVIOR)),
        (lambda q, b: metrics.overlap_error(q, b, 0.1), (QUALITY, BEHAVIOR)),
        (lambda q, b: softqd.select(q, b, 2, 0.1), (QUALITY, BEHAVIOR)),
        (lambda q, b: softqd.squad_objective(q, b, 0.1), (QUALITY, BEHAVIOR)),
        (metrics.vendi_score, (BEHAVIOR,)),
        (metrics.vendi_estimate, (BEHAVIOR,)),
        (metrics.quality_vendi_score, (QUALITY, BEHAVIOR)),
        (metrics.qd_score, (QUALITY, BEHAVIOR, CENTROIDS)),
        (metrics.coverage, (BEHAVIOR, CENTROIDS)),
        (metrics.cell_of, (BEHAVIOR, CENTROIDS)),
        (lambda b: metrics.to_unit((-1.0, 1.0), b), (BEHAVIOR,)),
    ],
)
@pytest.mark.parametrize("kind", [Foreign, jnp.asarray, np.ndarray.tolist])
def test_every_metric_takes_any_array(function, arrays, kind):
    expected = function(*arrays)
    found = function(*(kind(array) for array in arrays))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
