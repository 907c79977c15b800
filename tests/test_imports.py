"""The arrows of the room plan: a room imports only rooms listed above it."""

import ast
from pathlib import Path

import pytest

import softqd

ROOT = Path(softqd.__file__).parent
ALLOWED = {
    "types": set(),
    "ops": {"types"},
    "objective": {"types", "ops"},
    "metrics": {"types", "ops"},
    "problems": {"types", "ops"},
    "algorithms": {"types", "ops", "objective"},
    "registry": {"problems", "algorithms", "metrics", "types"},
    "experiment": {"types", "ops", "registry", "metrics"},
    "interop": {"types", "ops", "experiment", "metrics"},
    "report": {"types", "ops", "metrics", "experiment", "registry"},
    "cli": {"types", "registry", "metrics", "problems", "experiment", "report"},
}


FIGURES = (
    "plots.py",
    "paper_plots.py",
    "gallery.py",
    "fields.py",
    "comparisons.py",
    "style.py",
)


def imported_rooms(path):
    """Names of softqd's rooms that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "softqd":
            names = [f"softqd.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            if name.startswith("softqd."):
                yield name.split(".")[1]


@pytest.mark.parametrize("room", ALLOWED)
def test_room_imports_only_rooms_above_it(room):
    path = ROOT / room
    files = path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]
    for file in files:
        found = set(imported_rooms(file)) - {room}
        assert found <= ALLOWED[room], f"{file.name} imports {found - ALLOWED[room]}"


def test_every_room_is_in_the_plan():
    names = {p.stem for p in ROOT.glob("[!_]*") if p.suffix == ".py" or p.is_dir()}
    assert names - {"data"} == set(ALLOWED)


def test_matplotlib_is_imported_by_figures_alone():
    for file in ROOT.rglob("*.py"):
        imports_it = "import matplotlib" in file.read_text()
        assert imports_it == (file.name in FIGURES), file
