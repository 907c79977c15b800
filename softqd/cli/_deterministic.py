"""Runs that repeat themselves on a GPU: ``--deterministic``."""

from __future__ import annotations

import os
from typing import Annotated

import typer

# Operations of a fixed order alone, and kernels chosen by rule rather than by trying
# out which is the fastest. XLA reads them when the first array is made.
FLAGS = "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"


def _set_flags(is_wanted: bool) -> bool:
    theirs = os.environ.get("XLA_FLAGS", "")
    if is_wanted and FLAGS not in theirs:
        os.environ["XLA_FLAGS"] = f"{theirs} {FLAGS}".strip()
    return is_wanted


Deterministic = Annotated[
    bool,
    typer.Option(
        "--deterministic",
        callback=_set_flags,
        help="Have a GPU repeat a run in another process; may be slower.",
    ),
]
