"""Disks that are full, folders that cannot be written, are removed, or are shared."""

import resource
import shutil
import time
from functools import partial
from pathlib import Path

from campaign import material
from campaign.inputs import PATIENCE, ended
from campaign.verdict import End, Tally, verdict

# Bytes that a file may have, as on a disk that is full from there on.
ROOM = (0, 100, 1000, 5000, 20_000, 60_000)


def disturb(place: Path, store: Path, tally: Tally, room=ROOM) -> None:
    """Every way in turn; the folder is of use afterwards."""
    command = material.COMMANDS["run"]
    for most in room:
        out = _new(place)
        limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (most, most))
        # Standard error is a file, too: what is said must fit.
        end = ended(
            [*command, "--out", str(out / "folder")],
            place / "no-store",
            out,
            preexec_fn=limit,
        )
        wrong = None if most < 500 and end.status == 2 else verdict(end, (0, 2))
        tally.count("disk full", wrong, (most, end))
        _resume(place, out, store, tally, "disk full")
    for target in ("/proc/softqd", "/dev/null/softqd"):
        out = _new(place)
        end = ended([*command, "--out", target], store, out)
        tally.count("folder read-only", verdict(end, (2,)), end)
    _remove(place, store, tally)
    _share(place, store, tally)


def _new(place: Path) -> Path:
    out = place / "disturbed"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    return out


def _resume(place: Path, out: Path, store: Path, tally: Tally, what: str) -> None:
    command = [*material.COMMANDS["run"], "--out", str(out / "folder"), "--resume"]
    end = ended(command, store, out)
    wrong, told = verdict(end, (0,)), end
    if wrong is None:
        told = material.difference(place / "run", out / "folder")
        wrong = "unequal" if told else None
    tally.count(f"{what}: resumed to its end", wrong, told)


def _remove(place: Path, store: Path, tally: Tally) -> None:
    """Take the folder away while the command runs."""
    out = _new(place)
    command = [*material.COMMANDS["run"], "--out", str(out / "folder")]
    with open(out / "stderr", "w+b") as err:
        with material.start(command, store, stderr=err) as process:
            while process.poll() is None and not (out / "folder/config.toml").exists():
                time.sleep(0.01)
            shutil.rmtree(out / "folder", ignore_errors=True)
            status = process.wait(10 * PATIENCE)
        err.seek(0)
        end = End(status, err.read().decode(errors="replace"))
    tally.count("folder removed", verdict(end, (0, 2)), end)


def _share(place: Path, store: Path, tally: Tally) -> None:
    """Two processes, one folder: one is refused."""
    out = _new(place)
    command = [*material.COMMANDS["run"], "--out", str(out / "folder")]
    files = [open(out / name, "w+b") for name in ("one", "other")]  # noqa: SIM115
    processes = [material.start(command, store, stderr=file) for file in files]
    ends = []
    for process, file in zip(processes, files, strict=True):
        status = process.wait(10 * PATIENCE)
        file.seek(0)
        ends.append(End(status, file.read().decode(errors="replace")))
        file.close()
    wrong = next(filter(None, (verdict(end, (0, 2)) for end in ends)), None)
    if sorted(end.status or 0 for end in ends) != [0, 2]:
        wrong = "wrong exits"
    found = None if wrong else material.difference(place / "run", out / "folder")
    wrong = "unequal" if found else wrong
    tally.count("two processes, one folder", wrong, found or ends)
