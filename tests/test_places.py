"""The files that CONTRIBUTING and the page Extend show, put where these pages say."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ("CONTRIBUTING.md", "docs/extend.md")
ROOMS = {"Problem": "problems", "Algorithm": "algorithms"}


def files():
    """Names, rooms and texts of the blocks that begin as a file does."""
    for page in PAGES:
        for text in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S):
            factory = re.search(r"^def (\w+)\([^>]*-> (Problem|Algorithm):", text, re.M)
            if text.startswith('"""') and factory:
                yield factory[1], ROOMS[factory[2]], text


@pytest.mark.slow
def test_one_file_and_one_line_are_enough(tmp_path):
    """The copy lists them, and its tests of all algorithms pass for them."""
    for name in ("softqd", "tests", "conftest.py", "pyproject.toml"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    for name, room, text in files():
        (tmp_path / "softqd" / room / f"_{name}.py").write_text(text)
        with (tmp_path / "softqd" / room / "__init__.py").open("a") as file:
            file.write(f"from softqd.{room}._{name} import {name} as {name}\n")
    names = [name for name, _, _ in files()]
    assert names == ["bowl", "random_search", "curve", "hill_climb"]

    def python(*words):
        here = {**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "200"}
        command = [sys.executable, "-P", *words]  # not from this folder
        done = subprocess.run(
            command, cwd=tmp_path, env=here, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    listed = python("-c", "from softqd import cli; cli.invoke(['list'])")
    assert all(f" {name} " in listed for name in names)
    tests = ["tests/test_conformance.py", "tests/ops/test_bounds.py"]
    found = python("-m", "pytest", "-q", *tests, "-k", "random_search or hill_climb")
    assert " passed" in found
