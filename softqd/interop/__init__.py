"""Functions that are not JAX, loops that are not ours, and other libraries.

`softqd.interop.host` and `softqd.interop.torch` turn functions of NumPy arrays and of
torch tensors into problems; `AskTell` leaves the loop to its user; and
`softqd.interop.ribs` is for pyribs.
"""

from softqd.interop._ask_tell import AskTell, told

__all__ = ["AskTell", "told"]
