"""The arrows of the room plan: a room imports only rooms listed above it."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import softqd

ROOT = Path(softqd.__file__).parent
ALLOWED = {
    "html": set(),
    "types": {"html"},
    "settings": set(),
    "ops": {"types", "settings"},
    "objective": {"types", "ops"},
    "cache": {"ops"},
    "metrics": {"types", "ops", "cache"},
    "networks": {"types", "ops", "cache"},
    "problems": {"types", "settings", "ops", "networks"},
    "algorithms": {"types", "settings", "ops", "objective", "cache"},
    "registry": {"problems", "algorithms", "metrics", "types", "networks"},
    "experiment": {"html", "types", "settings", "ops", "registry", "metrics"},
    "stop": {"ops", "experiment"},
    "interop": {"types", "ops", "algorithms", "experiment", "metrics"},
    "plot": {"types", "ops", "metrics", "registry", "experiment"},
    "page": {"types", "ops", "metrics", "registry", "experiment", "plot"},
    "paper": {"types", "ops", "metrics", "registry", "experiment", "plot"},
    "cli": {
        *("registry", "metrics", "networks", "experiment", "interop", "plot", "page"),
        "paper",
    },
}
# Nothing here touches files, the network, other processes or clocks.
PURE = (
    *("html", "types", "settings", "ops", "objective", "metrics", "problems"),
    *("algorithms", "registry", "stop"),
)
WORLD = {
    *("concurrent", "datetime", "glob", "http", "io", "multiprocessing", "os"),
    *("pathlib", "platform", "shutil", "signal", "socket", "subprocess", "tarfile"),
    *("tempfile", "threading", "time", "urllib", "zipfile"),
}


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


def files_of(room):
    path = ROOT / room
    return path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]


@pytest.mark.parametrize("room", ALLOWED)
def test_room_imports_only_rooms_above_it(room):
    for file in files_of(room):
        found = set(imported_rooms(file)) - {room}
        assert found <= ALLOWED[room], f"{file.name} imports {found - ALLOWED[room]}"


def touches(text):
    """What code uses of the world outside: modules, and `open`.

    Environment variables may be read.
    """
    tree = ast.parse(text)
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "open":
            found.add("open")
    uses_of_os = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "os"
    }
    return found & (WORLD | {"open"}) - ({"os"} if uses_of_os == {"environ"} else set())


@pytest.mark.parametrize("room", PURE)
def test_pure_rooms_touch_nothing_outside(room):
    for file in files_of(room):
        assert not touches(file.read_text()), file


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import os\nx = os.environ['A']", set()),
        ("import os\nos.replace('a', 'b')", {"os"}),
        ("from pathlib import Path", {"pathlib"}),
        ("import urllib.request", {"urllib"}),
        ("with open('a') as file: pass", {"open"}),
    ],
)
def test_touching_is_noticed(code, found):
    assert touches(code) == found


def test_every_room_is_in_the_plan():
    names = {p.stem for p in ROOT.glob("[!_]*") if p.suffix == ".py" or p.is_dir()}
    assert names - {"data"} == set(ALLOWED)


def test_the_plan_lists_a_room_below_what_it_imports():
    text = (ROOT.parent / "CONTRIBUTING.md").read_text()
    plan = re.findall(r"^  (\w+)(?:/|\.py) ", text, re.M)
    assert plan == list(ALLOWED)
    for i, room in enumerate(plan):
        assert ALLOWED[room] <= set(plan[:i])


def modules_of(path):
    """The first names of all modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[0]


def test_matplotlib_is_imported_by_figures_alone():
    files = [file for file in ROOT.rglob("*.py") if "matplotlib" in modules_of(file)]
    assert {file.parent for file in files} == {ROOT / "plot"}


def test_the_paper_is_known_to_its_command_alone():
    users = {
        file.relative_to(ROOT).as_posix()
        for file in ROOT.rglob("*.py")
        if "paper" in imported_rooms(file)
    }
    rooms = {user.split("/")[0] for user in users - {"cli/_reproduce.py"}}
    assert rooms == {"paper"}


def test_plot_is_there_when_it_is_used_and_not_before():
    code = (
        "import sys, softqd; before = 'matplotlib' in sys.modules; "
        "print(before, softqd.plot.value_map.__name__, 'matplotlib' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "value_map", "True"]
    with pytest.raises(AttributeError, match="no attribute 'plots'"):
        _ = softqd.plots


# Inside of experiment/: a file, or folder, imports only those before it.
ORDER = {
    "experiment": (
        *("words", "reporter", "own", "watch", "signals", "files", "same"),
        *("spread", "checkpoint"),
        *("config", "pictures", "run_folder", "result", "warm", "program", "loop"),
        *("drive", "progress", "live", "run", "folder", "many"),
    ),
    "experiment.many": (
        *("comparison", "plan", "budget", "preset", "grid", "measure", "stack"),
        *("group", "workers", "runs", "compare", "sweep", "experiment_folder"),
    ),
}


def modules_inside(path, folder):
    """Files and folders of a folder of the package that a file imports."""
    prefix = f"softqd.{folder}"
    for node in ast.walk(ast.parse(path.read_text())):
        module = getattr(node, "module", None) or ""
        if module == prefix:
            yield from (alias.name for alias in node.names)
        elif module.startswith(f"{prefix}."):
            yield module.removeprefix(f"{prefix}.").split(".")[0]


@pytest.mark.parametrize("folder", ORDER)
def test_files_import_only_those_before_them(folder):
    place, order = ROOT / folder.replace(".", "/"), ORDER[folder]
    names = {p.stem for p in place.iterdir() if p.suffix == ".py" or p.is_dir()}
    assert names - {"__init__", "__pycache__"} == set(order)
    for i, name in enumerate(order):
        for file in files_of(f"{folder.replace('.', '/')}/{name}"):
            found = set(modules_inside(file, folder)) - {name}
            assert found <= set(order[:i]), f"{file} imports {found - set(order[:i])}"
