"""A point neuron of jaxley, with the channels of Pospischil et al. (2008).

Imports jaxley, which `neurons` alone asks for. Two things differ from its channels:
rates of the form x / (exp(x) - 1), which are 0 / 0 at a voltage and whose derivatives
lose all digits near it, and the start of the M-type gate, which is given a time
constant for a rate there.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jaxley as jx
from jaxley.channels import pospischil
from jaxtyping import Array, Float

# What a solution says of jaxley's parameters, on a membrane of 10,000 square
# micrometers, where 1 nS is 1e-5 S/cm^2 and 1 pF is 0.01 uF/cm^2.
_PARAMETERS = {
    "sodium": ("Na_gNa", 1e-5),
    "potassium": ("K_gK", 1e-5),
    "m_type": ("Km_gKm", 1e-5),
    "calcium": ("CaL_gCaL", 1e-5),
    "leak": ("Leak_gLeak", 1e-5),
    "capacitance": ("capacitance", 1e-2),
}
_RADIUS = math.sqrt(1e4 / (4 * math.pi))  # micrometers; the length is two of them
_NA_PER_PA = 1e-3
_E_NA = 50.0  # mV, in that paper
# A regular-spiking cell of rat somatosensory cortex in that paper.
_SLOWEST = 608.0  # ms, of the M-type gate


def _linoid(x: Array) -> Array:
    """The function ``x / (exp(x) - 1)``, smooth at 0."""
    is_small = jnp.abs(x) < 0.05
    apart = jnp.where(is_small, 1.0, jnp.minimum(x, 50.0))
    return jnp.where(is_small, 1.0 - x / 2 + x**2 / 12, apart / jnp.expm1(apart))


class Na(pospischil.Na):
    """Fast sodium channels."""

    @staticmethod
    def m_gate(v, vt):
        """Rates of opening and closing."""
        u = v - vt
        return 1.28 * _linoid((13.0 - u) / 4), 1.4 * _linoid((u - 40.0) / 5)


class K(pospischil.K):
    """Delayed-rectifier potassium channels."""

    @staticmethod
    def n_gate(v, vt):
        """Rates of opening and closing."""
        u = v - vt
        return 0.16 * _linoid((15.0 - u) / 5), 0.5 * jnp.exp((10.0 - u) / 40)


class CaL(pospischil.CaL):
    """L-type calcium channels."""

    @staticmethod
    def q_gate(v):
        """Rates of opening and closing."""
        return 0.209 * _linoid(-(v + 27.0) / 3.8), 0.94 * jnp.exp(-(v + 75.0) / 17)


class Km(pospischil.Km):
    """Slow potassium channels, M-type."""

    def init_state(self, states, v, params, delta_t):
        """The steady state: `p_gate` gives it, beside a time constant."""
        steady, _ = self.p_gate(v, params["Km_taumax"])
        return {"Km_p": steady}


def point_neuron(
    start: float, threshold: float, leak_reversal: float
) -> jx.Compartment:
    """A cell whose gates rest at the voltage ``start``; all voltages in mV."""
    # Jaxley broadcasts, and calls pandas in ways that it will do away with.
    with jax.numpy_rank_promotion("allow"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cell = jx.Compartment()
        for channel in (Na(), K(), Km(), CaL(), pospischil.Leak()):
            cell.insert(channel)
        for name, value in {
            "length": 2 * _RADIUS,
            "radius": _RADIUS,
            "v": start,
            "vt": threshold,
            "eNa": _E_NA,
            "Km_taumax": _SLOWEST,
            "Leak_eLeak": leak_reversal,
        }.items():
            cell.set(name, value)
        cell.init_states()
        for state in ("v", "Na_m", "Na_h"):
            cell.record(state, verbose=False)
    return cell


def simulate(
    cell: jx.Compartment,
    current: Float[Array, " t"],
    solution: Mapping[str, Array],
    step: float,
) -> tuple[Float[Array, " t+1"], Float[Array, " t"]]:
    """Voltage (mV) before and after, and sodium current (pA) during, every step.

    Of the second order in the step: gates are half a step ahead of voltages, as in
    Hines (1984).

    Args:
        cell: As `point_neuron` makes it.
        current: Injected during each step, in pA.
        solution: Decimal logarithms of conductances in nS and of the capacitance in pF.
        step: Length of a step, in ms.
    """
    state = None
    for name, (parameter, unit) in _PARAMETERS.items():
        state = cell.data_set(parameter, unit * 10.0 ** solution[name], state)
    # Backward, most steps are computed again: 2 sqrt(t) states are kept instead of t.
    outer = math.ceil(math.sqrt(len(current)))
    stimuli: Any = cell.data_stimulate(_NA_PER_PA * current)  # its hint is of pandas
    with jax.numpy_rank_promotion("allow"):
        voltage, m, h = jx.integrate(
            cell,
            param_state=state,
            data_stimuli=stimuli,
            delta_t=step,
            solver="crank_nicolson",
            checkpoint_lengths=[outer, math.ceil(len(current) / outer)],
        )
    # As the solver has it: the gates of a step's end, the voltage of its middle.
    conductance = 10.0 ** solution["sodium"] * (m**3 * h)[1:]
    middle = (voltage[1:] + voltage[:-1]) / 2
    return voltage, conductance * (middle - _E_NA)
