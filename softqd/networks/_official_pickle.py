"""Reads the pickles of NVIDIA's stylegan2-ada-pytorch without executing them.

A pickle is a program for a small stack machine. It can do harm in one way only: by
naming a function or class of Python, which the machine imports and calls. Here every
name it asks for is looked up in a table of seven, and what stands under a name is never
the real thing but a stand-in of this file that builds NumPy arrays and plain
containers; any other name ends the reading. Nothing is imported, the source code that
these files carry (`module_src`) is passed over, and sizes and strides are checked
before memory is touched. That is why this one file may read what the rest of the
package refuses.

Tensors lie in the pickle as the bytes of torch's older file format, which is a pickle
again: it is read with a table of its own, of the storage types.
"""

from __future__ import annotations

import io
import math
import pickle
import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from softqd.networks._stylegan2_shapes import check_clamp

_TORCH_MAGIC = 0x1950A86A20F9469CFC6C
_TORCH_PROTOCOL = 1001
_STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "<i1",
    "ByteStorage": "<u1",
    "BoolStorage": "<b1",
}
_SCALARS = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "b1")
# What a program of the stack machine can raise by being wrong.
_BROKEN = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    UnicodeDecodeError,
    struct.error,
)


class Official(NamedTuple):
    """A network of an official pickle: arrays by state-dict name, and its clamp."""

    arrays: dict[str, np.ndarray]
    conv_clamp: float | None


def read_official(path: Path, network: str = "G_ema") -> Official:
    """The parameters and buffers of a network, by their names in its state dict.

    Args:
        path: A pickle of stylegan2-ada-pytorch, such as ``ffhq.pkl``.
        network: 'G_ema', the averaged generator, or another key of the pickle.

    Raises:
        ValueError: If the file asks for a name that such pickles do not contain, or is
            cut off or of another structure.
    """
    try:
        with path.open("rb") as file:
            content = _Reader(file).load()
    except _RefusedError as error:
        raise ValueError(
            f"{path} refused: it asks for {error}, which no official StyleGAN2 pickle "
            "does; nothing of it was executed"
        ) from None
    except (*_BROKEN, ValueError) as error:
        raise ValueError(
            f"{path} is damaged, cut off or no pickle of stylegan2-ada-pytorch "
            f"({type(error).__name__}: {error}); download it again"
        ) from None
    module = content.get(network) if isinstance(content, dict) else None
    if not isinstance(module, _Module):
        raise ValueError(f"{path}: there is no network {network!r} in it")
    try:
        return Official(dict(_state(module)), _conv_clamp(module))
    except (*_BROKEN, ValueError) as error:
        raise ValueError(
            f"{path}: {network!r} is not built like a torch module "
            f"({type(error).__name__}: {error})"
        ) from None


class _RefusedError(Exception):
    """A name that is not in the table."""


class _Module:
    """Stand-in for a torch module: the contents of its ``__dict__``."""

    __slots__ = ("state",)

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.state = state


class _Stand:
    """What the machine gets for a name: callable, and with nothing to change.

    Not a plain function, whose attributes a pickle could set.
    """

    __slots__ = ("_call",)

    def __init__(self, call: Callable) -> None:
        object.__setattr__(self, "_call", call)

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise pickle.UnpicklingError("a pickle may not change what it is read with")


class _Dtype:
    """Stand-in for NumPy's dtype of a scalar."""

    __slots__ = ("text",)

    def __init__(self, text: Any, *_: Any) -> None:
        if text not in _SCALARS:
            raise pickle.UnpicklingError(f"a scalar of type {text!r}")
        self.text = text

    def __setstate__(self, state: Any) -> None:
        order = state[1]
        if order not in ("<", "|", "="):
            raise pickle.UnpicklingError(f"a scalar of byte order {order!r}")


class _Reader(pickle.Unpickler):
    """The outer pickle: modules and tensors."""

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in for a name; nothing is imported."""
        try:
            return _STANDS[module, name]
        except KeyError:
            raise _RefusedError(f"'{module}.{name}'") from None

    def persistent_load(self, pid: Any) -> NoReturn:
        """Refused: the official pickles keep nothing outside themselves."""
        raise _RefusedError("an object outside the file")


class _StorageReader(pickle.Unpickler):
    """The inner pickles: one storage by reference, its numbers following later."""

    def find_class(self, module: str, name: str) -> Any:
        """The number format of a storage type."""
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        raise _RefusedError(f"'{module}.{name}'")

    def persistent_load(self, pid: Any) -> tuple[str, str, int]:
        """Format, key and length of a storage; views of others are not expected."""
        kind, text, key, _, size, *view = pid
        if kind != "storage" or text not in _STORAGES.values() or any(view):
            raise pickle.UnpicklingError("not a plain storage of torch")
        return text, key, size


def _storage(data: bytes) -> np.ndarray:
    """The numbers of a storage that torch saved in its older format."""
    file = io.BytesIO(data)
    magic, protocol, _, reference, keys = (
        _StorageReader(file).load() for _ in range(5)
    )
    if magic != _TORCH_MAGIC or protocol != _TORCH_PROTOCOL:
        raise pickle.UnpicklingError("not a storage that torch saved")
    text, key, size = reference
    if keys != [key]:
        raise pickle.UnpicklingError("not exactly one storage")
    (length,) = struct.unpack("<q", file.read(8))
    dtype = np.dtype(text)
    rest = file.read()
    if length != size or len(rest) != length * dtype.itemsize:
        raise pickle.UnpicklingError(
            f"a storage of {size} numbers holds {len(rest)} bytes"
        )
    return np.frombuffer(rest, dtype)


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> np.ndarray:
    """A tensor: a view of its storage, copied once it is known to lie inside."""
    numbers = (offset, *size, *stride)
    if not isinstance(storage, np.ndarray) or len(size) != len(stride):
        raise pickle.UnpicklingError("a tensor without storage or shape")
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise pickle.UnpicklingError(f"a tensor of shape {size} and strides {stride}")
    count = math.prod(size)
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if count > storage.size or (count and last >= storage.size):
        raise pickle.UnpicklingError(f"a tensor of shape {size} outside its storage")
    view = np.lib.stride_tricks.as_strided(
        storage[offset:], size, [s * storage.itemsize for s in stride], writeable=False
    )
    return view.copy()


def _module(meta: Any) -> _Module:
    """A persistent object of the release, without the source code it carries."""
    if not isinstance(meta, dict) or not isinstance(meta.get("state"), dict):
        raise pickle.UnpicklingError("a persistent object without a state")
    return _Module(meta["state"])


def _scalar(dtype: Any, data: Any) -> Any:
    """A scalar of NumPy as a number of Python."""
    if not isinstance(dtype, _Dtype) or not isinstance(data, bytes):
        raise pickle.UnpicklingError("a scalar of NumPy without type or bytes")
    (value,) = np.frombuffer(data, f"<{dtype.text}").tolist()
    return value


def _parameter(data: Any, *_: Any) -> Any:
    return data


def _ordered_dict(*items: Any) -> OrderedDict:
    return OrderedDict(*items)


_STANDS = {
    ("torch_utils.persistence", "_reconstruct_persistent_obj"): _Stand(_module),
    ("collections", "OrderedDict"): _Stand(_ordered_dict),
    ("torch._utils", "_rebuild_parameter"): _Stand(_parameter),
    ("torch._utils", "_rebuild_tensor_v2"): _Stand(_tensor),
    ("torch.storage", "_load_from_bytes"): _Stand(_storage),
    ("numpy", "dtype"): _Stand(_Dtype),
    ("numpy.core.multiarray", "scalar"): _Stand(_scalar),
    # The same function, as NumPy 2 calls it.
    ("numpy._core.multiarray", "scalar"): _Stand(_scalar),
}


def _state(
    module: _Module, prefix: str = "", seen: set[int] | None = None
) -> list[tuple[str, np.ndarray]]:
    """Names and arrays in the order of torch's ``state_dict``."""
    found = []
    # Each module once: a few that hold one another could spell endless names.
    seen = set() if seen is None else seen
    if id(module) in seen:
        raise ValueError(f"{prefix.rstrip('.')} is a module that came before")
    seen.add(id(module))
    hidden = module.state.get("_non_persistent_buffers_set") or ()
    for kind in ("_parameters", "_buffers"):
        for name, x in module.state[kind].items():
            if x is None or (kind == "_buffers" and name in hidden):
                continue
            if not isinstance(x, np.ndarray):
                raise TypeError(f"{prefix}{name} is not a tensor")
            found.append((f"{prefix}{name}", x))
    for name, child in module.state["_modules"].items():
        if child is not None:
            found += _state(child, f"{prefix}{name}.", seen)
    return found


def _conv_clamp(module: _Module) -> float | None:
    """The clamp of the first layer, which all layers share."""
    for name in ("synthesis", "b4", "conv1"):
        module = module.state["_modules"].get(name)
        if module is None:
            return None
    clamp = module.state.get("conv_clamp")
    return None if clamp is None else check_clamp(float(clamp))
