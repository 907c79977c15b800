"""What can be reproduced: tables and figures of the Soft QD paper, as data.

A `Reproduction` lists its cases; a case is one configuration, its seeds and the cells
of the paper's tables it belongs to. Seeds are those of the published runs: 2001 to 2010
(Linear Projection, Image Composition), 2001 to 2005 (Latent Space Illumination), 8001
to 8003 and 6001 to 6003 (ablations). The trade-off figure prints neither values nor
seeds; those here are ours, over its range.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from softqd.experiment.record import record_name
from softqd.registry import lookup

# What the paper calls the algorithms, in the order of its tables.
METHODS = {
    "squad": "SQUAD",
    "cma_maega": "CMA-MAEGA",
    "cma_mega": "CMA-MEGA",
    "dns": "DNS",
    "dns_g": "DNS-G",
    "sep_cma_mae": "Sep-CMA-MAE",
    "ga_me": "GA-ME",
}
# Row groups of the paper's two tables of additional statistics.
LP_ROWS = {
    "lp-easy": "easy ($d=4$)",
    "lp-medium": "medium ($d=8$)",
    "lp-hard": "hard ($d=16$)",
}
LSI_ROWS = {"lsi": "LSI", "lsi-hard": "LSI (hard)"}
GAMMAS = (0.001, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 50.0)


class Cell(NamedTuple):
    """A cell of the paper's tables, as ``[mean, standard error]``."""

    path: tuple[str, ...]
    digits: int = 2  # that the paper prints
    factor: float = 1.0  # from our unit to the paper's


class Case(NamedTuple):
    """One configuration, run over several seeds."""

    label: str
    preset: str
    algorithm: str = "squad"
    variant: str = "published"
    settings: tuple[str, ...] = ()  # name=value, over the preset's
    seeds: tuple[int, ...] = tuple(range(2001, 2011))
    paper: Mapping[str, Cell] = {}  # metric to where the paper prints it
    curves: bool = False  # follow QD score and QVS over the run

    def name(self, quick: bool = False) -> str:
        """The name of its record."""
        return record_name(self.preset, self.algorithm, self.variant, quick)


class Reproduction(NamedTuple):
    """A table or figure of the paper, or what belongs beside one.

    Attributes:
        title: Its heading.
        about: What of the paper this is, and what is ours.
        cases: What is run.
        metrics: What the table shows; none for the table of run times.
        claims: Names in `softqd.report.claims`: what the paper's text says of it.
        figure: Name in `softqd.report.paper_plots`, or empty.
        setting: What differs between the cases, for figures against it.
        pictures: Whether to draw solutions of the first seed's run.
    """

    title: str
    about: str
    cases: tuple[Case, ...]
    metrics: tuple[str, ...]
    claims: tuple[str, ...] = ()
    figure: str = ""
    setting: str = ""
    pictures: bool = False


_PRINTED = ("mean_quality", "max_quality", "vendi_score", "coverage")
_SCORES = ("qd_score", "qvs")
_ALL = (*_PRINTED, *_SCORES)
_EIGHT, _SIX = (8001, 8002, 8003), (6001, 6002, 6003)


def _statistics(*path: str, coverage_digits: int) -> dict[str, Cell]:
    """Quality, Vendi score and coverage in a row of the paper's tables."""
    names = {"mean_quality": "mean_objective", "max_quality": "max_objective"}
    names |= {"vendi_score": "vendi_score"}
    cells = {ours: Cell((*path, theirs)) for ours, theirs in names.items()}
    coverage = Cell((*path, "coverage_percent"), coverage_digits, 100.0)
    return {**cells, "coverage": coverage}


def _scores(table: str, row: str, prefix: str = "", qd_digits: int = 2):
    """QD score in thousands, and QVS, in a row of the paper's tables."""
    return {
        "qd_score": Cell((table, row, f"{prefix}qd_score_e3"), qd_digits, 1e-3),
        "qvs": Cell((table, row, f"{prefix}qvs"), 1),
    }


def _lp_cells(preset: str, algorithm: str) -> dict[str, Cell]:
    row = (LP_ROWS[preset], METHODS[algorithm])
    return _statistics("tab:app_lp_stats (LP)", *row, coverage_digits=1)


def _ic_cells(algorithm: str) -> dict[str, Cell]:
    row, more = METHODS[algorithm], "tab:app_ic_stats (IC)"
    return {
        **_statistics("tab:ic_results (Table 1, IC)", row, coverage_digits=2),
        "qd_score": Cell((more, row, "qd_score"), 1),
        "qvs": Cell((more, row, "qvs")),
    }


def _lsi_cells(preset: str, algorithm: str) -> dict[str, Cell]:
    row, more = METHODS[algorithm], "tab:app_lsi_stats (LSI)"
    table, prefix = "tab:lsi_results (Table 2, LSI)", preset.replace("-", "_") + "_"
    return {
        **_statistics(more, LSI_ROWS[preset], row, coverage_digits=1),
        **_scores(table, row, prefix),
    }


def _lp(preset: str, algorithm: str) -> Case:
    cells = _lp_cells(preset, algorithm)
    return Case(METHODS[algorithm], preset, algorithm, paper=cells)


def _ic(algorithm: str) -> Case:
    label, curves = METHODS[algorithm], algorithm == "squad"
    return Case(label, "ic", algorithm, paper=_ic_cells(algorithm), curves=curves)


# The published settings, spelled out where they are a row of several tables.
_BASE = "batch_size=64,num_neighbors=15,gamma_sq=1"


def _ablation(
    label: str, settings: str, paper: Mapping[str, Cell], seeds: tuple[int, ...]
) -> Case:
    """Image Composition with settings ``a=1,b=2``."""
    variant = "ablation" if settings == _BASE else settings
    parts = tuple(settings.split(","))
    return Case(label, "ic", "squad", variant, parts, seeds, paper)


def _batch(size: int) -> Case:
    cells = _scores("tab:bsz_ablation (batch size, IC)", f"SQUAD (M={size})")
    settings = f"batch_size={size}" if size != 64 else _BASE
    return _ablation(f"M = {size}", settings, cells, _EIGHT)


def _neighbors(k: int) -> Case:
    """The paper's k counts the solution itself, which repels nothing."""
    cells = _scores("tab:nn_ablation (neighbors, IC)", f"SQUAD (k={k})")
    others = max(0, k - 1)
    settings = f"num_neighbors={others}" if k != 16 else _BASE
    return _ablation(f"k = {k} ({others} others)", settings, cells, _EIGHT)


def _population(size: int) -> Case:
    table = "tab:popsize_ablation (population size, IC)"
    cells = _scores(table, f"SQUAD (N={size})")
    return _ablation(f"N = {size}", f"population_size={size}", cells, _SIX)


def _gamma(gamma_sq: float) -> Case:
    settings = f"gamma_sq={gamma_sq:g}" if gamma_sq != 1.0 else _BASE
    return _ablation(f"gamma_sq = {gamma_sq:g}", settings, {}, _EIGHT)


def _transforms() -> tuple[Case, ...]:
    table = "tab:01desc_ablation (behavior transform, IC)"
    without = _scores(table, "SQUAD (w/o behavior space transformation)")
    logit = _ic("squad")._replace(label="logit", paper=_scores(table, "SQUAD"))
    # Equal widths at the center of the space: there the logit's slope is 4, the
    # probit's sqrt(2 pi), so that gamma_sq = 1 becomes 1 / 16 and 2 pi / 16.
    return (
        logit,
        _ablation("[0, 1], gamma_sq 1", "transform=identity", without, _EIGHT),
        *(
            _ablation(
                f"{label}, gamma_sq {gamma_sq}",
                f"transform={name},gamma_sq={gamma_sq}",
                {},
                _EIGHT,
            )
            for label, name, gamma_sq in (
                ("[0, 1]", "identity", 0.0625),
                ("[0, 1]", "identity", 0.01),
                ("probit", "probit", 0.3927),
            )
        ),
    )


def _papers() -> tuple[Case, ...]:
    """Each published form of a baseline, then that of its own paper."""
    branching = ("signed_quality=false", "pyribs_quirks=false")
    settings: dict[str, tuple[str, ...]] = {
        "cma_maega": branching,
        "cma_mega": branching,
        "sep_cma_mae": branching[1:],
    }
    cases = []
    for preset in LP_ROWS:
        for algorithm, changed in settings.items():
            published = _lp(preset, algorithm)._replace(paper={})
            label = f"{published.label}, its paper's form"
            form = published._replace(label=label, variant="papers", settings=changed)
            cases += [published, form]
    return tuple(cases)


def _protected() -> tuple[Case, ...]:
    settings = ("protect_quality=true", "repulsion_weight=1")
    cases = []
    for preset in LP_ROWS:
        published = _lp(preset, "squad")._replace(label="published", paper={})
        cases += [
            published,
            published._replace(
                label="protected", variant="protected", settings=settings
            ),
        ]
        if preset == "lp-medium":
            wide = (*settings, "gamma_sq=1")
            cases.append(
                published._replace(
                    label="protected, gamma_sq 1",
                    variant="protected-wide",
                    settings=wide,
                )
            )
    return tuple(cases)


_LP = tuple(_lp(preset, algorithm) for preset in LP_ROWS for algorithm in METHODS)
_IC = tuple(_ic(algorithm) for algorithm in METHODS)
_LSI = tuple(
    Case(
        METHODS[algorithm],
        preset,
        algorithm,
        seeds=tuple(range(2001, 2006)),
        paper=_lsi_cells(preset, algorithm),
    )
    for preset in LSI_ROWS
    for algorithm in METHODS
)

REPRODUCTIONS: dict[str, Reproduction] = {
    "lp": Reproduction(
        "Linear Projection",
        "The figure of QD score and QVS and the table of additional statistics: seven "
        "methods in 4, 8 and 16 behavior dimensions.",
        _LP,
        _ALL,
        ("lp_significance", "lp_hard_is_squads", "spread"),
        "score_bars",
    ),
    "lp-seeds": Reproduction(
        "Linear Projection, hard, 100 seeds",
        "SQUAD's row of the same table with ten times the seeds.",
        (
            _lp("lp-hard", "squad")._replace(
                variant="published-100-seeds", seeds=tuple(range(2001, 2101))
            ),
        ),
        _ALL,
    ),
    "ic": Reproduction(
        "Image Composition",
        "Table 1, the table of additional statistics, and SQUAD's training curves "
        "against the final values of the baselines.",
        _IC,
        _ALL,
        ("ic_leads", "ic_200_iterations"),
        "training_curves",
        pictures=True,
    ),
    "tradeoff": Reproduction(
        "Quality against diversity",
        "The figure of mean quality and Vendi score against gamma_sq, from 0.001 to "
        "50, on Image Composition. The paper prints no numbers.",
        tuple(map(_gamma, GAMMAS)),
        ("mean_quality", "vendi_score", "qvs"),
        ("tradeoff",),
        "tradeoff",
        setting="gamma_sq",
    ),
    "batch-size": Reproduction(
        "Batch size",
        "The ablation of the batch size M on Image Composition; the published runs "
        "use 64. QD scores in thousands.",
        tuple(map(_batch, (4, 8, 16, 32, 64))),
        _SCORES,
        ("robust",),
        "ablation",
        setting="batch_size",
    ),
    "neighbors": Reproduction(
        "Number of neighbors",
        "The ablation of the number of neighbors on Image Composition. The paper's k "
        "counts the solution itself. QD scores in thousands.",
        tuple(map(_neighbors, (0, 4, 8, 16, 32))),
        _SCORES,
        ("neighbors_needed", "robust"),
        "ablation",
        setting="num_neighbors",
    ),
    "transform": Reproduction(
        "Behavior transform",
        "The ablation of the logit transform on Image Composition. The paper's row "
        "without it keeps gamma_sq at 1, wider than the whole unit cube's axis. The "
        "rows below, ours, use bandwidths that fit: as wide as the logit's at the "
        "center of the space, and narrower. QD scores in thousands.",
        _transforms(),
        _SCORES,
        ("logit_critical",),
        "ablation",
        setting="transform",
    ),
    "population-size": Reproduction(
        "Population size",
        "The ablation of the population size N on Image Composition. QD scores in "
        "thousands. The paper's QD scores here are doubtful: each mean and error fits "
        "two seeds at one value and one at 0.64 of it.",
        tuple(map(_population, (128, 256, 512, 1024))),
        _SCORES,
        ("larger_is_better",),
        "ablation",
        setting="population_size",
    ),
    "lsi": Reproduction(
        "Latent Space Illumination",
        "Table 2 and the table of additional statistics. QD scores in thousands. The "
        "paper's hard rows of DNS and DNS-G are doubtful: they nearly equal the base "
        "task's.",
        _LSI,
        _ALL,
        ("lsi_leads",),
        "score_bars",
        pictures=True,
    ),
    "wallclock": Reproduction(
        "Wall-clock time",
        "The table of run times. Ours are the seconds of all seeds, which advance "
        "together, compilation not counted; the paper's the minutes of one run, on "
        "another GPU.",
        tuple(case._replace(paper={}) for case in (*_LP, *_IC)),
        (),
        ("lp_under_a_minute",),
    ),
    "papers": Reproduction(
        "The baselines in the form of their papers",
        "Published: pyribs' update of CMA-ES and a quality coefficient of either sign. "
        "Their papers' form: the library's defaults, the textbook update and a "
        "coefficient that is not negative. All else is equal.",
        _papers(),
        (*_ALL, "soft_qd_score"),
    ),
    "protected": Reproduction(
        "Repulsion that cannot lower quality",
        "In the published form the derivative through the square root of a solution's "
        "own quality can outweigh the pull and drive quality down where many neighbors "
        "overlap. `protect_quality=True` holds that quality constant inside the "
        "repulsion; with it goes the full pairwise weight, `repulsion_weight=1`.",
        _protected(),
        (*_ALL, "soft_qd_score"),
    ),
}


def find(name: str) -> Reproduction:
    """A reproduction by name.

    Raises:
        UnknownNameError: If there is none, with the nearest name.
    """
    see = "run 'softqd reproduce --list' for all names"
    return lookup("reproduction", name, REPRODUCTIONS, see)
