"""What differs on a GPU: whether our kernels can run, how programs are compiled."""

from __future__ import annotations

import functools
import importlib
import os
from typing import Any

import jax
import jax.numpy as jnp

# Kernels are tried out, but their results not compared with one another, and matrix
# products are left to the vendor's library, instead of writing kernels for each of
# them: both took much of the time of compiling a large network.
NVIDIA_OPTIONS = {"xla_gpu_autotune_level": 2, "xla_gpu_enable_triton_gemm": False}


def compiler_options() -> dict[str, Any] | None:
    """What to tell the compiler of a long run, for the device it will run on.

    An option that the environment variable ``XLA_FLAGS`` names is the user's.
    """
    if not _is_nvidia(_default_device()):
        return None
    theirs = os.environ.get("XLA_FLAGS", "")
    return {name: v for name, v in NVIDIA_OPTIONS.items() if name not in theirs}


def has_kernels(dtype: Any) -> bool:
    """Whether arrays of this type are computed where the kernels run.

    That is float32 on an NVIDIA GPU, with a JAX that still lowers through Triton.
    """
    return dtype == jnp.float32 and _is_nvidia(_default_device()) and _can_lower()


def _default_device() -> Any:
    """Where computations go unless they are told otherwise."""
    # A device, the name of a platform, or None.
    default = getattr(jax.config, "jax_default_device", None)
    if isinstance(default, str):
        return jax.devices(default)[0]
    return jax.devices()[0] if default is None else default


def _is_nvidia(device: Any) -> bool:
    return device.platform == "gpu" and "nvidia" in device.device_kind.lower()


@functools.cache
def _can_lower() -> bool:
    try:
        importlib.import_module("jax.experimental.pallas.triton")
    except ImportError:
        return False
    return True
