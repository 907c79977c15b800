"""Test with the lowest versions that pyproject.toml allows, on several Pythons.

``python scripts/oldest.py FOLDER PYTHON...`` (``make oldest``) makes an environment per
Python in a folder. A Python is a command or a path; one that is not on the path or
among pyenv's is left out, and the last lines say which were tried and which not.
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
    "tests/interop/test_ask_tell.py",
    "tests/metrics/test_statistics.py",
    "tests/page/test_report.py",
    "tests/plot",
]


def main(folder: Path, pythons: list[str]) -> None:
    """Try every Python; fail if a test fails or none is there."""
    outcomes = {}
    for python in pythons:
        path = find(python)
        outcomes[python] = path and try_on(path, folder / Path(python).name)
    for python, outcome in outcomes.items():
        print(f"{python}: {outcome or 'not tried: it is not on this machine'}")
    tried = [outcome for outcome in outcomes.values() if outcome]
    sys.exit(0 if tried and all("passed" in outcome for outcome in tried) else 1)


def find(python: str) -> str | None:
    """The command on the path, or pyenv's of that name, if it runs."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    installed = sorted(pyenv.glob(f"*/bin/{python}")) if "/" not in python else []
    for path in filter(None, [shutil.which(python), *map(str, installed)]):
        # One of pyenv's shims is there without the Python behind it.
        if subprocess.run([path, "--version"], capture_output=True).returncode == 0:
            return path
    return None


def try_on(python: str, environment: Path) -> str:
    """What came of `install` and `test`."""
    try:
        install(python, environment)
        test(environment)
    except subprocess.CalledProcessError as error:
        return f"FAILED ({python}): {error}"
    return f"passed ({python})"


def install(python: str, environment: Path) -> None:
    """Install the lowest versions that have wheels for this Python."""
    inside = str(environment / "bin" / "python")
    add = uv("pip", "install", "--quiet", "--python", inside)
    lowest = ["--resolution", "lowest-direct", "--only-binary", ":all:"]
    lowest += ["--no-binary", "softqd"]  # ours alone is built
    call(*uv("venv", "--quiet", "--clear", "--python", python, str(environment)))
    call(*add, *lowest, "--editable", str(ROOT))
    # The tools must not replace what is tried with newer versions.
    kept = environment / "lowest.txt"
    freeze = uv("pip", "freeze", "--exclude-editable", "--python", inside)
    kept.write_text(
        subprocess.run(freeze, check=True, capture_output=True, text=True).stdout
    )
    call(*add, "--constraints", str(kept), *TOOLS)
    call(inside, "--version")
    call(*uv("pip", "list", "--quiet", "--python", inside))


def test(environment: Path) -> None:
    """Run the tests that `TESTS` names."""
    inside = str(environment / "bin" / "python")
    # Old libraries warn of what newer ones, below them, will do away with.
    quiet = ["-W", "ignore::DeprecationWarning"]
    jobs = ["-n", os.environ.get("JOBS", "2"), "--dist", "loadfile"]
    marked = ["-m", "not (slow or networks)"]
    command = [inside, "-m", "pytest", "-q", *jobs, *quiet, *marked, *TESTS]
    subprocess.run(command, cwd=ROOT, check=True)


def uv(*arguments: str) -> list[str]:
    """A command of uv, which knows how to resolve to the lowest versions."""
    return [sys.executable, "-m", "uv", *arguments]


def call(*command: str) -> None:
    """Run a command that must not fail."""
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
