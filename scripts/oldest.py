"""Test with the lowest versions that pyproject.toml allows, on several Pythons.

``python scripts/oldest.py FOLDER PYTHON...`` (``make oldest``) makes an environment per
Python in a folder. A Python is a command or a path; one that is not there is left out,
and said.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Of any version: they are not what is tried.
TOOLS = ["beartype", "dm-pix", "hypothesis", "pandas", "pytest", "pytest-xdist"]
TESTS = [
    "tests/test_types.py",
    "tests/test_objective.py",
    "tests/test_cli.py",
    "tests/ops",
    "tests/algorithms",
    "tests/experiment/test_result.py",
    "tests/metrics/test_statistics.py",
    "tests/report/test_page.py",
    "tests/report/test_plots.py",
]


def main(folder: Path, pythons: list[str]) -> None:
    """Try every Python; fail if a test fails or none is there."""
    outcomes = {}
    for python in pythons:
        path = find(python)
        outcomes[python] = try_on(path, folder / Path(python).name) if path else None
    for python, passed in outcomes.items():
        print(python, {None: "is not there", True: "passed", False: "FAILED"}[passed])
    tried = [passed for passed in outcomes.values() if passed is not None]
    sys.exit(0 if tried and all(tried) else 1)


def find(python: str) -> str | None:
    """The command on the path, or pyenv's of that name, if it runs."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    installed = sorted(pyenv.glob(f"*/bin/{python}")) if "/" not in python else []
    for path in filter(None, [shutil.which(python), *map(str, installed)]):
        # One of pyenv's shims is there without the Python behind it.
        if subprocess.run([path, "--version"], capture_output=True).returncode == 0:
            return path
    return None


def try_on(python: str, environment: Path) -> bool:
    """Install the lowest versions that have wheels for this Python, and test."""
    inside = str(environment / "bin" / "python")
    install = [*uv("pip", "install", "--quiet", "--python", inside)]
    lowest = ["--resolution", "lowest-direct", "--only-binary", ":all:"]
    lowest += ["--no-binary", "softqd"]  # ours alone is built
    call(*uv("venv", "--quiet", "--clear", "--python", python, str(environment)))
    call(*install, *lowest, "--editable", str(ROOT))
    # The tools must not replace what is tried with newer versions.
    kept = environment / "lowest.txt"
    freeze = uv("pip", "freeze", "--exclude-editable", "--python", inside)
    kept.write_text(
        subprocess.run(freeze, check=True, capture_output=True, text=True).stdout
    )
    call(*install, "--constraints", str(kept), *TOOLS)
    call(inside, "--version")
    call(*uv("pip", "list", "--quiet", "--python", inside))
    # Old libraries warn of what newer ones, below them, will do away with.
    quiet = ["-W", "ignore::DeprecationWarning"]
    jobs = ["-n", os.environ.get("JOBS", "2"), "--dist", "loadfile"]
    marked = ["-m", "not (slow or networks)"]
    command = [inside, "-m", "pytest", "-q", *jobs, *quiet, *marked, *TESTS]
    return subprocess.run(command, cwd=ROOT).returncode == 0


def uv(*arguments: str) -> list[str]:
    """A command of uv, which knows how to resolve to the lowest versions."""
    return [sys.executable, "-m", "uv", *arguments]


def call(*command: str) -> None:
    """Run a command that must not fail."""
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
