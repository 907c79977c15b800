"""What can be reproduced: tables and figures of the Soft QD paper, as data."""

from __future__ import annotations

from typing import NamedTuple

from softqd.ops.names import lookup
from softqd.paper.cases import (
    GAMMAS,
    LP_ROWS,
    LSI_ROWS,
    METHODS,
    Case,
    batch_case,
    default_cases,
    gamma_case,
    ic_case,
    lp_case,
    lsi_case,
    neighbors_case,
    overlap_cases,
    papers_cases,
    population_case,
    protected_cases,
    transform_cases,
)


class Reproduction(NamedTuple):
    """A table or figure of the paper, or what belongs beside one.

    Attributes:
        title: Its heading.
        about: What of the paper this is, and what is ours.
        cases: What is run.
        metrics: What the table shows; none for the table of run times.
        claims: Names in `softqd.paper.claims`: what the paper's text says of it.
        figure: Name in `softqd.paper.figures`, or empty.
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

_LP = tuple(lp_case(preset, algorithm) for preset in LP_ROWS for algorithm in METHODS)
_IC = tuple(ic_case(algorithm) for algorithm in METHODS)
_LSI = tuple(lsi_case(preset, name) for preset in LSI_ROWS for name in METHODS)

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
            lp_case("lp-hard", "squad_published")._replace(
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
        tuple(map(gamma_case, GAMMAS)),
        ("mean_quality", "vendi_score", "qvs"),
        ("tradeoff",),
        "tradeoff",
        setting="gamma_sq",
    ),
    "batch-size": Reproduction(
        "Batch size",
        "The ablation of the batch size M on Image Composition; the published runs "
        "use 64. QD scores in thousands.",
        tuple(map(batch_case, (4, 8, 16, 32, 64))),
        _SCORES,
        ("robust",),
        "ablation",
        setting="batch_size",
    ),
    "neighbors": Reproduction(
        "Number of neighbors",
        "The ablation of the number of neighbors on Image Composition. The paper's k "
        "counts the solution itself. QD scores in thousands.",
        tuple(map(neighbors_case, (0, 4, 8, 16, 32))),
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
        transform_cases(),
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
        tuple(map(population_case, (128, 256, 512, 1024))),
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
        "The table of run times. Ours are the seconds of all seeds, on Linear "
        "Projection advancing together, compilation not counted; the paper's the "
        "minutes of one run, on another GPU. On Image Composition DNS, DNS-G, GA-ME "
        "and Sep-CMA-MAE shared the card, four runs at a time: alone they are faster.",
        tuple(case._replace(paper={}) for case in (*_LP, *_IC)),
        (),
        ("lp_under_a_minute",),
    ),
    "papers": Reproduction(
        "The baselines in the form of their papers",
        "Published: pyribs' update of CMA-ES and a quality coefficient of either sign. "
        "Their papers' form: the library's defaults, the textbook update and a "
        "coefficient that is not negative. All else is equal.",
        papers_cases(),
        (*_ALL, "soft_qd_score"),
    ),
    "protected": Reproduction(
        "Repulsion that cannot lower quality",
        "In the published form the derivative through the square root of a solution's "
        "own quality can outweigh the pull and drive quality down where many neighbors "
        "overlap. `protect_quality=True` holds that quality constant inside the "
        "repulsion; with it goes the full pairwise weight, `repulsion_weight=1`.",
        protected_cases(),
        (*_ALL, "soft_qd_score"),
    ),
    "default": Reproduction(
        "SQUAD as it is by default",
        "`softqd.squad` with nothing set, the same for every problem, beside the "
        "published form, whose bandwidth was searched for on each; as many "
        "evaluations. Not in the paper.",
        default_cases(),
        (*_ALL, "soft_qd_score"),
    ),
    "overlap": Reproduction(
        "Quality against diversity, by overlap",
        "Mean quality and Vendi score of the default SQUAD against its one setting, "
        "over a factor of 100. Not in the paper.",
        overlap_cases(),
        (*_ALL, "soft_qd_score"),
        figure="tradeoff",
        setting="overlap",
    ),
}


def find(name: str) -> Reproduction:
    """A reproduction by name.

    Raises:
        UnknownNameError: If there is none, with the nearest name.
    """
    see = "run 'softqd reproduce --list' for all names"
    return lookup("reproduction", name, REPRODUCTIONS, see)
