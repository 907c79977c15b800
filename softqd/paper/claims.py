"""What the paper's text says of its results, tested on records.

Every function takes the records of a reproduction, by preset, algorithm and variant,
and returns what was claimed, whether it holds there, and what was found. Section
numbers are of the Soft QD paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from softqd.experiment.words import NAMES
from softqd.metrics import ALPHA, Verdict, against_best, seeds_needed
from softqd.paper.agreement import MAX_ERRORS, mean_of
from softqd.paper.cases import LP_ROWS, LSI_ROWS, METHODS
from softqd.paper.record import Record

Records = Mapping[tuple[str, str, str], Record]
SCORES = ("qd_score", "qvs")
# The methods that use gradients of behaviors.
_EXPLORING = ("SQUAD", "CMA-MAEGA", "CMA-MEGA")
# Of the largest: what "largely insensitive" is taken to allow. The paper's own tables
# vary by up to 0.07.
INSENSITIVE = 0.1


class Claim(NamedTuple):
    """A sentence of the paper and what our runs say to it."""

    text: str
    holds: bool | None  # None: these runs cannot tell
    found: str

    @property
    def verdict(self) -> str:
        """In plain words."""
        if self.holds is None:
            return "cannot be told"
        return "holds" if self.holds else "does not hold"


def lp_significance(records: Records) -> list[Claim]:
    """Which differences to the best are not significant (section 5.1)."""
    tests = {
        (preset, metric): (samples, against_best(samples))
        for preset in LP_ROWS
        for metric in SCORES
        if len(samples := _published(records, preset, metric)) > 1
    }
    is_enough = len(tests) == len(LP_ROWS) * len(SCORES) and all(
        min(map(len, samples.values())) >= seeds_needed(len(samples))
        for samples, _ in tests.values()
    )
    kruskal = max((found.kruskal_p for _, found in tests.values()), default=np.nan)
    found = [
        Claim(
            "Kruskal-Wallis tests find differences on every task, in QD score and QVS "
            "(p < 0.001)",
            kruskal < 0.001,
            f"largest p {kruskal:.1e}",
        ),
        *_exceptions({key: verdict for key, (_, verdict) in tests.items()}),
    ]
    if is_enough:
        return found
    why = "too few seeds, or not all of it was run"
    return [claim._replace(holds=None, found=why) for claim in found]


def _exceptions(verdicts: Mapping[tuple[str, str], Verdict]) -> list[Claim]:
    pairs = {
        (preset, metric, found.best, other): p
        for (preset, metric), found in verdicts.items()
        for other, p in found.p_values.items()
    }
    alike = {pair: p for pair, p in pairs.items() if p >= ALPHA}
    expected = {("lp-medium", "qd_score"), ("lp-hard", "qd_score")}
    is_expected = {pair[:2] for pair in alike} == expected
    is_expected &= all("CMA-MAEGA" in pair for pair in alike)
    unsure = {pair: p for pair, p in pairs.items() if 0.001 <= p < ALPHA}
    return [
        Claim(
            "all differences to the best are significant, except that CMA-MAEGA cannot "
            "be told from the best in QD score on lp-medium and lp-hard",
            is_expected,
            f"not significant at {ALPHA}: {_pairs(alike)}",
        ),
        Claim(
            "the significant ones have p < 0.001",
            not unsure,
            f"others: {_pairs(unsure)}",
        ),
    ]


def _pairs(found: Mapping[tuple[str, ...], float]) -> str:
    texts = [
        f"{preset}, {NAMES[metric]}: {other} beside {best} (p = {p:.2g})"
        for (preset, metric, best, other), p in found.items()
    ]
    return "; ".join(texts) or "none"


def lp_hard_is_squads(records: Records) -> list[Claim]:
    """SQUAD against CMA-MEGA and CMA-MAEGA where it is harder (section 5.1)."""
    found = _leaders(records, ("lp-medium", "lp-hard"), SCORES, _EXPLORING)
    return [
        _led(
            "SQUAD outperforms CMA-MEGA and CMA-MAEGA on lp-medium and lp-hard",
            found,
            dict.fromkeys(found, "SQUAD"),
        )
    ]


def spread(records: Records) -> list[Claim]:
    """SQUAD varies least over seeds (section 5.1)."""
    start = "SQUAD's standard deviation over seeds is the smallest on every task"
    return [
        _least_spread(start, records, METHODS.values()),
        _least_spread(
            f"{start}, among those that use gradients of behaviors", records, _EXPLORING
        ),
    ]


def _least_spread(text: str, records: Records, names: Iterable[str]) -> Claim:
    texts, is_smallest = [], []
    for preset in LP_ROWS:
        for metric in SCORES:
            samples = _published(records, preset, metric)
            spreads = {
                name: np.std(samples[name], ddof=1)
                for name in names
                if len(samples.get(name, ())) > 1
            }
            if len(spreads) < 2 or "SQUAD" not in spreads:
                continue
            below = [n for n, s in spreads.items() if s < spreads["SQUAD"]]
            is_smallest.append(not below)
            if below:
                texts.append(f"{preset}, {NAMES[metric]}: smaller {', '.join(below)}")
    if not is_smallest:
        return Claim(text, None, "not enough was run")
    return Claim(text, all(is_smallest), "; ".join(texts) or "as claimed")


def ic_leads(records: Records) -> list[Claim]:
    """Who leads on Image Composition (section 5.2)."""
    metrics = ("mean_quality", "max_quality", "vendi_score", *SCORES, "coverage")
    found = _leaders(records, ("ic",), metrics)
    expected = dict.fromkeys(found, "SQUAD")
    if ("ic", "coverage") in expected:
        expected["ic", "coverage"] = "CMA-MAEGA"
    text = "SQUAD leads on all metrics but coverage, where CMA-MAEGA is ahead"
    return [_led(text, found, expected)]


def ic_200_iterations(records: Records) -> list[Claim]:
    """SQUAD passes all baselines within 200 iterations (appendix on run time)."""
    squad = records.get(("ic", "squad_published", "published"))
    text = "SQUAD passes the final value of every baseline within 200 iterations"
    if squad is None or not set(SCORES) <= set(squad["history"]):
        return [Claim(text, None, "SQUAD's curve was not recorded")]
    passed = {}
    for metric in SCORES:
        samples = _published(records, "ic", metric)
        means = {name: float(np.mean(values)) for name, values in samples.items()}
        finals = [mean for name, mean in means.items() if name != "SQUAD"]
        if not finals:
            return [Claim(text, None, "no baseline was run")]
        passed[metric] = passing_iteration(squad["history"], metric, max(finals))
    texts = [
        f"{NAMES[metric]}: " + ("never" if at is None else f"by iteration {at}")
        for metric, at in passed.items()
    ]
    holds = all(at is not None and at <= 200 for at in passed.values())
    return [Claim(text, holds, "; ".join(texts))]


def passing_iteration(
    history: Mapping[str, Sequence], metric: str, level: float
) -> int | None:
    """The first log point at which the mean over seeds is above a level.

    Examples:
        >>> history = {"iteration": [[0, 40], [0, 40]], "qvs": [[1.0, 4.0], [1.0, 8.0]]}
        >>> passing_iteration(history, "qvs", 5.0), passing_iteration(history, "qvs", 6)
        (40, None)
    """
    curve = np.asarray(history[metric], float).mean(0)
    above = np.flatnonzero(curve > level)
    return int(history["iteration"][0][above[0]]) if len(above) else None


def tradeoff(records: Records) -> list[Claim]:
    """A larger gamma_sq trades quality for diversity (section 5.2)."""
    rows = _by_setting(records, "gamma_sq")
    claims = []
    for metric, sign, text in (
        ("vendi_score", 1, "a larger gamma_sq gives more diversity (Vendi score)"),
        ("mean_quality", -1, "a larger gamma_sq costs quality (mean quality)"),
    ):
        claims.append(_monotone(text, rows, metric, sign))
    return claims


def larger_is_better(records: Records) -> list[Claim]:
    """Larger populations perform better (appendix on population size)."""
    rows = _by_setting(records, "population_size")
    return [
        _monotone(f"a larger population has the higher {NAMES[metric]}", rows, metric)
        for metric in SCORES
    ]


def robust(records: Records) -> list[Claim]:
    """Batch size and number of neighbors hardly matter (appendix on both)."""
    kept = [
        record
        for record in records.values()
        if record["config"]["algorithm"]["num_neighbors"] != 0
    ]
    texts, is_small = [], []
    for metric in SCORES:
        means = [_mean(record, metric) for record in kept]
        share = (max(means) - min(means)) / max(means) if means else 1.0
        texts.append(f"{NAMES[metric]} varies by {share:.1%} of the largest")
        is_small.append(share < INSENSITIVE)
    text = (
        "performance is largely insensitive to it, taken as less than a tenth (without "
        "any neighbor does not count)"
    )
    holds = all(is_small) if len(kept) > 1 else None
    if holds is False and any(len(r["metrics"][m]) == 1 for r in kept for m in SCORES):
        holds = None
        texts.append("one seed, whose spread counts too")
    return [Claim(text, holds, "; ".join(texts))]


def neighbors_needed(records: Records) -> list[Claim]:
    """Without neighbors the population collapses (appendix on neighbors)."""
    rows = _by_setting(records, "num_neighbors")
    text = "without neighbors (k = 0) both scores are far worse"
    if len(rows) < 2 or rows[0][0] != 0:
        return [Claim(text, None, "not all of it was run")]
    texts, is_worse = [], []
    for metric in SCORES:
        none, *others = (_mean(record, metric) for _, record in rows)
        texts.append(f"{NAMES[metric]}: {none:.4g} against {min(others):.4g} or more")
        is_worse.append(none < min(others))
    return [Claim(text, all(is_worse), "; ".join(texts))]


def logit_critical(records: Records) -> list[Claim]:
    """The logit transform is needed (appendix on the transform), and what of that."""
    logit = records.get(("ic", "squad_published", "published"))
    units = {
        record["config"]["algorithm"]["gamma_sq"]: record
        for record in records.values()
        if record["config"]["algorithm"]["transform"] == "identity"
    }
    fitting = [record for gamma_sq, record in units.items() if gamma_sq != 1.0]
    return [
        _ahead(
            "without the logit transform, at the same gamma_sq, both scores are worse",
            logit,
            [units[1.0]] if 1.0 in units else [],
        ),
        _ahead(
            "beyond the paper: they are worse also where gamma_sq fits the unit cube",
            logit,
            fitting,
        ),
    ]


def lsi_leads(records: Records) -> list[Claim]:
    """SQUAD leads on both tasks (section 5.3)."""
    found = _leaders(records, LSI_ROWS, SCORES)
    text = "SQUAD outperforms the baselines on both tasks, in QD score and QVS"
    return [_led(text, found, dict.fromkeys(found, "SQUAD"))]


def lp_under_a_minute(records: Records) -> list[Claim]:
    """SQUAD's run time on Linear Projection (appendix on run time)."""
    runs = [records.get((preset, "squad_published", "published")) for preset in LP_ROWS]
    seconds = [record["seconds"] for record in runs if record is not None]
    text = "SQUAD takes less than a minute on every Linear Projection task"
    if not seconds:
        return [Claim(text, None, "not run")]
    found = f"at most {max(seconds):.1f} s for all seeds together"
    return [Claim(text, max(seconds) < 60, found)]


def _published(records: Records, preset: str, metric: str) -> dict[str, list[float]]:
    """Methods to one number per seed."""
    samples = {}
    for algorithm, name in METHODS.items():
        record = records.get((preset, algorithm, "published"))
        values = (
            [v for v in record["metrics"][metric] if v is not None] if record else []
        )
        if values:
            samples[name] = values
    return samples


def _leaders(
    records: Records,
    presets: Iterable[str],
    metrics: Iterable[str],
    among: Iterable[str] = tuple(METHODS.values()),
) -> dict[tuple[str, str], str]:
    """Where at least SQUAD and one other ran: the method with the highest mean."""
    found = {}
    for preset in presets:
        for metric in metrics:
            samples = _published(records, preset, metric)
            samples = {name: samples[name] for name in among if name in samples}
            if "SQUAD" in samples and len(samples) > 1:
                found[preset, metric] = max(samples, key=lambda n: np.mean(samples[n]))
    return found


def _led(text: str, found: Mapping, expected: Mapping) -> Claim:
    others = [
        f"{preset}, {NAMES[metric]}: {name} is ahead"
        for (preset, metric), name in found.items()
        if name != expected[preset, metric]
    ]
    nothing = "as claimed" if found else "not enough was run"
    return Claim(text, not others if found else None, "; ".join(others) or nothing)


def _by_setting(records: Records, setting: str) -> list[tuple[float, Record]]:
    rows = [(r["config"]["algorithm"][setting], r) for r in records.values()]
    return sorted(rows, key=lambda row: row[0])


def _monotone(text: str, rows: Sequence, metric: str, sign: int = 1) -> Claim:
    means = [_mean(record, metric) for _, record in rows]
    if len(means) < 2:
        return Claim(text, None, "not enough was run")
    found = [f"{means[0]:.4g} at {rows[0][0]:g}, {means[-1]:.4g} at {rows[-1][0]:g}"]
    holds = True
    for (low, first), (high, second) in pairwise(rows):
        a, b = (mean_of(record["metrics"][metric]) for record in (first, second))
        if sign * (b.value - a.value) > 0:
            continue
        step = f"from {low:g} to {high:g}"
        error = math.hypot(a.error, b.error)
        if math.isnan(error):
            holds = None if holds else holds
            found.append(f"not in the one seed {step}")
        elif abs(b.value - a.value) <= MAX_ERRORS * error:
            found.append(f"within the errors not {step}")
        else:
            holds = False
            found.append(f"not {step}")
    return Claim(text, holds, "; ".join(found))


def _ahead(text: str, first: Record | None, others: Sequence[Record]) -> Claim:
    if first is None or not others:
        return Claim(text, None, "not all of it was run")
    texts, is_ahead = [], []
    for metric in SCORES:
        ours, best = _mean(first, metric), max(_mean(r, metric) for r in others)
        texts.append(f"{NAMES[metric]}: {best:.4g} against {ours:.4g}")
        is_ahead.append(ours > best)
    return Claim(text, all(is_ahead), "; ".join(texts))


def _mean(record: Record, metric: str) -> float:
    return mean_of(record["metrics"][metric]).value


CLAIMS: dict[str, Callable[[Records], list[Claim]]] = {
    function.__name__: function
    for function in (
        lp_significance,
        lp_hard_is_squads,
        spread,
        ic_leads,
        ic_200_iterations,
        tradeoff,
        larger_is_better,
        robust,
        neighbors_needed,
        logit_critical,
        lsi_leads,
        lp_under_a_minute,
    )
}
