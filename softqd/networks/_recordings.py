"""Recordings of a neuron: the current that was injected, the voltage that came."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

# Made by scripts/make_recording.py.
OWN = Path(__file__).parent / "recording.csv"
FORM = "lines 'time in ms, current in pA, voltage in mV' under a heading"


class Recording(NamedTuple):
    """What an electrode said, in the order of time."""

    name: str
    time: Float[np.ndarray, " t"]  # ms
    current: Float[np.ndarray, " t"]  # pA
    voltage: Float[np.ndarray, " t"]  # mV


def load_recording(path: str | None = None) -> Recording:
    """Read a CSV file of three columns: time, current and voltage.

    Args:
        path: The file; by default the recording that comes along.

    Raises:
        ValueError: If there is no such file, or it is not of this form.
    """
    file = OWN if path is None else Path(path).expanduser()
    try:
        with file.open() as lines, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an empty file, which is refused below
            rows = np.loadtxt(lines, delimiter=",", skiprows=1, ndmin=2)
    except OSError as error:
        raise ValueError(
            f"recording: {file} cannot be read ({error.strerror}); give the path of a "
            f"CSV file with {FORM}"
        ) from None
    except ValueError as error:
        raise ValueError(f"recording: {file} needs {FORM}: {error}") from None
    if rows.shape[1] != 3 or len(rows) < 2:
        raise ValueError(
            f"recording: {file} needs {FORM}; got {len(rows)} lines of "
            f"{rows.shape[1]} numbers"
        )
    time, current, voltage = rows.T
    if not np.isfinite(rows).all() or not (np.diff(time) > 0).all():
        raise ValueError(
            f"recording: {file} needs numbers that are finite, and times that rise"
        )
    return Recording(file.stem, time - time[0], current, voltage)
