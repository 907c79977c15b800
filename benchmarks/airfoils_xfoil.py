"""Airfoils that a run found, beside XFOIL: the program that the networks learned from.

Usage: python benchmarks/airfoils_xfoil.py RUN_FOLDER [--number 10] [--figure FILE.png]
           [--record FILE.json]

RUN_FOLDER is of ``softqd run airfoils``. Takes the members that keep most of the Soft
QD Score, asks XFOIL for each at the design point, and prints a table in Markdown. With
--figure it also draws the polar of the airfoil that examples/airfoils.py chooses; with
--record it keeps the numbers for tests.

Needs XFOIL and a display that is none (Debian: apt-get install xfoil xvfb). XFOIL finds
its boundary layers from those of the point before, and does not always find them: it is
asked in several ways until one ends, and what it never found is said.
"""

from __future__ import annotations

import argparse
import json
import runpy
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import softqd
from softqd.networks import neuralfoil

_EXAMPLE = Path(__file__).parents[1] / "examples" / "airfoils.py"
# Panels, and how far from the design point to begin and in which steps, in degrees.
_WAYS = [
    (panels, start, step)
    for panels in (200, 160, 260)
    for start, step in ((0.0, 1.0), (-4.0, 0.5), (3.0, -0.25), (-1.0, 0.1))
]
_NAMES = ("lift", "drag", "moment")
_TITLES = ("thickness (% of chord)", *_NAMES, "lift / drag", "confidence")
_HEADER_LINES = 12  # of a polar file
_SECONDS = 60  # a call: where boundary layers separate it may go on for ever


def ask_xfoil(coordinates: np.ndarray, angles: Any, flow: dict, panels: int) -> dict:
    """What XFOIL finds at some angles: (lift, drag, moment) of those that converge."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "airfoil.dat"
        np.savetxt(path, coordinates, "%.7f", header="airfoil", comments="")
        lines = ["LOAD airfoil.dat", "PPAR", f"N {panels}", "", "", "OPER", "ITER 200"]
        lines += [f"VISC {flow['reynolds']:g}", "PACC", "polar.txt", ""]
        lines += [f"ALFA {angle:.4f}" for angle in angles] + ["PACC", "", "QUIT", ""]
        # Without a display Debian's program ends with a floating-point exception.
        subprocess.run(
            ["xvfb-run", "-a", "timeout", str(_SECONDS), "xfoil"],
            input="\n".join(lines),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        polar = Path(folder) / "polar.txt"
        rows = polar.read_text().splitlines()[_HEADER_LINES:] if polar.exists() else []
    table = [list(map(float, row.split())) for row in rows if "*" not in row]
    return {row[0]: (row[1], row[2], row[4]) for row in table}


def design_point(coordinates: np.ndarray, flow: dict) -> tuple | None:
    """Lift, drag and moment at the design point, as soon as XFOIL finds them."""
    goal = flow["angle_deg"]
    for panels, start, step in _WAYS:
        angles = np.append(np.arange(goal + start, goal, step), goal)
        found = ask_xfoil(coordinates, angles, flow, panels)
        if round(goal, 3) in found:
            return found[round(goal, 3)]
    return None


def row_of(number: int, behavior: np.ndarray, ours: Any, theirs: tuple | None) -> str:
    """One row of the table: the networks' number, then XFOIL's."""
    lift, drag, moment, confidence = map(float, ours)
    pairs = [("lift", lift, ".3f"), ("drag", drag, ".5f"), ("moment", moment, ".3f")]
    cells = [f"{value:{form}}" for _, value, form in pairs] + [f"{lift / drag:.0f}"]
    if theirs is None:
        cells = [f"{cell}, not found" for cell in cells]
    else:
        forms = [form for *_, form in pairs] + [".0f"]
        values = [*theirs, theirs[0] / theirs[1]]
        told = [f"{v:{form}}" for v, form in zip(values, forms, strict=True)]
        cells = [f"{cell}, {other}" for cell, other in zip(cells, told, strict=True)]
    shown = [str(number), f"{behavior[0]:.1f}", *cells, f"{confidence:.2f}"]
    return "| " + " | ".join(shown) + " |"


def compare(population: softqd.Population, number: int, flow: dict, tools: dict):
    """Rows of the table, and the numbers behind them."""
    chosen = softqd.select(population, number)
    params, records = neuralfoil.load(), []
    for i, (solution, behavior) in enumerate(
        zip(chosen.solutions, chosen.behavior, strict=True)
    ):
        ours = neuralfoil.aerodynamics(params, neuralfoil.to_airfoil(solution), **flow)
        theirs = design_point(tools["outline"](solution), flow)
        print(row_of(i + 1, np.asarray(behavior), ours, theirs), flush=True)
        found = None if theirs is None else dict(zip(_NAMES, theirs, strict=True))
        records.append({"solution": np.asarray(solution).tolist(), "xfoil": found})
    return records


def draw(solution: np.ndarray, flow: dict, tools: dict) -> Any:
    """The polar of one airfoil, by the networks and by XFOIL."""
    outline, goal = tools["outline"](solution), flow["angle_deg"]
    steps = np.arange(0.0, 6.01, 0.25)
    found = {}
    for panels in (200, 160):
        for angles in (goal + steps, goal - steps):  # upwards, and downwards
            found = ask_xfoil(outline, angles, flow, panels) | found
    angles = np.array(sorted(found))
    lift, drag, moment = np.array([found[angle] for angle in angles]).T
    ours = tools["polar"](solution, flow["reynolds"])
    at, degrees = tools["ANGLES"], "angle of attack (degrees)"
    pictures = {
        ("drag coefficient", "lift coefficient"): (
            (ours.drag, ours.lift),
            (drag, lift),
        ),
        (degrees, "lift / drag"): ((at, ours.lift / ours.drag), (angles, lift / drag)),
        (degrees, "moment coefficient"): ((at, ours.moment), (angles, moment)),
    }
    blue, orange = softqd.plot.PALETTE[:2]
    with softqd.plot.drawing(10.4, 3.2) as figure:
        panels = figure.subplots(1, 3)
        for axes, (names, (line, dots)) in zip(panels, pictures.items(), strict=True):
            axes.plot(*line, color=blue, label="networks")
            axes.plot(*dots, "o", markersize=3.5, color=orange, label="XFOIL")
            axes.set(xlabel=names[0], ylabel=names[1])
        panels[0].set_xlim(0, 0.025)
        panels[0].legend(frameon=False)
    return figure


def main() -> None:
    """Compare, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--number", type=int, default=10)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    tools = runpy.run_path(str(_EXAMPLE))
    population, flow = softqd.load(options.folder).population, tools["FLOW"]
    print("|" + "|".join(["", *_TITLES]) + "|\n|" + "---|" * (len(_TITLES) + 1))
    records = compare(population, options.number, flow, tools)
    if options.record:
        text = json.dumps({"flow": flow, "airfoils": records}, indent=1)
        options.record.write_text(text + "\n")
    if options.figure:
        bounds = softqd.problems.airfoils(**flow).behavior_bounds
        chosen = tools["nearest"](population, tools["WANTED"], bounds)
        figure = draw(population.solutions[chosen], flow, tools)
        softqd.plot.save_figure(figure, options.figure, dpi=160)


if __name__ == "__main__":
    main()
