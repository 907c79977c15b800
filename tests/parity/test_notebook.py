"""A notebook in a real kernel (nbclient and ipykernel: the extra 'parity')."""

import threading

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

CELLS = [
    "import sys, softqd\n"
    "problem = softqd.problems.arm(num_joints=4)\n"
    "'matplotlib' in sys.modules, 'ipywidgets' in sys.modules",
    "problem",
    "algorithm = softqd.squad(problem, population_size=32)\n"
    "result = softqd.run(algorithm, num_iterations=60, progress=True)",
    "result",
    "softqd.select(result, 5)",
    "softqd.plot.scatter(result, problem)",
    "found = softqd.compare(problem, ['squad'], 2, evaluations=300,\n"
    "    settings=['squad.population_size=16'], progress=True)\nfound",
    # Ctrl-C, as the kernel hears it when somebody presses the square button.
    "import os, signal\n"
    "def press(point):\n"
    "    if point.iteration == 20: os.kill(os.getpid(), signal.SIGINT)\n"
    "stopped = softqd.run(algorithm, num_iterations=10**6, callback=press)\n"
    "print(stopped.interrupted, stopped.history['iteration'][-1])",
    "print(len(stopped.population))",
]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """Outputs of every cell."""
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(text) for text in CELLS]
    folder = tmp_path_factory.mktemp("notebook")
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=300, resources=resources).execute()
    assert threading.active_count() < 50
    return [cell.outputs for cell in notebook.cells]


def data(outputs, cell, kind):
    return [o.data[kind] for o in outputs[cell] if kind in o.get("data", {})]


def text(outputs, cell):
    return "".join(o.get("text", "") for o in outputs[cell])


def test_importing_loads_neither_matplotlib_nor_widgets(outputs):
    assert data(outputs, 0, "text/plain") == ["(False, False)"]


@pytest.mark.parametrize(
    ("cell", "words", "marks"),
    [
        (1, "softqd.run(softqd.squad(problem)", 0),
        (3, "squad on arm", 32),
        (4, "softqd.plot.scatter(population)", 5),
        (6, "on arm(num_joints=4): 2 seeds", 2),
    ],
)
def test_objects_are_cards(outputs, cell, words, marks):
    shown = data(outputs, cell, "text/html")[-1]
    assert words in shown
    assert shown.count("<circle") == marks
    assert len(data(outputs, cell, "text/plain")[-1]) < 300


@pytest.mark.parametrize(("cell", "words"), [(2, "iteration 60"), (6, "2 of 2 runs")])
def test_a_bar_needs_no_widgets_and_is_one_output(outputs, cell, words):
    bars = [b for b in data(outputs, cell, "text/html") if "<progress" in b]
    assert len(bars) == 1
    assert words in bars[0]
    assert 'value="1.0000"' in bars[0]
    assert "widget" not in str(outputs[cell])


def test_figures_show(outputs):
    (picture,) = data(outputs, 5, "image/png")
    assert len(picture) > 1000


def test_the_stop_button_leaves_a_result(outputs):
    assert text(outputs, 7) == "True 20\n"
    assert text(outputs, 8) == "32\n"
