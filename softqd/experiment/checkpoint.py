"""Checkpoints: the whole state of a run in one file, written atomically.

One ``.npz`` holds every leaf of the state under its path, and a JSON text with the
run's identity, counters and history. It is written beside its final name, flushed to
disk and renamed, so a crash leaves the old checkpoint or the new one, never half of
either. No pickle is read or written.
"""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

FORMAT = "softqd-checkpoint-3"
FILE_NAME = "state.npz"
_META = "meta"


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the file is left as it is."""


def save(directory: Path, state: PyTree, meta: dict[str, Any]) -> None:
    """Replace the checkpoint in ``directory`` by this state, atomically."""
    directory.mkdir(parents=True, exist_ok=True)
    arrays = {name: _to_numpy(leaf) for name, leaf in _named_leaves(state)}
    text = json.dumps({"format": FORMAT, **meta})
    arrays[_META] = np.frombuffer(text.encode(), np.uint8)
    temporary = directory / f".{FILE_NAME}.{os.getpid()}"
    try:
        with open(temporary, "wb") as file:
            np.savez(file, **arrays)  # pyright: ignore[reportArgumentType] (arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, directory / FILE_NAME)
    finally:
        temporary.unlink(missing_ok=True)


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
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(arrays.pop(_META).tobytes().decode())
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise CheckpointError(
            f"checkpoint {path} is damaged or not a checkpoint ({error}); it was left "
            "as it is. Move it away to start anew"
        ) from None
    if meta.get("format") != FORMAT:
        raise CheckpointError(
            f"checkpoint {path} has format {meta.get('format')!r}, expected {FORMAT!r}"
        )
    _check_identity(path, meta["identity"], identity)
    leaves = []
    named = _named_leaves(template)
    if {name for name, _ in named} != set(arrays):
        raise CheckpointError(_foreign(path, "the state has other parts"))
    for name, leaf in named:
        data = arrays[name]
        expected = jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf
        if data.shape != expected.shape or data.dtype != expected.dtype:
            raise CheckpointError(
                _foreign(
                    path,
                    f"{name} is {data.dtype}{data.shape}, this run has "
                    f"{expected.dtype}{expected.shape}",
                )
            )
        leaves.append(_from_numpy(data, leaf))
    return jax.tree.unflatten(jax.tree.structure(template), leaves), meta


def exists(directory: Path) -> bool:
    """Whether there is a checkpoint in ``directory``."""
    return (directory / FILE_NAME).exists()


def _check_identity(path: Path, saved: dict, expected: dict) -> None:
    for name in sorted(set(saved) | set(expected)):
        if saved.get(name) != expected.get(name):
            raise CheckpointError(
                _foreign(
                    path,
                    f"its {name} is {saved.get(name)!r}, this run's is "
                    f"{expected.get(name)!r}",
                )
            )


def _foreign(path: Path, what: str) -> str:
    return (
        f"checkpoint {path} belongs to another run: {what}. It was left as it is; "
        "resume with the settings it was made with, or use another folder"
    )


def _named_leaves(tree: PyTree) -> list[tuple[str, Any]]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [("state" + jax.tree_util.keystr(path), leaf) for path, leaf in leaves]


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _to_numpy(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _from_numpy(data: np.ndarray, template: Any) -> jax.Array:
    if _is_key(template):
        impl = str(jax.random.key_impl(jnp.zeros((), template.dtype)))
        return jax.random.wrap_key_data(jnp.asarray(data), impl=impl)
    return jnp.asarray(data)
