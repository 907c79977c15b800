"""A population whose rows lie on several devices.

Where a mesh is in use (`jax.set_mesh`), every device does its own rows of what compares
everyone with everyone: what it needs of the others is small, and is given to all. XLA
partitions the rest by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import AxisType, PartitionSpec
from jaxtyping import PyTree

# The axis of a mesh that rows of a population lie along.
AXIS = "population"


def over_devices(function: Callable, rows: PyTree, shared: PyTree) -> Any:
    """``function(rows, shared)``, every device with its own rows.

    Args:
        function: To a pytree of arrays with as many rows.
        rows: Pytree of arrays with a leading axis ``m``.
        shared: Pytree of arrays that all devices need whole.

    Examples:
        >>> import jax.numpy as jnp
        >>> add = lambda rows, shared: rows + shared
        >>> over_devices(add, jnp.arange(3), jnp.int32(1)).tolist()
        [1, 2, 3]
    """
    mesh = jax.sharding.get_abstract_mesh()
    is_spread = AXIS in mesh.axis_names and mesh.axis_types == (AxisType.Auto,)
    if not is_spread or jax.tree.leaves(rows)[0].shape[0] % mesh.size:
        return function(rows, shared)
    cut, whole = PartitionSpec(AXIS), PartitionSpec()
    # What is the same everywhere is not proven to be: reductions are of own rows.
    return jax.shard_map(
        function, mesh=mesh, in_specs=(cut, whole), out_specs=cut, check_vma=False
    )(rows, shared)
