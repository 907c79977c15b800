"""The parts of the campaign, side by side.

Processes that are started anew import this file: of ``__main__`` they know nothing.
"""

import resource
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from campaign import disks, inputs, kills, material
from campaign.verdict import Tally


def run(place: Path, seed: int, share: float, jobs: int) -> Tally:
    """All parts, each with folders of its own, side by side.

    Args:
        place: An empty folder.
        seed: Of everything but the moments of kills.
        share: Of the full size.
        jobs: Parts at once.
    """
    store = place / "store"
    parts = [
        ("files", round(14_000 * share)),
        ("settings", round(6_000 * share)),
        ("processes", round(500 * share)),
        ("kills", round(104 * share)),
        ("disks", 0),
    ]
    tally = Tally()
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        futures = [
            pool.submit(_part, name, count, seed, place / name, store)
            for name, count in parts
        ]
        for future in futures:
            tally.add(future.result())
    return tally


def _part(name: str, count: int, seed: int, place: Path, store: Path) -> Tally:
    tally, is_small = Tally(), name == "disks"
    place.mkdir()
    made = material.make(place, ("run",) if is_small else tuple(material.COMMANDS))
    if name == "files":
        inputs.damaged_files(made, count, seed, tally)
    elif name == "settings":
        inputs.settings_and_options(made, count, seed, tally)
    elif name == "processes":
        inputs.as_processes(made, count, seed, store, tally)
    elif name == "kills":
        kills.kill_and_resume(made, count, seed, store, tally)
    else:
        disks.disturb(made, store, tally)
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    tally.most_bytes = 1024 * max(resource.getrusage(w).ru_maxrss for w in who)
    return tally
