"""Functions that are not JAX, loops that are not ours, and other libraries.

`softqd.interop.host` and `softqd.interop.torch` turn functions of NumPy arrays and of
torch tensors into problems; `AskTell` leaves the loop to its user; and
`softqd.interop.ribs` is for pyribs.
"""

import importlib
from typing import TYPE_CHECKING, Any

from softqd.interop import host
from softqd.interop._ask_tell import AskTell, told

if TYPE_CHECKING:
    from softqd.interop import ribs, torch

__all__ = ["AskTell", "host", "ribs", "told", "torch"]


def __getattr__(name: str) -> Any:
    """What needs another library, when it is first used."""
    if name in ("ribs", "torch"):
        return importlib.import_module(f"softqd.interop.{name}")
    raise AttributeError(f"module 'softqd.interop' has no attribute {name!r}")
