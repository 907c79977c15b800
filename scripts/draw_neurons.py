"""Draw a run on neurons: many cells, one trace, and how far their conductances differ.

Usage: python scripts/draw_neurons.py [RUN [PICTURE]]   RUN is a folder of ``softqd run
neurons`` or its population.npz; by default the one behind docs/neurons.md. Needs
``pip install "softqd[neurons]"``.
"""

from __future__ import annotations

import sys

import jax
import matplotlib
import numpy as np
from make_recording import HIDDEN
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

import softqd

BEHAVIORS = ("sodium (µS)", "potassium (µS)", "energy (million ATP per spike)")
GOOD = 50.0  # within the tolerance
COLORS = "viridis"
LABELS = {
    "sodium": "sodium",
    "potassium": "potassium",
    "m_type": "M-type",
    "calcium": "calcium",
    "leak": "leak",
    "capacitance": "capacitance",
}
STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def main() -> None:
    """Draw and say what is in the picture."""
    arguments = sys.argv[1:]
    run = arguments[0] if arguments else "results/neurons_population.npz"
    path = arguments[1] if arguments[1:] else "docs/figures/neurons.png"
    population = softqd.load_population(run)
    good = population[np.asarray(population.quality) >= GOOD]
    if not len(good):
        sys.exit(f"no cell of {run} has a quality of {GOOD:g} or more")
    neuron = softqd.problems.Neuron()
    voltage = np.asarray(jax.jit(jax.vmap(neuron.trace))(good.solutions).voltage)
    matplotlib.rcParams.update(STYLE)
    figure = plt.figure(figsize=(11, 6.2), layout="constrained", dpi=150)
    top, bottom = figure.subfigures(2, 1, height_ratios=[1.15, 1])
    (above, below), right = (
        top.subplots(2, 1, sharex=True, height_ratios=[6, 1]),
        bottom.subplots(1, 2, width_ratios=[1, 1.5]),
    )
    shades = plt.Normalize(*np.percentile(good.behavior[:, 2], [0, 100]))
    draw_traces(above, neuron, voltage, good, shades)
    below.plot(neuron.time, neuron.current, color="0.3", lw=1.2)
    below.set(xlabel="time (ms)", ylabel="current (pA)", yticks=[0, 300])
    below.set_xlim(0, neuron.time[-1])
    dots = draw_plane(right[0], population, good, shades)
    draw_spread(right[1], good, shades)
    bar = top.colorbar(dots, ax=[above, below], pad=0.01)
    bar.set_label("energy per spike\n(million ATP)")
    figure.savefig(path)
    low, high = good.behavior.min(0), good.behavior.max(0)
    for name, a, b in zip(
        softqd.problems.neurons().behavior_names, low, high, strict=True
    ):
        print(f"{name}: {a:.3g} to {b:.3g}")
    print(f"{len(good)} of {len(population)} cells are within the tolerance; {path}")


def draw_traces(axes: Axes, neuron, voltage, good, shades) -> None:
    """Voltages of all good cells over the recording."""
    order = np.argsort(np.asarray(good.quality))
    for row in order:
        color = plt.get_cmap(COLORS)(shades(good.behavior[row, 2]))
        axes.plot(neuron.time, voltage[row], color=color, lw=0.7, alpha=0.7)
    axes.plot(
        neuron.time[::2],
        neuron.voltage[::2],
        color="black",
        lw=0,
        marker=".",
        ms=1.6,
        label="recording",
    )
    axes.set(ylabel="voltage (mV)", title=f"{len(good)} cells, one recording")
    axes.legend(frameon=False, loc="upper right", markerscale=5)


def draw_plane(axes: Axes, population, good, shades):
    """Sodium against potassium; what is off by more is pale."""
    behavior = np.asarray(population.behavior)
    axes.scatter(*behavior[:, :2].T, s=7, color="0.85", lw=0, label="other cells")
    dots = axes.scatter(
        *good.behavior[:, :2].T,
        c=good.behavior[:, 2],
        s=26,
        cmap=COLORS,
        norm=shades,
        edgecolor="white",
        lw=0.4,
        label="within 2 mV of the recording",
    )
    hidden = HIDDEN["sodium"] / 1e3, HIDDEN["potassium"] / 1e3
    axes.scatter(
        *hidden, marker="*", s=170, color="#d55e00", edgecolor="white", label="hidden"
    )
    axes.set(
        xlabel="sodium conductance (µS)",
        ylabel="potassium conductance (µS)",
        title="sodium against potassium",
        xlim=(2, 20),
        ylim=(0.2, 2),
    )
    axes.legend(loc="upper left", fontsize=8, edgecolor="white", framealpha=0.9)
    return dots


def draw_spread(axes: Axes, good, shades) -> None:
    """A column for each conductance, beside the hidden one."""
    rng = np.random.default_rng(0)
    for column, name in enumerate(LABELS):
        ratio = 10.0 ** np.asarray(good.solutions[name]) / HIDDEN[name]
        axes.scatter(
            column + rng.uniform(-0.28, 0.28, len(ratio)),
            ratio,
            c=good.behavior[:, 2],
            cmap=COLORS,
            norm=shades,
            s=14,
            lw=0,
            alpha=0.9,
        )
        spread = f"{ratio.max() / ratio.min():.1f}-fold"
        axes.text(column, 13.0, spread, ha="center", va="top", fontsize=8)
    axes.axhline(1.0, color="#d55e00", lw=1, zorder=0)
    axes.set(
        yscale="log",
        ylim=(0.07, 14.0),
        ylabel="ratio to the hidden value",
        title="how far the good cells differ",
    )
    axes.set_xticks(range(len(LABELS)), list(LABELS.values()))
    axes.set_yticks([0.1, 0.2, 0.5, 1, 2, 5, 10], ["0.1", "0.2", "0.5", *"125", "10"])
    axes.minorticks_off()


if __name__ == "__main__":
    main()
