"""Neurons: different conductances, the same recording.

Cells of one type that do the same differ several-fold in their conductances (Prinz,
Bucher and Marder 2004; Marder and Goaillard 2006), and models that do the same differ
in the energy they need (Deistler, Macke and Goncalves 2022). Here the conductances are
asked for that explain a recording, and how far they may differ.
"""

from __future__ import annotations

import functools
from numbers import Real
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float

from softqd.networks._recordings import load_recording
from softqd.settings import FilePath
from softqd.types import Evaluation, Problem

BEHAVIORS = (
    "sodium conductance (µS)",
    "potassium conductance (µS)",
    "energy per spike (million ATP)",
)
# From where to where first solutions are drawn and solutions may go: a decade or more
# around the cells of Pospischil et al. (2008), conductances in nS, capacitance in pF.
RANGES = {
    "sodium": (2000.0, 20_000.0),
    "potassium": (200.0, 2000.0),
    "m_type": (2.0, 50.0),
    "calcium": (0.2, 20.0),
    "leak": (0.5, 10.0),
    "capacitance": (60.0, 240.0),
}
MOST_ENERGY = 200.0  # million ATP per spike
STEP = 0.05  # ms
LONGEST = 1000.0  # ms
SPIKE = -20.0  # mV, through which spikes rise: eFEL's default
_BEFORE = 1.0  # ms, over which the voltage at the start is the mean
_CHARGE = 1.602176634e-19  # C, of a proton (SI)
_SODIUM_PER_ATP = 3.0  # of the sodium-potassium pump (Attwell and Laughlin 2001)
_REACH = 4  # of the smoothing, in standard deviations
_WIDTH, _HEIGHT = 256, 128  # of a rendered trace, in pixels
_BOTTOM, _TOP = -100.0, 60.0  # mV


class _Data(NamedTuple):
    """The experiment, on the steps of the simulation."""

    current: Float[Array, " t"]  # pA
    voltage: Float[Array, " t"]  # mV


class Trace(NamedTuple):
    """What a cell does in the experiment.

    Attributes:
        voltage: In mV, at the times of `Neuron.time`.
        sodium_current: In pA, from a time to the next, inward below 0.
    """

    voltage: Float[Array, "*n t"]
    sodium_current: Float[Array, "*n t-1"]


class Neuron:
    """The experiment of a recording, done with other conductances.

    Attributes:
        time: In ms, on the steps of the simulation.
        current: Injected, in pA.
        voltage: Recorded, in mV.
        num_spikes: Of the recording.

    Args:
        recording: As for `neurons`.
        threshold: As for `neurons`.
        leak_reversal: As for `neurons`.
    """

    def __init__(
        self,
        recording: str | None = None,
        *,
        threshold: float = -56.2,
        leak_reversal: float = -70.3,
    ):
        make, self._simulate = _jaxley()
        found = load_recording(recording)
        self.name = found.name
        if not 1.0 <= found.time[-1] <= LONGEST:
            raise ValueError(
                f"recording: {found.name} must last from 1 to {LONGEST:g} ms; got "
                f"{found.time[-1]:g}"
            )
        self.time = STEP * np.arange(int(found.time[-1] / STEP + 1e-6) + 1)
        held = np.searchsorted(found.time, self.time + 1e-6, side="right") - 1
        self.current = found.current[held]
        self.voltage = np.interp(self.time, found.time, found.voltage)
        is_above = found.voltage > SPIKE
        self.num_spikes = int((is_above[1:] & ~is_above[:-1]).sum())
        if not self.num_spikes:
            raise ValueError(
                f"recording: {found.name} has no spike, no rise through {SPIKE:g} mV; "
                "give one that has, with voltages in mV"
            )
        start = float(found.voltage[found.time < _BEFORE].mean())
        self._cell = make(start, threshold, leak_reversal)

    def trace(self, solution: dict[str, Array]) -> Trace:
        """What a cell with these conductances does, as a pure function.

        Args:
            solution: Of `neurons`.
        """
        return self.under(jnp.asarray(self.current, jnp.float32), solution)

    def under(self, current: Float[Array, " t"], solution: dict[str, Array]) -> Trace:
        """What it does under another current of as many steps, in pA."""
        return Trace(*self._simulate(self._cell, current[:-1], solution, STEP))


def neurons(
    recording: FilePath | None = None,
    *,
    threshold: float = -56.2,
    leak_reversal: float = -70.3,
    tolerance: float = 2.0,
    smoothing: float = 1.0,
) -> Problem:
    r"""Conductances that explain a recording: quality is likeness to it.

    A solution is a dictionary of decimal logarithms: of the conductances of sodium,
    potassium, M-type, calcium and leak channels, in nS, and of the capacitance, in pF.
    jaxley simulates the cell under the recorded current. With the root mean square $e$
    of the difference between both voltages, smoothed, quality is

    $100 / (1 + (e / \text{tolerance})^2)$

    Behaviors are the conductances of sodium and potassium channels, in µS, and the
    energy per recorded spike, in million molecules of ATP: what pumps out again the
    sodium that comes in.

    Args:
        recording: CSV file with a heading and three columns: time in ms, injected
            current in pA, voltage in mV. By default one that comes along.
        threshold: V_T of the channels, about which they open, in mV.
        leak_reversal: Reversal potential of the leak, in mV.
        tolerance: Root mean square difference of quality 50, in mV.
        smoothing: Standard deviation of the Gaussian that smooths the difference, in
            ms: times of spikes count less than about this.

    Returns:
        The problem; its ``render`` draws the voltage over the recorded one.

    Raises:
        ValueError: If jaxley is not installed, a setting is out of range, or the
            recording cannot be used.
    """
    for name, value in (("tolerance", tolerance), ("smoothing", smoothing)):
        if not isinstance(value, Real) or not 0 < value < np.inf:
            raise ValueError(f"{name} must be a positive number; got {value!r}")
    neuron = Neuron(recording, threshold=threshold, leak_reversal=leak_reversal)
    data = _Data(
        *(jnp.asarray(x, jnp.float32) for x in (neuron.current, neuron.voltage))
    )
    evaluate = functools.partial(
        _evaluate, neuron=neuron, tolerance=tolerance, smoothing=smoothing
    )
    return Problem(
        Partial(evaluate, data),
        sample=_sample,
        behavior_bounds=(
            (RANGES["sodium"][0] / 1e3, RANGES["potassium"][0] / 1e3, 0.0),
            (RANGES["sodium"][1] / 1e3, RANGES["potassium"][1] / 1e3, MOST_ENERGY),
        ),
        name=f"neurons({neuron.name})",
        quality_bounds=(0.0, 100.0),
        solution_bounds=tuple(
            {name: float(np.log10(ends[side])) for name, ends in RANGES.items()}
            for side in (0, 1)
        ),
        render=Partial(functools.partial(_render, neuron=neuron), data),
        behavior_names=BEHAVIORS,
        target=draw(data.voltage, data.voltage),
    )


def _jaxley():
    """The two functions that know jaxley.

    Raises:
        ValueError: If it is not installed.
    """
    try:
        from softqd.problems._neuron_cell import point_neuron, simulate
    except ModuleNotFoundError as error:
        raise ValueError(
            f"neurons need the package {error.name!r}: run "
            'pip install "softqd[neurons]"'
        ) from None
    return point_neuron, simulate


def _sample(key: Array) -> dict[str, Array]:
    """Conductances uniform in their logarithm."""
    keys = jax.random.split(key, len(RANGES))
    return {
        name: jax.random.uniform(k, (), minval=np.log10(low), maxval=np.log10(high))
        for k, (name, (low, high)) in zip(keys, RANGES.items(), strict=True)
    }


def _evaluate(
    data: _Data,
    solution: dict[str, Array],
    *,
    neuron: Neuron,
    tolerance: float,
    smoothing: float,
) -> Evaluation:
    voltage, sodium_current = neuron.under(data.current, solution)
    difference = smooth(voltage - data.voltage, smoothing)
    quality = 100.0 / (1.0 + jnp.mean(difference**2) / tolerance**2)
    behavior = jnp.stack(
        [
            _micro(solution, "sodium"),
            _micro(solution, "potassium"),
            energy(sodium_current, neuron.num_spikes),
        ]
    )
    return Evaluation(quality, behavior)


def _micro(solution: dict[str, Array], name: str) -> Float[Array, ""]:
    """A conductance in µS, rounding kept out of what is beyond its range."""
    low, high = RANGES[name]
    return jnp.clip(10.0 ** (solution[name] - 3.0), low / 1e3, high / 1e3)


def smooth(x: Float[Array, " t"], sigma: float) -> Float[Array, " t"]:
    """Convolve with a Gaussian of standard deviation ``sigma``, in ms.

    Examples:
        >>> import jax.numpy as jnp
        >>> peak = smooth(jnp.zeros(401).at[200].set(1.0), 1.0)
        >>> round(float(peak.sum()), 5), round(float(peak[220] / peak[200]), 5)
        (1.0, 0.60653)
    """
    reach = min(round(_REACH * sigma / STEP), (len(x) - 1) // 2)
    shape = np.exp(-0.5 * (STEP * np.arange(-reach, reach + 1) / sigma) ** 2)
    return jnp.convolve(x, jnp.asarray(shape / shape.sum(), x.dtype), mode="same")


def energy(sodium_current: Float[Array, " t"], num_spikes: int) -> Float[Array, ""]:
    """ATP that pumps out the sodium that came in, in millions per spike.

    Examples:
        100 pA for 1 ms are 0.1 pC, or 0.62 million ions.

        >>> import jax.numpy as jnp
        >>> round(float(3 * energy(jnp.full(20, -100.0), 1)), 2)
        0.62
    """
    coulombs = -jnp.sum(sodium_current) * STEP * 1e-15  # from pA ms
    per_million = 1.0 / (_CHARGE * _SODIUM_PER_ATP * 1e6 * num_spikes)
    return jnp.clip(coulombs * per_million, 0.0, MOST_ENERGY)


def _render(
    data: _Data, solution: dict[str, Array], *, neuron: Neuron
) -> Float[Array, "h w 3"]:
    return draw(neuron.under(data.current, solution).voltage, data.voltage)


def draw(
    voltage: Float[Array, " t"], recorded: Float[Array, " t"]
) -> Float[Array, "h w 3"]:
    """A voltage in blue over the recorded one in gray, from -100 to 60 mV."""
    picture = jnp.ones((_HEIGHT, _WIDTH, 3))
    for trace, color in ((recorded, (0.78, 0.78, 0.78)), (voltage, (0.0, 0.45, 0.7))):
        ink = _line(trace)[:, :, None]
        picture = picture * (1.0 - ink) + ink * jnp.asarray(color)[None, None]
    return picture


def _line(trace: Float[Array, " t"]) -> Float[Array, "h w"]:
    """How much of a pixel a curve covers: column by column, from low to high."""
    edges = np.linspace(0, len(trace) - 1, _WIDTH + 1)
    at = np.linspace(edges[:-1], edges[1:], 9)  # positions in every column
    rows = jnp.interp(at.ravel(), np.arange(len(trace)), trace).reshape(at.shape)
    rows = (_HEIGHT - 1) * (_TOP - rows) / (_TOP - _BOTTOM)
    rows = jnp.clip(rows, 0.0, _HEIGHT - 1.0)
    y = jnp.arange(_HEIGHT, dtype=rows.dtype)[:, None]
    outside = jnp.maximum(rows.min(0)[None] - y, y - rows.max(0)[None])
    return jnp.clip(1.5 - outside, 0.0, 1.0)
