"""Kill runs, comparisons and sweeps at any moment, and resume them to the same end."""

import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
from damage import pick

from campaign import material
from campaign.inputs import end_of, ended
from campaign.verdict import End, Tally, verdict

HOW = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
# A moment: what is awaited, and how many seconds after it at most.
MOMENTS = {
    "start": (None, 2.0),
    "compiling": ("**/config.toml", 3.0),
    "running": ("**/.softqd-lock", 6.0),
    "checkpoint": ("**/.*softqd-part", 0.05),
    "figures": ("**/metrics.json", 1.5),
    "report": ("**/figures/*", 1.5),
}
_RESUME = {"run": ["--resume"]}


def kill_and_resume(place: Path, count: int, seed: int, store: Path, tally: Tally):
    """Kill commands so many times in all, each a few times before it may end.

    Args:
        place: Holds a folder of every command that nobody disturbed.
        count: How many kills.
        seed: Of moments and signals.
        store: What processes have compiled.
        tally: Is told.
    """
    rng, killed, attempt = np.random.default_rng([seed, 4]), 0, 0
    names, moments = list(material.COMMANDS), list(MOMENTS)
    while killed < count:
        name, out = names[attempt % len(names)], place / f"killed-{attempt}"
        command = [*material.COMMANDS[name], "--out", str(out / "folder")]
        out.mkdir()
        for _ in range(int(rng.integers(1, 5))):
            moment, how = moments[killed % len(moments)], pick(HOW, rng)
            end = killed_at(command, out, store, moment, how, rng)
            if end.status == 0:  # it was faster
                break
            killed += 1
            what = f"`{name}` killed, {moment}"
            status = -signal.SIGKILL if how == signal.SIGKILL else 128 + how
            wrong = None if end.status == -signal.SIGKILL else verdict(end, (status,))
            tally.count(what, wrong, (how, end))
            command += [x for x in _RESUME.get(name, []) if x not in command]
        end = ended(command, store, out)
        told = verdict(end, (0,)), (command, end)
        if told[0] is None:
            found = material.difference(place / name, out / "folder")
            told = "unequal" if found else None, found
        tally.count(f"`{name}` resumed to its end", *told)
        shutil.rmtree(out)
        attempt += 1


def killed_at(command, out: Path, store: Path, moment, how, rng) -> End:
    """Start a command and send a signal at a moment; its end."""
    awaited, most = MOMENTS[moment]
    with (
        open(out / "stderr", "w+b") as err,
        material.start(command, store, stderr=err) as process,
    ):
        since = time.time()
        while awaited and process.poll() is None and not _is_new(out, awaited, since):
            time.sleep(0.002)
        try:  # the more often, the sooner
            process.wait(most * rng.random() ** 2 + 0.1 * (awaited is None))
        except subprocess.TimeoutExpired:
            process.send_signal(how)
        return end_of(process, err)


def _is_new(out: Path, pattern: str, since: float) -> bool:
    for path in out.glob(pattern):
        try:
            if path.lstat().st_mtime >= since - 0.01:
                return True
        except OSError:  # it was there for a moment
            return True
    return False
