"""Run the campaign and print its table: ``python -m campaign --seed 1``.

The exit status is 1 if anything went wrong.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from campaign import material, parts
from campaign.verdict import Tally

MARKS = "<!-- campaign -->\n", "<!-- end of campaign -->\n"


def main() -> int:
    """Everything, in as many processes as there are parts."""
    options = _options()
    began = time.time()
    with tempfile.TemporaryDirectory(prefix="softqd-campaign-") as place:
        tally = parts.run(Path(place), options.seed, options.share, options.jobs)
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
