"""What metrics and columns are called in tables, pages and figures."""

from __future__ import annotations

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


def label_of(name: str) -> str:
    """What a column or metric is called, with its unit.

    Examples:
        >>> label_of("coverage"), label_of("clipped_behaviors")
        ('coverage (share of cells)', 'clipped behaviors')
    """
    label = NAMES.get(name, name.replace("_", " "))
    return f"{label} ({UNITS[name]})" if name in UNITS else label
