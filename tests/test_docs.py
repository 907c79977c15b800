"""Every Python block of these pages runs, in order, in one namespace.

Blocks with a title, such as those of other libraries, do not run here.
"""

import re
from pathlib import Path

import pytest

import softqd

ROOT = Path(__file__).parent.parent
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/index.md",
    "docs/quickstart.md",
    "docs/extend.md",
    "docs/callbacks.md",
    "docs/from-pyribs.md",
    "docs/from-qdax.md",
    "docs/metrics.md",
    "docs/compare.md",
    "docs/simulators.md",
    "docs/figures.md",
    "docs/report.md",
    "docs/run-folder.md",
    "docs/reproduce.md",
    pytest.param("docs/latent_space.md", marks=pytest.mark.networks),
]


@pytest.mark.parametrize("page", PAGES)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    assert blocks
    namespace = {"__name__": "docs"}
    for block in blocks:
        exec(compile(block, page, "exec"), namespace)


def test_readme_example_fits_ten_lines_and_lights_the_space(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    block = re.search(r"```python\n(.*?)```", text, re.S)[1]
    assert len([line for line in block.splitlines() if line.strip()]) <= 10
    namespace = {}
    exec(block, namespace)
    result = namespace["result"]
    assert result.history["mean_quality"][-1] > result.history["mean_quality"][0]
    assert result.population.behavior.std(axis=0).min() > 0.2
    assert (tmp_path / "my_run" / "population.npz").exists()


def test_every_page_is_in_the_navigation_and_on_the_first_page():
    navigation = (ROOT / "mkdocs.yml").read_text()
    table = (ROOT / "docs" / "index.md").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert f": {page.name}\n" in navigation
        assert f"]({page.name})" in table or page.name == "index.md"


def test_api_page_has_the_public_names_and_no_parts_of_algorithms():
    text = (ROOT / "docs" / "api.md").read_text()
    entries = set(re.findall(r"^::: (\S+)$", text, re.M))
    assert not [entry for entry in entries if entry.startswith("softqd.ops")]
    public = {softqd: softqd.__all__, softqd.metrics: softqd.metrics.__all__}
    public[softqd.problems] = [n for n in vars(softqd.problems) if n[0] != "_"]
    for module, names in public.items():
        for name in names:
            ways = {f"{m.__name__}.{name}" for m in (softqd, module, softqd.metrics)}
            value = getattr(module, name)
            is_shown = bool(ways & entries) or f"`metrics.{name}`" in text
            assert is_shown or not callable(value), name
