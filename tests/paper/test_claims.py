import numpy as np
import pytest

from softqd.paper import claims
from softqd.paper.cases import METHODS


def entry(
    algorithm="squad_published", history=None, seconds=1.0, settings=None, **metrics
):
    """A record with what claims look at."""
    config = {"algorithm": {"name": algorithm, **(settings or {})}}
    blank = {"history": history or {}, "seconds": seconds, "config": config}
    return {**blank, "metrics": metrics}


def around(center, num=10, width=1.0):
    """Numbers with that mean, evenly spread."""
    return list(center + width * (np.arange(num) - (num - 1) / 2) / num)


def lp_records(scores, num=10, width=1.0):
    """LP records with the given centers, 'default' where nothing is given."""
    records = {}
    for preset in ("lp-easy", "lp-medium", "lp-hard"):
        for place, name in enumerate(METHODS):
            both = {
                metric: around(
                    scores.get((preset, name, metric), 100.0 - 10 * place), num, width
                )
                for metric in claims.SCORES
            }
            records[preset, name, "published"] = entry(name, **both)
    return records


def verdicts(found):
    return [claim.verdict for claim in found]


PAPERS = {
    ("lp-medium", "cma_maega", "qd_score"): 99.99,
    ("lp-hard", "cma_maega", "qd_score"): 99.98,
}


def test_significance_as_the_paper_says():
    found = claims.lp_significance(lp_records(PAPERS))
    assert verdicts(found) == ["holds"] * 3
    assert "lp-hard, QD score: CMA-MAEGA beside SQUAD" in found[1].found
    assert found[2].found == "others: none"


@pytest.mark.parametrize(
    # Exact Mann-Whitney tests of 10 against 10 with U = 6 and U = 15.
    ("center", "p"),
    [(99.35, "3.2e-04"), (99.55, "0.0068")],
)
def test_significant_but_not_at_the_papers_level(center, p):
    records = lp_records(PAPERS)
    records["lp-easy", "cma_maega", "published"]["metrics"]["qvs"] = around(center)
    *_, found = claims.lp_significance(records)
    assert found.holds == (float(p) < 0.001)
    if not found.holds:
        text = f"others: lp-easy, QVS: CMA-MAEGA beside SQUAD (p = {p})"
        assert found.found == text


@pytest.mark.parametrize(
    "scores",
    [
        {},
        {("lp-medium", "cma_maega", "qd_score"): 99.99},
        PAPERS | {("lp-easy", "cma_mega", "qvs"): 99.99},
        PAPERS | {("lp-medium", "cma_mega", "qd_score"): 99.99},
    ],
)
def test_other_exceptions_than_the_papers(scores):
    assert verdicts(claims.lp_significance(lp_records(scores)))[1] == "does not hold"


def test_few_seeds_cannot_tell():
    found = claims.lp_significance(lp_records(PAPERS, num=3))
    assert verdicts(found) == ["cannot be told"] * 3
    assert verdicts(claims.lp_significance({})) == ["cannot be told"] * 3


def test_spread_is_the_standard_deviation():
    records = lp_records({}, width=2.0)
    for preset in ("lp-easy", "lp-medium", "lp-hard"):
        narrow = {metric: around(100.0) for metric in claims.SCORES}
        records[preset, "squad_published", "published"] = entry(**narrow)
    assert verdicts(claims.spread(records)) == ["holds", "holds"]
    still = {metric: around(1.0, width=0.1) for metric in claims.SCORES}
    records["lp-hard", "dns", "published"] = entry("dns", **still)
    first, second = claims.spread(records)
    assert (first.holds, second.holds) == (False, True)
    assert first.found.startswith("lp-hard, QD score: smaller DNS")


def test_who_leads():
    ahead = lp_records({("lp-easy", "cma_mega", "qvs"): 200.0})
    assert verdicts(claims.lp_hard_is_squads(ahead)) == ["holds"]
    behind = lp_records({("lp-hard", "cma_mega", "qvs"): 200.0})
    (found,) = claims.lp_hard_is_squads(behind)
    assert not found.holds
    assert found.found == "lp-hard, QVS: CMA-MEGA is ahead"
    assert claims.lp_hard_is_squads({})[0].holds is None
    other = lp_records({("lp-hard", "dns", "qvs"): 200.0})  # not spoken of
    assert claims.lp_hard_is_squads(other)[0].holds


def ic_records(curve, final=5.0):
    history = {"iteration": [[0, 160, 200, 240]] * 2}
    history |= {metric: [curve, curve] for metric in claims.SCORES}
    squad = entry(history=history, qd_score=[9.0, 9.0], qvs=[9.0, 9.0])
    other = entry("dns", qd_score=[final, final], qvs=[final, final])
    keys = [("ic", name, "published") for name in ("squad_published", "dns")]
    return dict(zip(keys, (squad, other), strict=True))


@pytest.mark.parametrize(
    ("curve", "verdict", "text"),
    [
        ([1.0, 4.0, 5.1, 9.0], "holds", "by iteration 200"),
        ([1.0, 4.0, 5.0, 9.0], "does not hold", "by iteration 240"),
        ([1.0, 4.0, 4.0, 4.0], "does not hold", "never"),
    ],
)
def test_passing_within_200_iterations(curve, verdict, text):
    (found,) = claims.ic_200_iterations(ic_records(curve))
    assert found.verdict == verdict
    assert found.found == f"QD score: {text}; QVS: {text}"


def test_without_a_curve_nothing_is_said_of_iterations():
    records = ic_records([0.0])
    records["ic", "squad_published", "published"]["history"] = {}
    assert claims.ic_200_iterations(records)[0].holds is None


def by_setting(name, table):
    """Records by a setting: value to the metrics' mean."""
    return {
        ("ic", "squad_published", str(value)): entry(
            settings={"num_neighbors": 15, name: value},
            **{metric: [mean, mean] for metric, mean in means.items()},
        )
        for value, means in table.items()
    }


def test_tradeoff_is_monotone_in_both():
    table = {
        g: {"vendi_score": v, "mean_quality": q}
        for g, v, q in ((10.0, 3, 80), (0.1, 1, 90), (1.0, 2, 91))
    }
    more, worse = claims.tradeoff(by_setting("gamma_sq", table))
    assert more.holds
    assert more.found == "1 at 0.1, 3 at 10"
    assert not worse.holds
    assert "not from 0.1 to 1" in worse.found


def test_what_is_within_the_errors_is_not_held_against_a_trend():
    def found(low, high):
        records = {
            ("ic", "squad_published", str(size)): entry(
                settings={"population_size": size}, qd_score=values, qvs=values
            )
            for size, values in ((128, low), (256, high))
        }
        return claims.larger_is_better(records)[0]

    # Means 5 and 4; errors of the difference 1.41, then 0.14.
    assert found([4.0, 6.0], [3.0, 5.0]).holds
    assert "within the errors not from 128 to 256" in found([4, 6], [3, 5]).found
    assert found([4.9, 5.1], [3.9, 4.1]).holds is False
    # One seed says what it found, and cannot tell.
    assert found([5.0], [4.0]).holds is None
    assert "not in the one seed from 128 to 256" in found([5.0], [4.0]).found
    assert found([4.0], [5.0]).holds


def test_larger_populations():
    table = {n: {"qd_score": n, "qvs": 300 - n} for n in (128, 256)}
    found = claims.larger_is_better(by_setting("population_size", table))
    assert [claim.holds for claim in found] == [True, False]


def test_robust_is_a_tenth_and_leaves_no_neighbors_out():
    table = {0: {"qd_score": 1, "qvs": 1}, 3: {"qd_score": 91, "qvs": 100}}
    table[7] = {"qd_score": 100, "qvs": 100}
    records = by_setting("num_neighbors", table)
    (found,) = claims.robust(records)
    assert found.holds
    assert "QD score varies by 9.0%" in found.found
    assert claims.neighbors_needed(records)[0].holds
    records["ic", "squad_published", "3"]["metrics"]["qvs"] = [80, 80]
    assert claims.robust(records)[0].holds is False
    records["ic", "squad_published", "3"]["metrics"]["qvs"] = [80]
    assert claims.robust(records)[0].holds is None


def test_transform_at_the_same_and_at_a_fitting_bandwidth():
    def unit(gamma_sq, score):
        settings = {"transform": "identity", "gamma_sq": gamma_sq}
        return entry(settings=settings, qd_score=[score], qvs=[score])

    logit = entry(
        settings={"transform": "logit", "gamma_sq": 1.0}, qd_score=[5.0], qvs=[5.0]
    )
    records = {
        ("ic", "squad_published", "published"): logit,
        ("ic", "squad_published", "a"): unit(1.0, 3.0),
    }
    records["ic", "squad_published", "b"] = unit(0.1, 6.0)
    same, fitting = claims.logit_critical(records)
    assert (same.holds, fitting.holds) == (True, False)
    assert fitting.found == "QD score: 6 against 5; QVS: 6 against 5"


def test_seconds():
    records = {("lp-easy", "squad_published", "published"): entry(seconds=61.0)}
    assert not claims.lp_under_a_minute(records)[0].holds
