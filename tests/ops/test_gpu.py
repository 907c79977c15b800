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


@pytest.mark.parametrize(
    ("device", "expected"), [(H200, gpu.NVIDIA_OPTIONS), (AMD, None), (CPU, None)]
)
def test_options_are_those_of_the_device(monkeypatch, device, expected):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr(gpu, "_default_device", lambda: device)
    assert gpu.compiler_options() == expected


def test_options_of_the_environment_are_left_alone(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_foo=1 --xla_gpu_autotune_level=0")
    monkeypatch.setattr(gpu, "_default_device", lambda: H200)
    assert gpu.compiler_options() == {"xla_gpu_enable_triton_gemm": False}


def test_the_compiler_knows_the_options():
    lowered = jax.jit(jnp.sin).lower(0.0)
    assert lowered.compile(gpu.NVIDIA_OPTIONS)(0.0) == 0.0
    with pytest.raises(jax.errors.JaxRuntimeError, match="autotune"):
        lowered.compile({"xla_gpu_autotune_levels": 2})
