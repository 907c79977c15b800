"""Where evaluations in plain Python are made: ``--workers`` and ``--dask``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from softqd.cli._errors import UsageError

Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Processes that evaluate a problem in plain Python."),
]
Dask = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="A Dask scheduler whose workers do."),
]


@contextmanager
def working(
    config: dict[str, Any], workers: int | None, dask: str | None
) -> Iterator[None]:
    """Have the problem of a configuration evaluated by these."""
    if workers is None and dask is None:
        yield
        return
    if workers is not None and dask is not None:
        raise UsageError("give --workers or --dask, not both")
    from softqd.experiment.config import build_problem
    from softqd.interop.host import executing, processes, takes_workers

    if not takes_workers(build_problem(config)):
        raise UsageError(
            "--workers and --dask are for problems that softqd.interop.host.problem "
            "makes without an executor; leave them out"
        )
    pool = processes(workers) if workers is not None else _client(str(dask))
    with pool, executing(pool):
        yield


def _client(address: str):
    try:
        from distributed import (  # pyright: ignore[reportMissingImports] (an extra)
            Client,
        )
    except ImportError:
        raise UsageError(
            "--dask needs Dask: pip install 'softqd[dask]', or use --workers"
        ) from None
    try:
        return Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"no Dask scheduler answers at {address} ({error}); start one with 'dask "
            "scheduler' and give its address"
        ) from None
