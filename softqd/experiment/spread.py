"""A population over the devices of a mesh, in one process or in several.

Leaves of a state that have a row per member of the population are cut along it; all
others are whole on every device. Processes of one run do the same at the same time: the
first of them decides what depends on clocks and signals, and writes the files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from softqd.ops.devices import AXIS

ALL = "all"


def mesh_of(mesh: Any) -> Mesh | None:
    """The mesh that a run uses, with one axis, from what a user says.

    Raises:
        ValueError: If it is neither None, ``"all"`` nor a mesh.
    """
    if mesh is None:
        return None
    if isinstance(mesh, Mesh):
        devices = mesh.devices.ravel()
    elif mesh == ALL:
        devices = np.asarray(jax.devices())
    else:
        raise ValueError(
            f"mesh must be None, 'all', or a jax.sharding.Mesh; got {mesh!r}"
        )
    return Mesh(devices, (AXIS,), axis_types=(AxisType.Auto,))


@dataclass(frozen=True)
class Spread:
    """Where the leaves of a state lie.

    Attributes:
        mesh: The devices; None for one, or wherever JAX puts things.
        size: Rows of a population.
        axis: That has them: 1 where lanes come first, else 0.
    """

    mesh: Mesh | None = None
    size: int = 0
    axis: int = 0

    def place(self, tree: PyTree) -> PyTree:
        """Put arrays, or say of shapes, where they belong."""
        return self._each(tree, _put)

    def hold(self, tree: PyTree) -> PyTree:
        """Keep arrays of a program where they belong."""
        return self._each(tree, jax.lax.with_sharding_constraint)

    def whole(self, tree: PyTree) -> PyTree:
        """Have a program give whole arrays to all devices."""
        if self.mesh is None:
            return tree
        everywhere = NamedSharding(self.mesh, PartitionSpec())
        return jax.lax.with_sharding_constraint(tree, everywhere)

    @property
    def is_shared(self) -> bool:
        """Whether several processes have parts of it."""
        return self.mesh is not None and jax.process_count() > 1

    @property
    def is_writer(self) -> bool:
        """Whether this process writes the files of a run."""
        return not self.is_shared or jax.process_index() == 0

    def agreed(self, value: Any) -> Any:
        """What the first process says, in all of them."""
        if not self.is_shared:
            return value
        from jax.experimental import multihost_utils

        said = multihost_utils.broadcast_one_to_all(np.asarray(value))
        return type(value)(said)

    def _each(self, tree: PyTree, function: Callable) -> PyTree:
        if self.mesh is None:
            return tree
        return jax.tree.map(lambda x: function(x, self._sharding(x)), tree)

    def _sharding(self, leaf: Any) -> NamedSharding:
        has_rows = leaf.ndim > self.axis and leaf.shape[self.axis] == self.size
        axes = (None,) * self.axis + (AXIS,) if has_rows else ()
        assert self.mesh is not None
        return NamedSharding(self.mesh, PartitionSpec(*axes))


def spread_over(mesh: Mesh | None, size: int, axis: int) -> Spread:
    """A population of this size over a mesh.

    Raises:
        ValueError: If it cannot be cut into equal parts.
    """
    if mesh is None:
        return Spread()
    if size % mesh.size:
        raise ValueError(
            f"a population of {size} cannot be cut into {mesh.size} equal parts, one "
            f"per device; take a multiple of {mesh.size}"
        )
    return Spread(mesh, size, axis)


def fetched(array: Any) -> np.ndarray:
    """An array on the host, whichever processes have its parts."""
    if getattr(array, "is_fully_addressable", True):
        return np.asarray(array)
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(array, tiled=True))


def _put(leaf: Any, sharding: NamedSharding) -> Any:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
    return jax.device_put(leaf, sharding)
