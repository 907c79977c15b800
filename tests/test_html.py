"""What a prompt and a notebook show: short, and of any population."""

import dataclasses
import xml.etree.ElementTree as ET

import jax
import numpy as np
import pytest
from toys import climb, make_bowl

import softqd
from softqd import html
from softqd.experiment.many.comparison import Comparison, Entry, conclude


def parsed(text):
    """As a browser would read it; HTML's lone <br> apart."""
    return ET.fromstring(text.replace("<br>", "<br/>"))


def words(text):
    return " ".join(parsed(text).itertext())


def population(n=3, d=2, occupied=None):
    rng = np.random.default_rng(0)
    occupied = np.ones(n, bool) if occupied is None else occupied
    return softqd.Population(
        rng.random((n, 50)), np.arange(n, dtype=float), rng.random((n, d)), occupied
    )


def test_a_population_in_a_line_and_as_a_card():
    behavior = np.array([[0.25, 0.5], [0.75, 0.5], [0.5, 0.5]])
    some = dataclasses.replace(population(), behavior=behavior)
    assert repr(some) == (
        "Population(solutions 3, quality 0 to 2, behavior 1 0.25 to 0.75, "
        "behavior 2 0.5 to 0.5)"
    )
    empty = population(2, occupied=np.zeros(2, bool))
    assert repr(empty).startswith("Population(solutions 0, quality none, ")
    assert len(repr(population(5000, 40))) < 200
    for each in (population(), population(2, 1), population(5000, 40), empty):
        shown = each._repr_html_()
        assert f"{len(each):,}" in words(shown)
        assert len(shown) < 50_000
        assert shown.count("<circle") == min(len(each), 400)


def test_values_that_are_not_finite_are_left_out_of_the_picture():
    quality = np.array([1.0, np.nan, np.inf])
    odd = dataclasses.replace(population(), quality=quality)
    assert "quality 1 to 1" in repr(odd)
    assert odd._repr_html_().count("<circle") == 1


def test_within_transformations_of_jax_there_are_shapes():
    seen = []

    @jax.jit
    def look(found):
        seen.append(repr(found))
        return found.quality

    look(population())
    assert seen == ["Population(shapes (3,), (3, 2), (3,))"]
    assert "shapes" in repr(jax.tree.map(lambda _: None, population()))


def test_dots_span_the_picture_and_colors_the_values():
    root = parsed(html.dots(np.array([[0.0, 5.0], [1.0, 7.0]]), np.array([3.0, 4.0])))
    first, second = root.iter("circle")
    assert [float(first.get(c)) for c in ("cx", "cy")] == [6, html.HEIGHT - 6]
    assert [float(second.get(c)) for c in ("cx", "cy")] == [html.WIDTH - 6, 6]
    assert [first.get("fill"), second.get("fill")] == ["#440154", "#fde725"]  # viridis


def test_problems_are_shown_without_evaluating_them():
    def never(x):
        raise AssertionError

    problem = softqd.Problem(never, None, (0, [1, 2]), name="<b>", quality_level=-1)
    assert repr(problem) == (
        "Problem('<b>', behavior_bounds 0 to 1, 0 to 2, quality_level -1)"
    )
    shown = problem._repr_html_()
    assert "softqd.run(softqd.squad(problem)" in words(shown)
    assert "Problem <b>" in words(shown)
    many = softqd.Problem(never, None, (np.zeros(512), np.arange(1.0, 513)))
    assert len(repr(many)) < 120
    assert repr(jax.tree.map(lambda x: x, problem)) == repr(problem)


def test_a_result_says_what_was_found_and_what_to_type():
    result = softqd.run(climb(make_bowl()), seed=4, num_iterations=2)
    assert repr(result).startswith(
        "Result(climb on bowl, seed 4: solutions 16, quality"
    )
    assert "evaluations 48" in repr(result)
    assert len(repr(result)) < 250
    shown = words(result._repr_html_())
    assert "softqd.select(result, 20)" in shown
    assert "interrupted" not in shown
    stopped = dataclasses.replace(result, interrupted=True, config={}, history={})
    assert "? on ?, seed 4 (interrupted)" in words(stopped._repr_html_())


def test_a_comparison_is_a_strip_per_algorithm():
    values = {name: [None, None] for name in ("vendi_score", "qd_score", "coverage")}
    values |= {name: [None, None] for name in ("qvs", "soft_qd_score", "max_quality")}
    entries = {
        name: Entry({}, [0, 1], {**values, "mean_quality": [x, x + 1]})
        for name, x in (("a", 1.0), ("<b>", 5.0))
    }
    found = conclude({"name": "bowl"}, 1000, entries, {})
    text = "a, <b> on bowl: 2 seeds, 1,000 evaluations each"
    assert repr(found) == f"Comparison({text})"
    shown = found._repr_html_()
    assert text in words(shown)
    assert "5.5 (best mean)" in words(shown)
    assert shown.count("<circle") == 4
    none = Comparison({}, 10, {}, {}, {}, [])
    assert "on ?: 0 seeds" in words(none._repr_html_())


@pytest.mark.parametrize("value", [0.1, 12345, np.int32(3)])
def test_numbers_read_back(value):
    found = float(html.number(value).replace(",", ""))
    assert found == pytest.approx(value, rel=1e-3)
