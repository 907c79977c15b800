"""Airfoils of every thickness, lift and moment; and one to build, with its polar.

``pip install "softqd[airfoils]"``, then ``python examples/airfoils.py [FOLDER]
[ITERATIONS]`` writes a run folder, a gallery, a polar, and the chosen airfoil as
coordinates that XFOIL and other programs read. Change FLOW and WANTED, and it is about
a wing of your own.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

import softqd
from softqd.networks import neuralfoil
from softqd.ops.cst import stations, surfaces

FLOW = {"reynolds": 1e6, "angle_deg": 4.0}
WANTED = (12.0, 1.0, -0.1)  # thickness (% of chord), coefficients of lift and moment
# Cells of the gallery: sides in thickness and in lift, and where moments are parted.
THICKNESS, LIFT = np.linspace(5, 25, 6), np.linspace(0.5, 1.5, 6)
MOMENTS = {
    "moment coefficient below -0.1": (-1.0, -0.1),
    "moment coefficient above -0.1": (-0.1, 1.0),
}
ANGLES = np.arange(-2.0, 10.01, 0.25)  # degrees


def outline(solution, num=120):
    """Coordinates from the tail over the nose and back, in chords, ``(m, 2)``."""
    x = np.concatenate([[0.0], stations(num), [1.0]])
    airfoil = neuralfoil.to_airfoil(solution)
    upper, lower = map(np.asarray, surfaces(airfoil, jnp.asarray(x, jnp.float32)))
    above = np.stack([x, upper], axis=1)[::-1]
    return np.concatenate([above, np.stack([x, lower], axis=1)[1:]])


def nearest(population, wanted, bounds):
    """The member that is closest to a behavior, in shares of the space."""
    low, high = map(np.asarray, bounds)
    distance = (population.behavior - np.asarray(wanted)) / (high - low)
    return int(np.linalg.norm(distance, axis=1).argmin())


def polar(solution, reynolds, angles=ANGLES):
    """Lift, drag, moment and confidence of one airfoil at some angles of attack."""
    params, airfoil = neuralfoil.load(), neuralfoil.to_airfoil(solution)

    def at(angle):
        return neuralfoil.aerodynamics(
            params, airfoil, angle_deg=angle, reynolds=reynolds
        )

    found = jax.jit(jax.vmap(at))(jnp.asarray(angles, jnp.float32))
    return jax.tree.map(np.asarray, found)


def best_of_cells(population):
    """Panel, thickness, lift and number of the best member of every cell."""
    thickness, lift, moment = population.behavior[:, :3].T
    column = np.digitize(thickness, THICKNESS[1:-1])
    row = np.digitize(lift, LIFT[1:-1])
    for panel, (low, high) in enumerate(MOMENTS.values()):
        for i in range(len(THICKNESS) - 1):
            for j in range(len(LIFT) - 1):
                cell = (column == i) & (row == j) & (lift >= LIFT[0])
                cell &= (moment >= low) & (moment < high)
                if cell.any():
                    best = np.where(cell, population.quality, -np.inf).argmax()
                    yield panel, THICKNESS[i], LIFT[j], int(best)


def draw_gallery(population, problem):
    """The best airfoil of every cell of thickness and lift, colored by quality."""
    colors = ScalarMappable(Normalize(0, population.quality.max()), "viridis")
    sides = THICKNESS[1] - THICKNESS[0], LIFT[1] - LIFT[0]
    with softqd.plot.drawing(10.4, 3.9, axes_grid=False) as figure:
        panels = figure.subplots(1, 2, sharey=True)
        for panel, left, bottom, best in best_of_cells(population):
            place = panels[panel].inset_axes(
                (left, bottom, *sides), transform=panels[panel].transData
            )
            color = colors.to_rgba(population.quality[best])
            place.fill(*outline(population.solutions[best]).T, color=color)
            place.set(aspect="equal", xlim=(-0.04, 1.04), ylim=(-0.16, 0.2))
            place.set_axis_off()
        for axes, title in zip(panels, MOMENTS, strict=True):
            axes.set(title=title, xlabel=problem.behavior_names[0])
            axes.set(xlim=THICKNESS[[0, -1]], ylim=LIFT[[0, -1]], xticks=THICKNESS)
        panels[0].set_ylabel(f"lift coefficient at {FLOW['angle_deg']:g}°")
        figure.colorbar(colors, ax=panels, label="quality (lift / drag)", shrink=0.8)
    return figure


def draw_polar(solution):
    """Lift against drag, and their ratio against the angle, at three speeds."""
    with softqd.plot.drawing(8.4, 3.6) as figure:
        lift_drag, ratio = figure.subplots(1, 2)
        for i, factor in enumerate((1.0, 0.5, 2.0)):
            reynolds = factor * FLOW["reynolds"]
            found = polar(solution, reynolds)
            color = softqd.plot.PALETTE[i]
            for is_sure, style in ((True, "-"), (False, ":")):
                shown = (found.confidence >= 0.9) == is_sure
                drag = np.where(shown, found.drag, np.nan)
                label = f"Re {reynolds:,.0f}" if is_sure else None
                lift_drag.plot(drag, found.lift, style, color=color, label=label)
                ratio.plot(ANGLES, found.lift / drag, style, color=color)
        at = polar(solution, FLOW["reynolds"], [FLOW["angle_deg"]])
        point = {"marker": "o", "color": "black", "linestyle": "none", "zorder": 3}
        lift_drag.plot(at.drag, at.lift, **point, label="design point")
        ratio.plot(FLOW["angle_deg"], at.lift / at.drag, **point)
        lift_drag.plot([], [], "k:", label="confidence below 0.9")
        lift_drag.set(xlabel="drag coefficient", ylabel="lift coefficient")
        lift_drag.set_xlim(0, 0.025)
        figure.legend(loc="outside upper center", ncols=5, frameon=False, fontsize=8)
        ratio.set(xlabel="angle of attack (degrees)", ylabel="lift / drag")
    return figure


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "airfoils")
    num_iterations = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    problem = softqd.problems.airfoils(**FLOW)
    algorithm = softqd.squad(problem, population_size=512)
    result = softqd.run(algorithm, seed=0, num_iterations=num_iterations)
    result.save(folder)
    population = result.population
    chosen = nearest(population, WANTED, problem.behavior_bounds)
    solution = population.solutions[chosen]
    figures = {
        "airfoils": draw_gallery(population, problem),
        "airfoils_polar": draw_polar(solution),
    }
    for name, figure in figures.items():
        softqd.plot.save_figure(figure, folder / f"{name}.png", dpi=160)
    coordinates = outline(solution)
    np.savetxt(folder / "chosen.dat", coordinates, "%.6f", header="chosen", comments="")
    quality, behavior = population.quality[chosen], population.behavior[chosen]
    print(f"lift / drag {quality:.0f} at {behavior.round(2)}; wrote {folder}")
