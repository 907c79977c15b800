"""Files of named arrays: read, write and recognize them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a ``.safetensors`` or ``.npz`` file by name; nothing is executed.

    Raises:
        ValueError: If there is no such file, or it is of another kind, or damaged.
    """
    path = path.expanduser()
    if not path.is_file():
        raise ValueError(f"there is no weight file {path}; see 'softqd weights list'")
    if path.suffix == ".pkl":
        raise ValueError(
            f"{path} is a pickle; run 'softqd weights convert {path}' and use the "
            "file it writes"
        )
    if path.suffix not in (".safetensors", ".npz"):
        raise ValueError(f"{path}: weights are read from .safetensors or .npz files")
    read = _read_npz if path.suffix == ".npz" else _safetensors_reader()
    try:
        return read(path)
    except MemoryError:
        raise ValueError(
            f"{path} asks for more memory than there is; if it is not that large, it "
            "is damaged: fetch or copy it again"
        ) from None
    except Exception as error:  # bytes that are wrong can make readers raise anything
        raise ValueError(
            f"{path} cannot be read ({type(error).__name__}: {error}): it is damaged, "
            "cut off or of another kind; fetch or copy it again"
        ) from None


def read_metadata(path: Path) -> dict[str, str]:
    """Texts that a ``.safetensors`` file holds beside its arrays; else none."""
    if path.suffix != ".safetensors":
        return {}
    safetensors_package()
    from safetensors import safe_open

    with safe_open(path, "numpy") as file:
        return file.metadata() or {}


def to_float32(arrays: Mapping[str, Any], label: str) -> dict[str, np.ndarray]:
    """The arrays in single precision.

    Raises:
        ValueError: If one is not of floats, or holds values that are not finite then.

    Examples:
        >>> to_float32({"bias": np.ones(2, np.float16)}, "it")["bias"].dtype
        dtype('float32')
    """
    found = {}
    for name, values in arrays.items():
        x = np.asarray(values)
        if not jnp.issubdtype(x.dtype, jnp.floating):  # which knows bfloat16 too
            raise ValueError(f"{label}: {name} holds {x.dtype}, expected floats")
        with np.errstate(over="ignore"):
            found[name] = x.astype(np.float32)
        if not np.isfinite(found[name]).all():
            raise ValueError(f"{label}: {name} holds values that are not finite")
    return found


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _safetensors_reader() -> Callable[[Path], dict[str, np.ndarray]]:
    numpy_files, error = safetensors_package()

    def read(path: Path) -> dict[str, np.ndarray]:
        try:
            return numpy_files.load_file(path)
        except error as problem:
            raise ValueError(str(problem)) from None

    return read


def write_safetensors(
    path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Write arrays by name, whole or not at all."""
    numpy_files, _ = safetensors_package()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    plain = {name: np.asarray(x, order="C") for name, x in arrays.items()}
    numpy_files.save_file(plain, part, dict(metadata))
    part.replace(path)


def sha256_of(path: Path) -> str:
    """The file's SHA-256 checksum, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def safetensors_package() -> tuple[Any, type[Exception]]:
    """The package's NumPy functions and its error.

    Raises:
        ValueError: If it is not installed.
    """
    try:
        import safetensors.numpy
    except ImportError:
        raise ValueError(
            "weights in .safetensors files need the package 'safetensors': run "
            'pip install "softqd[lsi]"'
        ) from None
    return safetensors.numpy, safetensors.SafetensorError
