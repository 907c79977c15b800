"""Make softqd/networks/recording.csv: a neuron that nobody can look into.

The equations of Pospischil et al. (2008) are written down once more here and solved by
SciPy to nine digits, so that what the package simulates is compared with something that
is not the package. Noise of an amplifier is added.

Usage: python scripts/make_recording.py [FILE]
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.integrate import solve_ivp

# A regular-spiking cell of rat somatosensory cortex in Pospischil et al. (2008), a
# sphere of 61.4 micrometers: 56, 6, 0.075 and 0.0205 mS/cm^2 and 1 uF/cm^2. The L-type
# calcium channels of their bursting cells are added.
HIDDEN = {
    "sodium": 6600.0,  # nS
    "potassium": 710.0,  # nS
    "m_type": 8.9,  # nS
    "calcium": 2.0,  # nS
    "leak": 2.4,  # nS
    "capacitance": 118.0,  # pF
}
THRESHOLD, LEAK_REVERSAL, SLOWEST = -56.2, -70.3, 608.0  # mV, mV, ms
E_NA, E_K, E_CA = 50.0, -90.0, 120.0  # mV
STEP, STEP_FROM, STEP_TO, END = 300.0, 10.0, 70.0, 80.0  # pA, ms
EVERY = 0.1  # ms
NOISE = 0.5  # mV, standard deviation of a sample


def linoid(x: float, k: float) -> float:
    """The function ``x / (1 - exp(-x / k))``."""
    return k if abs(x) < 1e-9 else x / -np.expm1(-x / k)


def gates(v: float, threshold: float = THRESHOLD) -> dict[str, tuple[float, float]]:
    """Steady state and time constant (ms) of every gate at a voltage."""
    u = v - threshold
    rates = {
        "m": (0.32 * linoid(u - 13, 4), 0.28 * linoid(40 - u, 5)),
        "h": (0.128 * np.exp((17 - u) / 18), 4 / (1 + np.exp((40 - u) / 5))),
        "n": (0.032 * linoid(u - 15, 5), 0.5 * np.exp((10 - u) / 40)),
        "q": (0.055 * linoid(v + 27, 3.8), 0.94 * np.exp((-75 - v) / 17)),
        "r": (
            0.000457 * np.exp((-13 - v) / 50),
            0.0065 / (1 + np.exp((-15 - v) / 28)),
        ),
    }
    found = {name: (a / (a + b), 1 / (a + b)) for name, (a, b) in rates.items()}
    slow = SLOWEST / (3.3 * np.exp((v + 35) / 20) + np.exp(-(v + 35) / 20))
    return {**found, "p": (1 / (1 + np.exp(-(v + 35) / 10)), slow)}


NAMES = ("m", "h", "n", "q", "r", "p")


def sodium_current(cell: dict[str, float], state: np.ndarray) -> np.ndarray:
    """Current through sodium channels, in pA; a state is voltage and gates."""
    v, m, h = state[:3]
    return cell["sodium"] * m**3 * h * (v - E_NA)


def slope(t: float, state: np.ndarray, cell: dict[str, float], injected: float):
    """Time derivative of voltage and gates, in mV/ms and 1/ms."""
    v, _, _, n, q, r, p = state
    current = (
        sodium_current(cell, state)
        + (cell["potassium"] * n**4 + cell["m_type"] * p) * (v - E_K)
        + cell["calcium"] * q**2 * r * (v - E_CA)
        + cell["leak"] * (v - LEAK_REVERSAL)
    )
    found = gates(v)
    moves = [
        (found[name][0] - x) / found[name][1]
        for name, x in zip(NAMES, state[1:], strict=True)
    ]
    return [(injected - current) / cell["capacitance"], *moves]


def solve(
    cell: dict[str, float] = HIDDEN, every: float = EVERY
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Time (ms), injected current (pA) and states ``(7, t)`` of the experiment."""
    time = np.arange(round(END / every) + 1) * every
    state = np.array([LEAK_REVERSAL, *(gates(LEAK_REVERSAL)[n][0] for n in NAMES)])
    parts = [state[:, None]]
    for start, end, injected in (
        (0.0, STEP_FROM, 0.0),
        (STEP_FROM, STEP_TO, STEP),
        (STEP_TO, END, 0.0),
    ):
        asked = time[(time > start + 1e-9) & (time <= end + 1e-9)].clip(start, end)
        found = solve_ivp(
            slope,
            (start, end),
            state,
            "LSODA",
            t_eval=asked,
            args=(cell, injected),
            rtol=1e-9,
            atol=1e-10,
        )
        parts.append(found.y)
        state = found.y[:, -1]
    # The current that flows from a moment to the next.
    during = (time >= STEP_FROM - 1e-9) & (time < STEP_TO - 1e-9)
    return time, STEP * during, np.concatenate(parts, axis=1)


def main() -> None:
    """Write the file."""
    time, current, states = solve()
    voltage = states[0] + NOISE * np.random.default_rng(0).normal(size=len(time))
    path = sys.argv[1] if len(sys.argv) > 1 else "softqd/networks/recording.csv"
    with open(path, "w") as file:
        file.write("time (ms),current (pA),voltage (mV)\n")
        for t, i, v in zip(time, current, voltage, strict=True):
            file.write(f"{t:.1f},{i:g},{v:.2f}\n")


if __name__ == "__main__":
    main()
