import math
from pathlib import Path

import numpy as np
import pytest

from softqd.paper import claims, figures, tables
from softqd.paper.catalog import REPRODUCTIONS
from softqd.paper.figure_files import write_figures
from softqd.paper.record import load_all

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def found():
    return {entry["name"]: entry for entry in load_all(RESULTS)}


def ablation(quick=False, num_seeds=3):
    """Records of the population sizes, QVS 390 + 10 i and QD score 3240 + 100 i."""
    records = {}
    spec = REPRODUCTIONS["population-size"]
    for place, case in enumerate(spec.cases):
        spread = np.arange(num_seeds) - (num_seeds - 1) / 2
        values = {"qvs": 390 + 10 * place + spread}
        values["qd_score"] = 3240 + 100 * place + 100 * spread
        size = int(case.variant.partition("=")[2])
        records[case.name(quick)] = {
            "name": case.name(quick),
            "preset": case.preset,
            "variant": case.variant,
            "seeds": list(case.seeds[:num_seeds]),
            "metrics": {name: list(map(float, x)) for name, x in values.items()},
            "config": {
                "algorithm": {"name": "squad_published", "population_size": size}
            },
            "history": {},
            **({"quick": True} if quick else {}),
        }
    return spec, records


def test_table_has_ours_the_papers_and_a_verdict():
    spec, records = ablation()
    sheet = tables.sheet_of(spec, records)
    assert sheet.title == "Population size"
    # The paper: 3.24 ± 0.43 thousand and 390.6 ± 1.6; ours: errors 100 / sqrt(3), 0.58.
    start = ["ic", "N = 128", "3"]
    ours = f"3.24 ± {0.1 / math.sqrt(3):.2f}"
    score = [ours, "3.24 ± 0.43", "0.0", "agrees"]
    assert sheet.rows[0] == [*start, "QD score / 1000", *score]
    apart = (0.6 - 0.05) / math.hypot(1 / math.sqrt(3), 1.6)
    qvs = ["390.0 ± 0.6", "390.6 ± 1.6", f"{apart:.1f}", "agrees"]
    assert sheet.rows[1] == [*start, "QVS", *qvs]
    assert sheet.rows[3][-1] == "differs"  # 400.0 beside 422.7 ± 0.8
    summary = tables.summary_of(spec, records)
    verdicts = [row[-1] for row in sheet.rows]
    assert summary.startswith(f"{verdicts.count('agrees')} of 8 cells are within three")


def test_quick_is_said_everywhere(tmp_path):
    spec, records = ablation(quick=True)
    page = tables.page_of(spec, records)
    assert page.startswith("# Population size (quick)")
    assert tables.QUICK_NOTE in page
    assert page.count("holds (quick): ") == 2
    assert "agrees" not in page
    assert "differs" not in page
    assert all(row[-1] == "quick" for row in tables.sheet_of(spec, records).rows)
    assert tables.rich_table(tables.sheet_of(spec, records)).title == (
        "Population size (quick)"
    )
    figure = figures.draw(spec, records)
    assert figure.get_suptitle() == "Population size (quick)"
    paths = write_figures("population-size", spec, records, tmp_path)
    names = ["population-size_quick.pdf", "population-size_quick.png"]
    assert [path.name for path in paths] == names
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_wide_table_marks_what_differs():
    spec, records = ablation()
    first, second, *_ = tables.wide_table(spec, records).rows
    assert first[-1] == "390.0 ± 0.6<br>390.6 ± 1.6<br>0.3"
    assert second[-1].startswith("**400.0 ± 0.6**<br>422.7 ± 0.8<br>")


def test_one_seed_is_not_judged():
    spec, records = ablation(num_seeds=1)
    first, *_ = tables.wide_table(spec, records).rows
    # 390 / 390.6 is 1 - 0.0015.
    assert first[-1] == "390.0<br>390.6 ± 1.6<br>-0.2%"
    row = tables.sheet_of(spec, records).rows[1]
    assert row[-2:] == ["-0.2%", "one seed"]
    summary = tables.summary_of(spec, records)
    assert summary.startswith("8 cells come from one seed and cannot be judged so; ")
    assert tables.notes_of(spec, records) == [
        "Fewer seeds than the paper's: 1 of 3 in every case."
    ]


def test_fewer_seeds_and_missing_cases_are_said():
    spec, records = ablation(num_seeds=2)
    del records["ic_squad_published_population_size=512"]
    fewer, missing = tables.notes_of(spec, records)
    assert fewer == "Fewer seeds than the paper's: 2 of 3 in every case."
    assert missing == "Not run: N = 512 on ic."


def test_wallclock_has_seconds_beside_minutes(found):
    spec = REPRODUCTIONS["wallclock"]
    sheet = tables.sheet_of(spec, found)
    assert sheet.heads[1:] == [
        "lp-easy",
        "lp-medium",
        "lp-hard",
        "ic",
        "lsi",
        "lsi-hard",
    ]
    seconds = found["ic_squad_published_published"]["seconds"]
    row = next(row for row in sheet.rows if row[0] == "SQUAD")
    assert row[4] == f"{seconds:.1f} s for 10; 190 min"
    assert row[5] == "not run; 732 min"


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_every_name_has_its_claims_and_figure(name):
    spec = REPRODUCTIONS[name]
    assert set(spec.claims) <= set(claims.CLAIMS)
    assert spec.figure in ("", *figures.FIGURES)
    assert tables.claims_of(spec, {}) == [
        claim for key in spec.claims for claim in claims.CLAIMS[key]({})
    ]
    assert all(c.holds is None for c in tables.claims_of(spec, {}))
