"""Which conductances explain a recording? Read one, find cells, say how they differ.

``python examples/neurons.py [FOLDER [RECORDING.csv [ITERATIONS]]]`` writes a run folder
and a figure. A recording is a CSV file with a heading and three columns: time in ms,
injected current in pA, voltage in mV; ``-`` is the one that comes along. Needs
``pip install "softqd[neurons]"``.
"""

import sys
from pathlib import Path

import jax
import numpy as np
from matplotlib import pyplot as plt

import softqd

UNITS = dict.fromkeys(("sodium", "potassium", "m_type", "calcium", "leak"), "nS")
UNITS["capacitance"] = "pF"

if __name__ == "__main__":
    given = [*sys.argv[1:], *["neurons", "-", "300"][len(sys.argv) - 1 :]]
    folder, recording, iterations = Path(given[0]), given[1], int(given[2])
    recording = None if recording == "-" else recording

    problem = softqd.problems.neurons(recording)
    algorithm = softqd.squad(problem, population_size=256)
    result = softqd.run(algorithm, seed=0, num_iterations=iterations, progress=True)
    result.save(folder)

    # Quality 50: as far from the recording as the tolerance, 2 mV.
    good = result.population[result.population.quality >= 50]
    print(f"{len(good)} of {len(result.population)} cells are within 2 mV")
    for name, unit in UNITS.items() if len(good) else ():
        values = 10 ** np.asarray(good.solutions[name])
        print(f"{name}: {values.min():.3g} to {values.max():.3g} {unit}")

    best = result.population[np.argsort(-result.population.quality)[:20]]
    neuron = softqd.problems.Neuron(recording)
    voltage = jax.jit(jax.vmap(neuron.trace))(best.solutions).voltage
    figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
    axes.plot(neuron.time, np.asarray(voltage).T, lw=0.7)
    axes.plot(neuron.time, neuron.voltage, "k.", ms=1, label="recording")
    axes.set(xlabel="time (ms)", ylabel="voltage (mV)", title="the 20 nearest cells")
    axes.legend(frameon=False)
    figure.savefig(folder / "traces.pdf")
