import io

from rich.console import Console
from scipy import stats

from softqd.cli._tables import budget_table, comparison_table
from softqd.experiment.many.comparison import COMPARED, Entry, conclude

GOOD, CLOSE, BAD = [5.0, 6.1, 7.2, 8.3, 9.4], [4.9, 6.0, 7.3, 8.1, 9.5], [0.1] * 5
COUNTS = ("evaluations", "gradient_evaluations", "iterations")


def entry(values, failures=None):
    table = dict.fromkeys(COMPARED, values) | dict.fromkeys(COUNTS, [2000.0] * 5)
    table["seconds"] = [1.25] * 5
    return Entry({}, list(range(5)), table, failures or {})


def text_of(table):
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(table)
    return console.export_text(styles=True)


def test_marks_and_bold():
    entries = {"a": entry(CLOSE), "b": entry(GOOD), "c": entry(BAD)}
    lines = text_of(comparison_table(conclude({}, 2000, entries, {}))).splitlines()
    row = next(line for line in lines if "mean quality" in line)
    assert f"7.16= ± {stats.sem(CLOSE):.2g}" in row
    assert f"\x1b[1m7.2* ± {stats.sem(GOOD):.2g}\x1b[0m" in row
    assert "0.1 ± 0" in row  # unmarked: 2 / C(10, 5) twice, about 0.02


def test_failures_and_empty_algorithms():
    empty = Entry({}, [], {name: [] for name in (*COMPARED, *COUNTS, "seconds")})
    entries = {"a": entry(GOOD, {7: "it broke"}), "b": empty}
    found = conclude({}, 2000, entries, {})
    text = text_of(budget_table(found))
    assert "5 of 6" in text
    assert "2,000" in text
    assert "1.25" in text
    row = next(
        line for line in text_of(comparison_table(found)).splitlines() if "qvs" in line
    )
    assert row.count(" - ") == 2  # no numbers of b, and nothing to test
    assert found.warnings == ["a failed with seed 7: it broke"]
