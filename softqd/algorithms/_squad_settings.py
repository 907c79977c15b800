"""Settings of SQUAD: what they are where they are not given, and what they may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import optax

from softqd.ops.checks import check_count, is_concrete
from softqd.ops.distances import mean_nearest_dist_sq
from softqd.ops.transforms import transform_function


class Form(NamedTuple):
    """What settings are that are not given."""

    num_neighbors: int
    overlap: Any  # of the published form: None
    transform: str
    repulsion_weight: float
    protect_quality: bool


PUBLISHED = Form(15, None, "logit", 0.5, False)
SELF_TUNING = Form(8, 0.05, "identity", 1.0, True)

# The two bandwidth rules of the authors' program: from behaviors to gamma_sq.
BANDWIDTH_RULES: dict[str, Callable] = {
    "nearest": mean_nearest_dist_sq,
    "inverse_nearest": lambda z: 1.0 / jnp.maximum(mean_nearest_dist_sq(z), 1e-12),
}


class Settings(NamedTuple):
    """As `softqd.squad` describes them, all given."""

    population_size: int
    batch_size: int
    num_neighbors: int
    gamma_sq: Any
    overlap: Any
    optimizer: optax.GradientTransformation
    transform: str | Callable
    repulsion_weight: float | optax.Schedule
    protect_quality: bool
    num_points: int = 0  # where the score itself is climbed

    @property
    def others(self) -> int:
        """How many neighbors there are."""
        return min(self.num_neighbors, self.population_size - 1)

    @property
    def is_tuning(self) -> bool:
        """Whether the bandwidth sets itself."""
        return self.gamma_sq is None and self.others > 0


def form_of(gamma_sq: Any) -> Form:
    """The defaults that depend on whether the bandwidth sets itself."""
    return SELF_TUNING if gamma_sq is None else PUBLISHED


def settings_of(**given: Any) -> Settings:
    """Checked settings, with the defaults of their form in place of None.

    Raises:
        ValueError: If a setting is out of range.
    """
    form = form_of(given["gamma_sq"])._asdict()
    missing = {name: value for name, value in form.items() if given[name] is None}
    settings = Settings(**given | missing)
    check_settings(settings)
    return settings


def check_settings(settings: Settings) -> None:
    """Refuse what is out of range.

    Raises:
        ValueError: If a setting is.
    """
    n, gamma_sq, overlap = (
        settings.population_size,
        settings.gamma_sq,
        settings.overlap,
    )
    check_count("population_size", n, 2)
    check_count("batch_size", settings.batch_size, 1, n)
    check_count("num_neighbors", settings.num_neighbors, 0)
    transform_function(settings.transform)
    if gamma_sq is not None:
        _check_bandwidth(gamma_sq, n)
        if overlap is not None:
            raise ValueError(
                f"overlap sets the bandwidth and so does gamma_sq; got {overlap!r} and "
                f"{gamma_sq!r}. Leave gamma_sq out (--set gamma_sq=none) or overlap"
            )
    elif _is_number(overlap) and not 0 < overlap < np.inf:
        raise ValueError(
            f"overlap must be a positive number or a schedule; got {overlap!r}"
        )
    weight: Any = settings.repulsion_weight
    if _is_number(weight) and not 0 <= weight < np.inf:
        raise ValueError(
            f"repulsion_weight must be a number >= 0 or a schedule; got {weight!r}"
        )


def _is_number(value: Any) -> bool:
    """Whether this can be compared now: no schedule, no value under trace."""
    return not callable(value) and is_concrete(value)


def _check_bandwidth(gamma_sq: Any, population_size: int) -> None:
    if isinstance(gamma_sq, str):
        if gamma_sq not in BANDWIDTH_RULES:
            raise ValueError(
                f"unknown gamma_sq rule {gamma_sq!r}; use a positive number, a "
                f"schedule, or one of {', '.join(BANDWIDTH_RULES)}"
            )
        return
    if callable(gamma_sq):
        return
    shape = np.shape(gamma_sq)
    if shape not in ((), (population_size,)):
        raise ValueError(
            f"gamma_sq has shape {shape}; expected a number or one value per "
            f"solution, shape ({population_size},)"
        )
    if is_concrete(gamma_sq):
        values = np.asarray(gamma_sq, dtype=float)
        if not (np.isfinite(values).all() and (values > 0).all()):
            raise ValueError(f"gamma_sq must be positive and finite; got {gamma_sq!r}")
