"""Build sdist and wheel, look into them, and try the wheel where nothing else is.

``python scripts/package.py`` (``make package``) leaves both files in ``dist/``.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
# The package and what says whose it is. Tests, docs, examples and results stay in the
# repository: with them the sdist would be several times as large.
BESIDE = {
    ".gitignore",  # hatchling adds it
    "CHANGELOG.md",
    "CITATION.cff",
    "LICENSE",
    "PKG-INFO",
    "README.md",
    "pyproject.toml",
}
MAX_BYTES = 1_000_000


def main() -> None:
    """Build, check, install, try; the first failure ends it."""
    shutil.rmtree(DIST, ignore_errors=True)
    # The wheel is built from the sdist, so the sdist is complete.
    _call(sys.executable, "-m", "build", "--outdir", DIST, ROOT, quiet=True)
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    files = _call(
        "git", "-C", ROOT, "ls-files", "softqd", "softqd_command.py", quiet=True
    ).split()
    _check(sdist, _in_sdist(sdist), {*files, *BESIDE})
    _check(wheel, _in_wheel(wheel), set(files))
    with tempfile.TemporaryDirectory(prefix="softqd-package-") as folder:
        _try(wheel, Path(folder))
    print(f"built and tried: {sdist.name}, {wheel.name}")


def _in_sdist(path: Path) -> set[str]:
    with tarfile.open(path) as archive:
        members = [m.name for m in archive.getmembers() if m.isfile()]
    return {name.split("/", 1)[1] for name in members}


def _in_wheel(path: Path) -> set[str]:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    return {name for name in names if ".dist-info/" not in name}


def _check(path: Path, found: set[str], wanted: set[str]) -> None:
    """Exactly these files, package data and py.typed among them, and not large."""
    if missing := sorted(wanted - found):
        sys.exit(
            f"{path.name} lacks {missing}; is it ignored, or left out of the build?"
        )
    if extra := sorted(found - wanted):
        sys.exit(f"{path.name} has {extra} as well; add to git, or remove")
    if path.stat().st_size > MAX_BYTES:
        sys.exit(f"{path.name} has {path.stat().st_size} bytes, over {MAX_BYTES}")


def _try(wheel: Path, folder: Path) -> None:
    """Install the wheel into an environment of its own and use it from elsewhere."""
    _call(sys.executable, "-m", "venv", folder / "venv")
    bin_ = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    python, softqd = bin_ / "python", bin_ / "softqd"
    _call(python, "-m", "pip", "install", "--quiet", "--no-compile", wheel)
    version = _call(softqd, "--version", cwd=folder, quiet=True)
    if version != f"softqd {wheel.name.split('-')[1]}\n":
        sys.exit(f"softqd --version says {version!r}, the wheel is {wheel.name}")
    if "lp-easy" not in _call(softqd, "list", cwd=folder, quiet=True):
        sys.exit("softqd list does not list lp-easy")
    # -I: neither the checkout nor this folder is on the path.
    _call(python, "-I", ROOT / "scripts" / "try_installed.py", cwd=folder)


def _call(*command: object, cwd: Path | None = None, quiet: bool = False) -> str:
    """Run a command without the caller's PYTHONPATH; if quiet, return what it says."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE if quiet else None,
        text=True,
    )
    if done.returncode:
        sys.stdout.write(done.stdout or "")
        sys.exit(f"failed: {' '.join(map(str, command))}")
    return done.stdout or ""


if __name__ == "__main__":
    main()
