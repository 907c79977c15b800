import io

import numpy as np
import pytest
from rich.console import Console
from toys import climb

import softqd
from softqd.experiment.live import LivePanel, braille_scatter, sparkline


def test_sparkline_keeps_ends_and_gaps():
    assert sparkline(range(100), 3) == "▁▅█"
    assert sparkline([1.0, float("nan"), 2.0], 9) == "▁ █"
    assert sparkline([float("nan")] * 2, 9) == "  "
    assert sparkline([5.0, 5.0], 9) == "▁▁"


@pytest.mark.parametrize(
    ("point", "dots"),
    [((0, 1), 0x01), ((1, 1), 0x08), ((0, 0), 0x40), ((1, 0), 0x80)],
)
def test_corners_of_one_character(point, dots):
    (line,) = braille_scatter(np.array([point], float), ([0, 0], [1, 1]), 1, 1)
    assert ord(line) == 0x2800 + dots  # the Unicode chart


def test_points_outside_are_left_out():
    points = np.array([[2.0, 0.5], [0.5, -1.0]])
    assert braille_scatter(points, ([0, 0], [1, 1]), 2, 1) == ["⠀⠀"]


def panel_for(problem, lines):
    console = Console(file=lines, force_terminal=True, width=100, height=30)
    return LivePanel(problem, console)


def test_watching_changes_nothing(bowl):
    lines = io.StringIO()
    algorithm = climb(bowl, size=8)
    with panel_for(bowl, lines) as panel:
        seen = softqd.run(
            algorithm, num_iterations=20, progress=panel, callback=panel.look
        )
    plain = softqd.run(algorithm, num_iterations=20)
    np.testing.assert_array_equal(seen.population.solutions, plain.population.solutions)
    text = lines.getvalue()
    assert "behavior 1 and behavior 2" in text
    assert "20 (100%)" in text
    assert f"{plain.history['mean_quality'][-1]:.5g}" in text


def test_one_behavior_is_drawn_against_quality():
    problem = softqd.Problem(
        lambda x: (x[0], x[1:]), lambda key: np.zeros(2, np.float32), (-1, 1)
    )
    lines = io.StringIO()
    with panel_for(problem, lines) as panel:
        algorithm = climb(problem, size=4)
        softqd.run(
            algorithm,
            num_iterations=1,
            log_every=1,
            progress=panel,
            callback=panel.look,
        )
    assert "behavior 1 and quality" in lines.getvalue()
