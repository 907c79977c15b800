import json
from pathlib import Path

import numpy as np
import pytest

from softqd.experiment import record as records
from softqd.report import results

ROOT = Path(__file__).parents[2]


def test_page_is_what_the_records_give():
    text = (ROOT / "docs" / "results.md").read_text()
    assert text == results.page(records.load_all(ROOT / "results")), (
        "run 'make results'"
    )


def test_records_are_small():
    for path in (ROOT / "results").glob("*.json"):
        assert path.stat().st_size < 100_000


def test_compare_counts_combined_errors_after_half_a_digit():
    found = results.compare(results.Mean(10.0, 0.3), results.Mean(12.0, 0.4), 0.0)
    assert found.num_errors == 4.0
    assert not found.is_within
    rounding = results.compare(results.Mean(1.004, 0.0), results.Mean(1.0, 0.0), 0.01)
    assert rounding.num_errors == 0.0
    assert rounding.is_within


def test_mean_of_seeds():
    found = results.mean_of([1.0, 3.0, None])
    assert found.value == 2.0
    np.testing.assert_allclose(found.error, np.sqrt(2) / np.sqrt(2))
    assert np.isnan(results.mean_of([None]).value)


def test_paper_tables_hold_the_printed_numbers():
    row = results.paper_tables()["tab:app_lp_stats (LP)"]["easy ($d=4$)"]["SQUAD"]
    assert row["mean_objective"] == [68.36, 0.02]


@pytest.fixture(scope="module")
def small_record():
    return records.record(
        "lp-easy",
        seeds=[1, 2],
        settings=["population_size=16", "batch_size=8", "solution_dim=8"],
        variant="tiny",
        num_iterations=6,
    )


def test_record_round_trip(small_record, tmp_path):
    path = records.save(small_record, tmp_path)
    assert path.name == "lp-easy_squad_tiny.json"
    assert records.load_all(tmp_path) == [json.loads(json.dumps(small_record))]
    assert small_record["config"]["algorithm"]["population_size"] == 16
    assert small_record["metrics"]["evaluations"] == [16 * 13] * 2
    assert len(small_record["metrics"]["mean_quality"]) == 2


def test_curves_end_at_the_metrics_of_the_run(small_record):
    followed = records.record(
        "lp-easy",
        seeds=[1, 2],
        settings=["population_size=16", "batch_size=8", "solution_dim=8"],
        num_iterations=6,
        curves=True,
    )
    for name in ("qd_score", "qvs"):
        curve = followed["history"][name]
        assert [len(c) for c in curve] == [7, 7]
        last = [c[-1] for c in curve]
        np.testing.assert_allclose(last, followed["metrics"][name], rtol=1e-5)
        np.testing.assert_allclose(last, small_record["metrics"][name], rtol=1e-4)


def test_bad_records_are_refused(small_record):
    with pytest.raises(ValueError, match=r"keys that differ: \['seconds'\]"):
        records.check({k: v for k, v in small_record.items() if k != "seconds"})
    with pytest.raises(ValueError, match="schema 2"):
        records.check({**small_record, "schema": 2})
    with pytest.raises(ValueError, match="metric x has 1 values for 2 seeds"):
        records.check({**small_record, "metrics": {"x": [1.0]}})
