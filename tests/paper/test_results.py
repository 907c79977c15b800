from pathlib import Path

import pytest

from softqd.paper import catalog, results
from softqd.paper import record as records
from softqd.paper.run import config_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def found():
    return records.load_all(ROOT / "results")


def test_page_is_what_the_records_give(found):
    text = (ROOT / "docs" / "results.md").read_text()
    assert text == results.page(found), "run 'make results'"


def test_figures_of_the_page_are_there():
    text = (ROOT / "docs" / "results.md").read_text()
    names = [part.split(")")[0] for part in text.split("](figures/")[1:]]
    assert names
    for name in names:
        assert (ROOT / "docs" / "figures" / name).exists(), "run 'make results'"


def test_records_hold_the_settings_and_seeds_of_their_cases(found):
    """Those of the presets and what the case says: none is changed by hand."""
    specs = catalog.REPRODUCTIONS.values()
    cases = {case.name(): case for spec in specs for case in spec.cases}
    for record in found:
        case, config = cases[record["name"]], record["config"]
        wanted = config_of(case)
        for table in ("problem", "algorithm"):
            assert config[table] == wanted[table], record["name"]
        run = {k: v for k, v in wanted["run"].items() if k not in ("seed", "log_every")}
        assert run == {k: v for k, v in config["run"].items() if k != "log_every"}
        assert tuple(record["seeds"]) == case.seeds, record["name"]


def test_records_are_small():
    for path in (ROOT / "results").glob("*.json"):
        assert path.stat().st_size < 100_000


def test_what_has_no_record_was_not_run(found):
    one = [r for r in found if r["name"] == "lp-easy_squad_published_published"]
    sections = dict(part.split("\n", 1) for part in results.page(one).split("\n## "))
    assert sections["Population size"].endswith("Not run.\n")
    assert "| lp-easy | SQUAD | 10 |" in sections["Linear Projection"]
    assert "Not run: CMA-MAEGA on lp-easy" in sections["Linear Projection"]
    assert "figures/population-size.png" not in results.page(one)


def test_quick_and_foreign_records_are_refused(found):
    with pytest.raises(ValueError, match="is a quick version"):
        results.page([{**found[0], "quick": True}])
    with pytest.raises(ValueError, match="record of no reproduction"):
        results.page([{**found[0], "name": "mine"}])


def test_bad_records_are_refused(found, tmp_path):
    entry = found[0]
    with pytest.raises(ValueError, match=r"keys that differ: \['seconds'\]"):
        records.check({k: v for k, v in entry.items() if k != "seconds"})
    with pytest.raises(ValueError, match="schema 2"):
        records.check({**entry, "schema": 2})
    with pytest.raises(ValueError, match=f"1 values for {len(entry['seeds'])} seeds"):
        records.check({**entry, "metrics": {"x": [1.0]}})
    (tmp_path / "a.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"a\.json is not a record"):
        records.load_all(tmp_path)
