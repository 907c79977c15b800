"""What metrics, columns and behaviors are called in tables, pages and figures."""

from __future__ import annotations

from softqd.types import Problem

NAMES = {
    "mean_quality": "mean quality",
    "max_quality": "best quality",
    "vendi_score": "Vendi score",
    "qvs": "QVS",
    "qd_score": "QD score",
    "coverage": "coverage",
    "soft_qd_score": "Soft QD Score",
    "gradient_evaluations": "gradients",
    "vector_jacobian_products": "vector-Jacobian products",
}
UNITS = {
    "coverage": "share of cells",
    "seconds": "s",
    "vendi_score": "effective solutions",
}
# Marks in tables of a comparison.
BEST, NOT_WORSE = "*", "="
LEGEND = (
    f"{BEST} best mean, {NOT_WORSE} not significantly worse (Mann-Whitney U against "
    "the best, Holm-corrected, p >= 0.05); ± standard error over seeds; p of all: "
    "Kruskal-Wallis"
)


def label_of(name: str) -> str:
    """What a column or metric is called, with its unit.

    Examples:
        >>> label_of("coverage"), label_of("clipped_behaviors")
        ('coverage (share of cells)', 'clipped behaviors')
    """
    label = NAMES.get(name, name.replace("_", " "))
    return f"{label} ({UNITS[name]})" if name in UNITS else label


def behavior_names(problem: Problem | None, dim: int) -> tuple[str, ...]:
    """The problem's names of its behaviors, or numbers from 1."""
    names = None if problem is None else problem.behavior_names
    return names or tuple(f"behavior {i + 1}" for i in range(dim))
