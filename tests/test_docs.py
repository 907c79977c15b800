"""Every Python block of these pages runs, in order, in one namespace."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/index.md",
    "docs/quickstart.md",
    "docs/extend.md",
    "docs/metrics.md",
    "docs/compare.md",
    "docs/figures.md",
    "docs/report.md",
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


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name in navigation
