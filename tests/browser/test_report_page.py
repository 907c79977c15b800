"""The report page, opened, looked at and used as a person would."""

import dataclasses
import re

import jax.numpy as jnp
import numpy as np
import pytest
from saved_runs import LP, make_metrics, make_result, save_run

import softqd
from softqd.experiment.pictures import draw_pictures
from softqd.page.report import write_report, write_run_report

pytest.importorskip("selenium", reason="selenium is missing: pip install selenium")
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

pytestmark = pytest.mark.browser

STEPS = np.array([0.1, 0.3, 0.5, 0.7, 0.9], np.float32)
# Solution 5 i + j at (STEPS[i], STEPS[j]), of quality 10 + its number.
GRID = np.stack(np.meshgrid(STEPS, STEPS, indexing="ij"), -1).reshape(-1, 2)
QUALITY = 10 + np.arange(25, dtype=np.float32)
NASTY = "<img src=x onerror=\"document.title='owned'\"></script><b>lp</b>"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages by name: a grid, 10,000 solutions, pictures, a comparison."""
    place = tmp_path_factory.mktemp("pages")
    grid = {"num": 25, "behavior": GRID, "quality": QUALITY}
    save_run(place / "grid", make_metrics(qvs=123.456), preset=NASTY, **grid)
    save_run(place / "large", num=10_000, problem={**LP, "behavior_dim": 16})
    for seed in range(5):
        good, bad = make_metrics(qvs=7.0 + seed), make_metrics(qvs=1.0 + 0.1 * seed)
        save_run(place / "runs" / f"a{seed}", good, seed=seed)
        save_run(place / "runs" / f"b{seed}", bad, seed=seed, algorithm={"name": "dns"})
    runs = sorted((place / "runs").iterdir())
    return {
        "grid": write_report([place / "grid"]),
        "large": write_report([place / "large"]),
        "pictures": _pictured(place / "pictures.html"),
        "comparison": write_report(runs, place / "comparison.html"),
    }


def _pictured(path):
    shades = np.linspace(0, 1, 300, dtype=np.float32)
    problem = softqd.Problem(
        lambda x: (x[0], x[:2]), render=lambda x: jnp.full((48, 48, 3), x[0])
    )
    behavior = np.random.default_rng(0).uniform(size=(300, 2)).astype(np.float32)
    parts = {"behavior": behavior, "solutions": shades[:, None].repeat(2, 1)}
    result = make_result(300, quality=shades, **parts)
    drawn = draw_pictures(problem, result.population, 0.0)
    run = dataclasses.replace(result, pictures=drawn)
    return write_run_report(path, run, pictures=1000)


def one(page, selector):
    return page.find_element(By.CSS_SELECTOR, selector)


def opened(page, path):
    page.get(path.as_uri())
    return page


def rows_of(page, selector):
    rows = page.find_elements(By.CSS_SELECTOR, f"{selector} tr")
    cells = [row.find_elements(By.CSS_SELECTOR, "th, td") for row in rows]
    return [tuple(cell.text for cell in row[:2]) for row in cells]


def pixel(page, axis, value):
    """Where a value is along an axis of the scatter plot, read off its ticks."""
    group = page.find_elements(By.CSS_SELECTOR, "#scatter .axis")[axis]
    ticks = group.find_elements(By.CSS_SELECTOR, ".tick")
    numbers = [float(tick.text) for tick in ticks]
    pattern = r"[\d.]+"
    places = [
        float(re.findall(pattern, tick.get_attribute("transform"))[axis])
        for tick in ticks
    ]
    return np.interp(value, numbers, places)


def pointer(page, point):
    """Actions with the pointer at a point of the scatter plot."""
    scatter = one(page, "#scatter")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", scatter)
    left, top = pixel(page, 0, point[0]), pixel(page, 1, point[1])
    size = scatter.size
    dx, dy = left - size["width"] / 2, top - size["height"] / 2
    return ActionChains(page, duration=50).move_to_element_with_offset(
        scatter, round(dx), round(dy)
    )


def test_numbers_are_those_of_the_file(page, pages):
    opened(page, pages["grid"])
    assert one(page, "[data-metric=qvs] .value").text == "123.46"
    assert one(page, "[data-metric=evaluations] .value").text == "30"
    assert one(page, "#quality").text == "34"  # the best is inspected first
    assert rows_of(page, "#values") == [("behavior 1", "0.9"), ("behavior 2", "0.9")]


def test_names_stay_text(page, pages):
    opened(page, pages["grid"])
    assert one(page, "h1").text == f"squad on {NASTY}"
    assert page.title.startswith("squad on <img")
    assert not page.find_elements(By.CSS_SELECTOR, "#page img, #page script, h1 b")


def test_click_inspects_and_neighbors_are_the_nearest(page, pages):
    opened(page, pages["grid"])
    pointer(page, (0.3, 0.5)).click().perform()
    assert one(page, "#quality").text == "17"  # 5 * 1 + 2
    assert rows_of(page, "#values") == [("behavior 1", "0.3"), ("behavior 2", "0.5")]
    near = one(page, "#neighbors").text
    for name in ("solution 2", "solution 6", "solution 8", "solution 12"):
        assert name in near
    assert near.count("distance 0.2") == 5  # sqrt(0.08) = 0.283 is the fifth
    page.find_elements(By.CSS_SELECTOR, "#neighbors button")[0].click()
    assert one(page, "#quality").text in ("12", "16", "18", "22")


def test_hover_shows_the_numbers(page, pages):
    opened(page, pages["grid"])
    pointer(page, (0.7, 0.1)).perform()
    text = one(page, "#scatter .tip").text
    assert text.splitlines()[:2] == ["solution 15", "quality 25"]


def test_drag_selects_in_all_views(page, pages):
    opened(page, pages["grid"])
    start, end = (0.2, 0.2), (0.6, 0.6)
    drag = pointer(page, start).click_and_hold()
    drag.move_by_offset(
        round(pixel(page, 0, end[0]) - pixel(page, 0, start[0])),
        round(pixel(page, 1, end[1]) - pixel(page, 1, start[1])),
    ).release().perform()
    # Solutions 6, 7, 11 and 12.
    expected = "4 of 25 solutions selected: quality 19 on average, best 22"
    assert one(page, "#selection").text == expected
    one(page, "#clear").click()
    assert one(page, "#selection").text.startswith("25 of 25 solutions:")


def test_brush_along_an_axis(page, pages):
    opened(page, pages["grid"])
    brush = page.find_elements(By.CSS_SELECTOR, "#parallel .brush .overlay")[2]
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", brush)
    half = brush.size["height"] / 2
    drag = ActionChains(page, duration=50).move_to_element_with_offset(brush, 0, 0)
    # The upper half of the qualities: more than 22.
    drag.click_and_hold().move_by_offset(0, -round(half) + 2).release().perform()
    count, _, total, *_ = one(page, "#selection").text.split()
    assert total == "25"
    assert int(count) in (12, 13)  # 22 itself is in the middle


def test_axes_can_be_changed(page, pages):
    opened(page, pages["large"])
    Select(one(page, "#axis-x")).select_by_visible_text("behavior 7")
    Select(one(page, "#axis-y")).select_by_visible_text("quality")
    names = page.find_elements(By.CSS_SELECTOR, "#scatter text.name")
    assert [name.text for name in names] == ["behavior 7", "quality"]
    assert "two different behaviors" in one(page, "#value .readout").text
    Select(one(page, "#history-x")).select_by_visible_text("seconds (s)")
    assert "seconds (s)" in one(page, "#history svg").text


def test_keys_do_what_the_pointer_does(page, pages):
    opened(page, pages["grid"])
    for _ in range(12):  # to the plot, as by any reader without a mouse
        page.switch_to.active_element.send_keys(Keys.TAB)
        if page.switch_to.active_element.get_attribute("id") == "scatter":
            break
    plot = page.switch_to.active_element
    plot.send_keys(Keys.HOME)
    assert one(page, "#quality").text == "34"
    plot.send_keys(Keys.ARROW_LEFT)
    assert one(page, "#quality").text == "29"  # (0.7, 0.9)
    plot.send_keys(Keys.ARROW_DOWN)
    assert one(page, "#quality").text == "28"  # (0.7, 0.7)
    one(page, ".ranges summary").send_keys(Keys.ENTER)
    one(page, "#range-low").send_keys("30", Keys.ENTER)
    assert one(page, "#selection").text.startswith("5 of 25 solutions selected")
    one(page, "#scatter").send_keys(Keys.ESCAPE)
    assert one(page, "#selection").text.startswith("25 of 25")


@pytest.mark.parametrize(
    ("num", "dim", "text"),
    [(0, 2, "The population is empty."), (1, 2, "no others"), (7, 1, "Choose two")],
)
def test_odd_populations_open(page, tmp_path, num, dim, text):
    parts = {"quality": np.zeros(num), "behavior": np.zeros((num, dim))}  # all equal
    run = make_result(num, **parts)
    opened(page, write_run_report(tmp_path / "page.html", run, pictures=0))
    assert text in one(page, "main").text


def test_value_map_is_the_librarys(page, pages):
    opened(page, pages["large"])
    script = "return Array.from(valueMap(softqd.model, 0.05, 30))"
    found = np.reshape(page.execute_script(script), (30, 30))
    population = softqd.load_population(pages["large"].parent / "population.npz")
    expected = softqd.metrics.value_map(
        population.quality, population.behavior, 0.05, resolution=30
    ).value
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_selection_among_ten_thousand(page, pages, capsys):
    opened(page, pages["large"])
    script = """
        const done = arguments[0], { model } = window.softqd, began = performance.now();
        model.setFilter(16, [50, 90]);
        const handled = performance.now() - began;
        requestAnimationFrame(() => requestAnimationFrame(
            () => done([model.count, handled, performance.now() - began])));
    """
    count, handled, painted = page.execute_async_script(script)
    quality = softqd.load_population(pages["large"].parent / "population.npz").quality
    assert count == int(((quality >= 50) & (quality <= 90)).sum())
    with capsys.disabled():
        print(f" [{handled:.0f} ms, {painted:.0f} ms with two frames]", end="")


def test_pictures_come_into_view(page, pages):
    opened(page, pages["pictures"])
    loaded = "return document.querySelectorAll('#gallery img[src]').length"
    page.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0]))")
    assert page.execute_script(loaded) < 300
    tile = page.find_elements(By.CSS_SELECTOR, "#gallery .tile")[30]
    page.execute_script("arguments[0].scrollIntoView()", tile)
    tile.click()
    assert one(page, "#details .picture figcaption").text == "solution 269"
    width = "return document.querySelector('#details img').naturalWidth"
    assert page.execute_script(width) == 48
    assert float(one(page, "#quality").text) == pytest.approx(269 / 299, rel=1e-5)


def test_dark_and_light(page, pages):
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": dark})
    opened(page, pages["pictures"])
    ground = "return getComputedStyle(document.body).backgroundColor"
    assert page.execute_script(ground) == "rgb(18, 21, 27)"
    one(page, "#theme").click()
    assert page.execute_script(ground) == "rgb(245, 246, 248)"


@pytest.mark.parametrize("name", ["grid", "large", "pictures", "comparison"])
def test_fits_a_phone(page, pages, name):
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    opened(page, pages[name])
    width = "return document.documentElement.scrollWidth"
    assert page.execute_script(width) == 390


def test_comparison(page, pages):
    opened(page, pages["comparison"])
    cells = page.find_elements(By.CSS_SELECTOR, "tr[data-metric=qvs] td")
    # Means of 7, ..., 11 and of 1, ..., 1.4; squad is the best by far.
    assert [cell.text.split(" ")[0] for cell in cells[:2]] == ["9*", "1.2"]
    assert cells[0].find_elements(By.TAG_NAME, "b")
    assert not cells[1].find_elements(By.TAG_NAME, "b")
    ties = page.find_elements(By.CSS_SELECTOR, "tr[data-metric=coverage] td")
    assert ties[1].text.startswith("1.5=")
    assert one(page, "#distributions").text.count("QVS") == 1
    Select(one(page, "#curve")).select_by_visible_text("best quality")
    assert "best quality" in one(page, "#curves svg").text
    assert one(page, "#settings").text.count("squad") == 1
    Select(one(page, "#run")).select_by_visible_text("dns, seed 0")
    assert "dns" in one(page, "#settings").text
