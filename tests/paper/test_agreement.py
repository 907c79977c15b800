import math

import numpy as np
import pytest

from softqd.paper import agreement
from softqd.paper.agreement import Mean
from softqd.paper.cases import Cell
from softqd.paper.catalog import REPRODUCTIONS

CELLS = [
    (name, case.label, metric, cell)
    for name, spec in REPRODUCTIONS.items()
    for case in spec.cases
    for metric, cell in case.paper.items()
]


def test_compare_counts_combined_errors_after_half_a_digit():
    found = agreement.compare(Mean(10.0, 0.3), Mean(12.0, 0.4), 0.0)
    assert found.num_errors == 4.0
    assert found.verdict == "differs"
    rounding = agreement.compare(Mean(1.004, 0.0), Mean(1.0, 0.0), 0.01)
    assert rounding.num_errors == 0.0
    assert rounding.verdict == "agrees"
    certain = agreement.compare(Mean(1.1, 0.0), Mean(1.0, 0.0), 0.01)
    assert certain.num_errors == math.inf


def test_one_seed_has_no_verdict():
    found = agreement.agreement([5.0], Cell(("tab:app_ic_stats (IC)", "DNS", "qvs")))
    assert found.verdict == "one seed"
    assert not found.is_within
    assert found.ours.text(1) == "5.0"
    found = agreement.compare(Mean(11.0, math.nan), Mean(10.0, 0.2), 0.1)
    assert found.apart == "+10.0%"
    assert agreement.compare(Mean(11.0, 0.5), Mean(10.0, 0.0), 0.0).apart == "2.0"


def test_mean_of_seeds():
    found = agreement.mean_of([1.0, 3.0, None])
    assert found.value == 2.0
    np.testing.assert_allclose(found.error, np.sqrt(2) / np.sqrt(2))
    assert np.isnan(agreement.mean_of([None]).value)


def test_units_of_the_paper():
    table = "tab:bsz_ablation (batch size, IC)"
    cell = Cell((table, "SQUAD (M=4)", "qd_score_e3"), 2, 1e-3)
    found = agreement.agreement([5310.0, 5330.0], cell)
    np.testing.assert_allclose(found.ours, (5.32, 0.01))
    assert found.paper == (5.32, 0.05)
    assert found.num_errors == 0.0


def test_every_cell_is_in_the_papers_tables():
    assert len(CELLS) > 100
    for name, label, metric, cell in CELLS:
        found = agreement.printed(cell)
        assert all(map(math.isfinite, found)), (name, label, metric)
        # As many digits as are printed, and not fewer than needed to show them.
        assert round(found.value, cell.digits) == pytest.approx(found.value, abs=6e-3)


def test_all_of_the_papers_tables_are_reproduced():
    def rows(table, path=()):
        for key, value in table.items():
            if isinstance(value, dict):
                yield from rows(value, (*path, key))
            else:
                yield (*path, key)

    tables = {k: v for k, v in agreement.paper_tables().items() if "wallclock" not in k}
    assert set(rows(tables)) == {cell.path for *_, cell in CELLS}
