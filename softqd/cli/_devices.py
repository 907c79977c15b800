"""The devices of a run: ``--devices`` and ``--distributed``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from softqd.cli._errors import UsageError

Devices = Annotated[
    str | None,
    typer.Option(metavar="all|N", help="Spread the population over JAX's devices."),
]
Distributed = Annotated[
    bool,
    typer.Option(
        "--distributed",
        help="This is one of several processes, set up as jax.distributed finds it.",
    ),
]


def mesh_over(devices: str | None, distributed: bool) -> Any:
    """What `softqd.run` takes as ``mesh``; joins the other processes.

    Raises:
        UsageError: If there are no such devices or processes.
    """
    import jax

    if distributed:
        _join_others()
        if devices not in (None, "all"):
            raise UsageError(
                "with --distributed all devices are used; say --devices all"
            )
        return "all"
    if devices in (None, "all"):
        return devices
    there = jax.devices()
    if not devices.isdecimal() or not 1 <= int(devices) <= len(there):
        raise UsageError(
            f"--devices takes 'all' or a number from 1 to {len(there)}, the devices of "
            f"JAX here; got {devices!r}"
        )
    return jax.make_mesh((int(devices),), ("x",), devices=there[: int(devices)])


def _join_others() -> None:
    import jax

    if jax.distributed.is_initialized():
        return
    try:
        jax.distributed.initialize()
    except (RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"--distributed found no other processes ({reason}); start it by Slurm or "
            "Open MPI, or call jax.distributed.initialize() in a script of your own"
        ) from None
