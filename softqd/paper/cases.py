"""Cases: one configuration, its seeds and the cells of the paper's tables it is for.

Seeds are those of the published runs: 2001 to 2010 (Linear Projection, Image
Composition), 2001 to 2005 (Latent Space Illumination), 8001 to 8003 and 6001 to 6003
(ablations). The trade-off figure prints neither values nor seeds; those here are ours,
over its range. So are the runs of our default SQUAD, which the paper does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from softqd.paper.record import record_name

# What the paper calls the algorithms, in the order of its tables.
METHODS = {
    "squad_published": "SQUAD",
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
    algorithm: str = "squad_published"
    variant: str = "published"
    settings: tuple[str, ...] = ()  # name=value, over the preset's
    seeds: tuple[int, ...] = tuple(range(2001, 2011))
    paper: Mapping[str, Cell] = {}  # metric to where the paper prints it
    curves: bool = False  # follow QD score and QVS over the run

    def name(self, quick: bool = False) -> str:
        """The name of its record."""
        return record_name(self.preset, self.algorithm, self.variant, quick)


_EIGHT, _SIX = (8001, 8002, 8003), (6001, 6002, 6003)


def _statistics(*path: str, coverage_digits: int) -> dict[str, Cell]:
    """Quality, Vendi score and coverage in a row of the paper's tables."""
    names = {"mean_quality": "mean_objective", "max_quality": "max_objective"}
    names |= {"vendi_score": "vendi_score"}
    cells = {ours: Cell((*path, theirs)) for ours, theirs in names.items()}
    coverage = Cell((*path, "coverage_percent"), coverage_digits, 100.0)
    return {**cells, "coverage": coverage}


def _scores(table: str, row: str, prefix: str = "") -> dict[str, Cell]:
    """QD score in thousands, and QVS, in a row of the paper's tables."""
    return {
        "qd_score": Cell((table, row, f"{prefix}qd_score_e3"), 2, 1e-3),
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


def lp_case(preset: str, algorithm: str) -> Case:
    """A method on Linear Projection."""
    cells = _lp_cells(preset, algorithm)
    return Case(METHODS[algorithm], preset, algorithm, paper=cells)


def ic_case(algorithm: str) -> Case:
    """A method on Image Composition."""
    label, curves = METHODS[algorithm], algorithm == "squad_published"
    return Case(label, "ic", algorithm, paper=_ic_cells(algorithm), curves=curves)


# The published settings, spelled out where they are a row of several tables.
_BASE = "batch_size=64,num_neighbors=15,gamma_sq=1"


def _ablation(
    label: str, settings: str, paper: Mapping[str, Cell], seeds: tuple[int, ...]
) -> Case:
    """Image Composition with settings ``a=1,b=2``."""
    variant = "ablation" if settings == _BASE else settings
    parts = tuple(settings.split(","))
    return Case(label, "ic", "squad_published", variant, parts, seeds, paper)


def batch_case(size: int) -> Case:
    """SQUAD on Image Composition with another batch size M."""
    cells = _scores("tab:bsz_ablation (batch size, IC)", f"SQUAD (M={size})")
    settings = f"batch_size={size}" if size != 64 else _BASE
    return _ablation(f"M = {size}", settings, cells, _EIGHT)


def neighbors_case(k: int) -> Case:
    """The paper's k counts the solution itself, which repels nothing."""
    cells = _scores("tab:nn_ablation (neighbors, IC)", f"SQUAD (k={k})")
    others = max(0, k - 1)
    settings = f"num_neighbors={others}" if k != 16 else _BASE
    return _ablation(f"k = {k} ({others} others)", settings, cells, _EIGHT)


def population_case(size: int) -> Case:
    """SQUAD on Image Composition with another population size N."""
    table = "tab:popsize_ablation (population size, IC)"
    cells = _scores(table, f"SQUAD (N={size})")
    return _ablation(f"N = {size}", f"population_size={size}", cells, _SIX)


def gamma_case(gamma_sq: float) -> Case:
    """SQUAD on Image Composition with another bandwidth."""
    settings = f"gamma_sq={gamma_sq:g}" if gamma_sq != 1.0 else _BASE
    return _ablation(f"gamma_sq = {gamma_sq:g}", settings, {}, _EIGHT)


def transform_cases() -> tuple[Case, ...]:
    """With the logit, without, and with what else may be put in its place."""
    table = "tab:01desc_ablation (behavior transform, IC)"
    without = _scores(table, "SQUAD (w/o behavior space transformation)")
    logit = ic_case("squad_published")._replace(
        label="logit", paper=_scores(table, "SQUAD")
    )
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


def papers_cases() -> tuple[Case, ...]:
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
            published = lp_case(preset, algorithm)._replace(paper={})
            label = f"{published.label}, its paper's form"
            form = published._replace(label=label, variant="papers", settings=changed)
            cases += [published, form]
    return tuple(cases)


def protected_cases() -> tuple[Case, ...]:
    """Each published form of SQUAD, then with protected quality."""
    settings = ("protect_quality=true", "repulsion_weight=1")
    cases = []
    for preset in LP_ROWS:
        published = lp_case(preset, "squad_published")._replace(
            label="published", paper={}
        )
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


OVERLAPS, _OVERLAP = (0.012, 0.04, 0.12, 0.4, 1.2), 0.12  # the default


def _default_case(preset: str, label: str, settings: tuple[str, ...] = ()) -> Case:
    """SQUAD as it is by default, with changes, for as many evaluations."""
    variant = label.replace(" ", "-") if settings else "default"
    return Case(label, preset, "squad", variant, settings)


def default_cases() -> tuple[Case, ...]:
    """On each problem the published form, and the default."""
    cases = []
    for preset in LP_ROWS:
        published = lp_case(preset, "squad_published")
        cases += [published._replace(label="published", paper={})]
        cases += [_default_case(preset, "default")]
    return tuple(cases)


def overlap_cases() -> tuple[Case, ...]:
    """The one setting of the default SQUAD over a factor of 100."""
    cases = []
    for preset in LP_ROWS:
        for overlap in OVERLAPS:
            label = f"overlap {overlap:g}"
            settings = () if overlap == _OVERLAP else (f"overlap={overlap:g}",)
            cases.append(_default_case(preset, label, settings))
    return tuple(cases)


def lsi_case(preset: str, algorithm: str) -> Case:
    """A method on Latent Space Illumination."""
    cells, seeds = _lsi_cells(preset, algorithm), tuple(range(2001, 2006))
    return Case(METHODS[algorithm], preset, algorithm, seeds=seeds, paper=cells)
