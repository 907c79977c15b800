from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from softqd.ops import gpu

H200 = SimpleNamespace(platform="gpu", device_kind="NVIDIA H200")
AMD = SimpleNamespace(platform="gpu", device_kind="AMD Instinct MI300X")
CPU = SimpleNamespace(platform="cpu", device_kind="cpu")


@pytest.mark.parametrize(
    ("device", "can_lower", "dtype", "expected"),
    [
        (H200, True, jnp.float32, True),
        (H200, False, jnp.float32, False),
        (H200, True, jnp.float64, False),
        (AMD, True, jnp.float32, False),
        (CPU, True, jnp.float32, False),
    ],
)
def test_kernels_run_only_where_they_can(
    monkeypatch, device, can_lower, dtype, expected
):
    monkeypatch.setattr(gpu, "_default_device", lambda: device)
    monkeypatch.setattr(gpu, "_can_lower", lambda: can_lower)
    assert gpu.has_kernels(jnp.dtype(dtype)) is expected


@pytest.mark.parametrize("default", ["cpu", jax.devices("cpu")[0]])
def test_a_default_device_decides(default):
    with jax.default_device(default):
        assert gpu._default_device().platform == "cpu"
        assert not gpu.has_kernels(jnp.dtype(jnp.float32))
