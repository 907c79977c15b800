"""Checkpoints: the whole state of a run in one file, written atomically.

One ``.npz`` holds every leaf of the state under its path, and a JSON text with the
run's identity, counters and history. It is written beside its final name, flushed to
disk and renamed, so a crash leaves the old checkpoint or the new one, never half of
either. No pickle is read or written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from softqd.experiment.files.archive import Archive, opened, write_arrays
from softqd.experiment.files.schema import (
    PLAIN,
    FileError,
    check,
    one_line,
    shown,
)
from softqd.experiment.same import first_difference
from softqd.experiment.spread import fetched

FORMAT = "softqd-checkpoint-3"
# The older one has no units: they are found when a run goes on.
_READ = ("softqd-checkpoint-2", FORMAT)
FILE_NAME = "state.npz"
_META = "meta"
_WANTED = {
    "format": str,
    "identity": {"seeds": [int], "config": {"...": PLAIN}},
    "history": {"...": [(float, [float])]},
    "...": PLAIN,
}


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the file is left as it is."""


def save(
    directory: Path, state: PyTree, meta: dict[str, Any], is_writer: bool = True
) -> None:
    """Replace the checkpoint in ``directory`` by this state, atomically.

    Args:
        directory: Where it is.
        state: Of several processes, each has its parts.
        meta: What else is kept.
        is_writer: Whether this process writes it.
    """
    arrays = {name: _to_numpy(leaf) for name, leaf in _named_leaves(state)}
    text = json.dumps({"format": FORMAT, **meta})
    arrays[_META] = np.frombuffer(text.encode(), np.uint8)
    if is_writer:
        write_arrays(directory / FILE_NAME, arrays)


def load(
    directory: Path, template: PyTree, identity: dict[str, Any]
) -> tuple[PyTree, dict[str, Any]]:
    """Read a checkpoint back into the structure of ``template``.

    Args:
        directory: Where the checkpoint is.
        template: A state, or its shapes and dtypes, of the run to be resumed.
        identity: What the run calls itself; must equal what was saved.

    Raises:
        CheckpointError: If the file is torn, or belongs to another run.
    """
    path = directory / FILE_NAME
    named = _named_leaves(template)
    try:
        with opened(path) as archive:
            meta = _meta(path, archive)
            _check_identity(path, meta["identity"], identity)
            if {name for name, _ in named} != set(archive.headers) - {_META}:
                raise CheckpointError(_foreign(path, "the state has other parts"))
            leaves = [_leaf(path, archive, *entry) for entry in named]
    except FileError as error:
        raise _damaged(path, error) from None
    return jax.tree.unflatten(jax.tree.structure(template), leaves), meta


def saved_identity(directory: Path) -> dict[str, Any]:
    """What the run whose checkpoint this is calls itself.

    Raises:
        CheckpointError: If the file is torn.
    """
    path = directory / FILE_NAME
    try:
        with opened(path) as archive:
            return _meta(path, archive)["identity"]
    except FileError as error:
        raise _damaged(path, error) from None


def exists(directory: Path) -> bool:
    """Whether there is a checkpoint in ``directory``."""
    return (directory / FILE_NAME).exists()


def _meta(path: Path, archive: Archive) -> dict[str, Any]:
    if _META not in archive.headers:
        raise FileError("it holds no identity")
    try:
        meta = json.loads(archive.read(_META).tobytes().decode())
    except (ValueError, RecursionError) as error:
        raise FileError(str(error)) from None
    check(path, meta, _WANTED)
    if meta["format"] not in _READ:
        raise CheckpointError(
            one_line(
                f"checkpoint {path} has format {shown(meta['format'])}, expected "
                f"{FORMAT!r}; continue it with the version of softqd that wrote it"
            )
        )
    return meta


def _leaf(path: Path, archive: Archive, name: str, leaf: Any) -> jax.Array:
    """One leaf of the state, if it is as the run wants it."""
    expected = jax.eval_shape(_storable, leaf)
    found = archive.headers[name]
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        raise CheckpointError(
            _foreign(
                path,
                f"{name} is {found.dtype}{found.shape}, this run has "
                f"{expected.dtype}{expected.shape}",
            )
        )
    return _from_numpy(archive.read(name), leaf)


def _check_identity(path: Path, saved: dict, expected: dict) -> None:
    if found := first_difference(saved, expected):
        what = f"its {found.place} is {found.before}, this run's is {found.now}"
        raise CheckpointError(_foreign(path, what))


def _damaged(path: Path, error: Exception) -> CheckpointError:
    reason = str(error).removeprefix(f"{path}").strip(": ")
    return CheckpointError(
        one_line(
            f"checkpoint {path} is damaged or not a checkpoint; it was left as it is. "
            f"Move it away to start anew. The cause: {reason}"
        )
    )


def _foreign(path: Path, what: str) -> str:
    what = what if len(what) <= 100 else f"{what[:97]}..."
    return one_line(
        f"checkpoint {path} belongs to another run: {what}. It was left as it is; "
        "resume with the settings it was made with, or use another folder"
    )


def _named_leaves(tree: PyTree) -> list[tuple[str, Any]]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [("state" + jax.tree_util.keystr(path), leaf) for path, leaf in leaves]


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _storable(leaf: Any) -> Any:
    """A leaf as NumPy knows it: keys as numbers, bfloat16 and its like as bits."""
    leaf = jax.random.key_data(leaf) if _is_key(leaf) else jnp.asarray(leaf)
    if np.dtype(leaf.dtype).kind == "V":
        return leaf.view(f"uint{8 * leaf.dtype.itemsize}")
    return leaf


def _to_numpy(leaf: Any) -> np.ndarray:
    return fetched(_storable(leaf))


def _from_numpy(data: np.ndarray, template: Any) -> jax.Array:
    if _is_key(template):
        impl = str(jax.random.key_impl(jnp.zeros((), template.dtype)))
        return jax.random.wrap_key_data(jnp.asarray(data), impl=impl)
    return jnp.asarray(data.view(template.dtype))
