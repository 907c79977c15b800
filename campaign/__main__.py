"""Run the campaign and print its table: ``python -m campaign --seed 1``.

The exit status is 1 if anything went wrong.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from campaign import disks, inputs, kills, material
from campaign.verdict import Tally

MARKS = "<!-- campaign -->\n", "<!-- end of campaign -->\n"


def main() -> int:
    """Everything, in as many processes as there are parts."""
    options = _options()
    began = time.time()
    with tempfile.TemporaryDirectory(prefix="softqd-campaign-") as place:
        tally = campaign(Path(place), options)
    lines = [*tally.table(), "", *_words(tally, options, time.time() - began)]
    print("\n".join(lines))
    for fault in tally.faults[:50]:
        print(fault[:1500], file=sys.stderr)
    if options.write:
        page = Path(options.write)
        before, _, rest = page.read_text().partition(MARKS[0])
        after = rest.partition(MARKS[1])[2]
        text = "\n".join(lines) + "\n"
        page.write_text(before + MARKS[0] + text + MARKS[1] + after)
    return int(not tally.is_clean)


def campaign(place: Path, options: argparse.Namespace) -> Tally:
    """All parts, each with folders of its own, side by side."""
    store, share = place / "store", options.share
    parts = [
        ("files", round(14_000 * share)),
        ("settings", round(6_000 * share)),
        ("processes", round(500 * share)),
        ("kills", round(104 * share)),
        ("disks", 0),
    ]
    tally = Tally()
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        futures = [
            pool.submit(_part, name, count, options.seed, place / name, store)
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


def _words(tally: Tally, options: argparse.Namespace, seconds: float):
    asked = ["git", "-C", str(material.ROOT), "describe", "--always", "--dirty"]
    commit = subprocess.run(asked, capture_output=True, text=True).stdout.strip()
    size = "" if options.share == 1 else f", {options.share:g} of its full size"
    yield (
        f"Commit `{commit or 'unknown'}`, seed {options.seed}{size}, "
        f"{seconds / 60:.0f} minutes; the largest process took "
        f"{tally.most_bytes / 1e9:.2f} GB."
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="campaign", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the full size")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", metavar="PAGE", help="put the table there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
