"""Names for the command line and configurations: problems, algorithms, presets."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from softqd import algorithms, problems


def _factories(room: ModuleType) -> dict[str, Callable]:
    """The functions that a room shows, by their names."""
    return {n: f for n, f in vars(room).items() if inspect.isfunction(f)}


PROBLEMS = _factories(problems)
ALGORITHMS = _factories(algorithms)


class Preset(NamedTuple):
    """A problem with settings, and how the algorithms are set for it."""

    about: str
    problem: str
    problem_settings: Mapping[str, Any]
    algorithm_settings: Mapping[str, Mapping[str, Any]]
    iterations: int = 1000
    cells: int = 512  # of the tessellation behind QD score and coverage
    budgets: Mapping[str, int] = {}  # iterations of algorithms that have their own
    weights: tuple[str, ...] = ()  # what 'softqd weights fetch' must have fetched
    extra: str = ""  # what of softqd[...] must be installed


# Iterations of the published baselines on Linear Projection and Image Composition.
# SQUAD has as many evaluations as its published form, where they are two per solution.
_BUDGETS = {
    "squad": 1774,
    "cma_maega": 1900,
    "cma_mega": 1900,
    "dns": 8000,
    "dns_g": 4000,
    "ga_me": 8000,
    "sep_cma_mae": 1900,
}
# The published baselines ran in pyribs, every seed with cells of its own.
_CELLS = {"shared_cells": False}
_PYRIBS = {"pyribs_quirks": True, **_CELLS}


def _published(
    gamma_sq: float,
    mega: tuple[float, float],
    maega: tuple[float, float, float],
    mae: tuple[float, float],
    ga: tuple[float, float, float],
    dns_step: float,
) -> dict[str, dict[str, Any]]:
    """Published settings of all methods on one problem.

    Args:
        gamma_sq: Of SQUAD.
        mega: Adam's learning rate, sigma0.
        maega: Adam's learning rate, sigma0, the archive's learning rate.
        mae: sigma0, the archive's learning rate.
        ga: iso_sigma, line_sigma, step_size.
        dns_step: step_size of DNS-G.
    """
    adam, sigma, rate = (f"adam({maega[0]})", *maega[1:])
    soft = {"optimizer": adam, "sigma0": sigma, "learning_rate": rate}
    signed = {"signed_quality": True, **_PYRIBS}
    variation = dict(zip(("iso_sigma", "line_sigma", "step_size"), ga, strict=True))
    return {
        "squad": {},
        "squad_published": {"gamma_sq": gamma_sq},
        "cma_mega": {"optimizer": f"adam({mega[0]})", "sigma0": mega[1], **signed},
        "cma_maega": {**soft, **signed},
        "sep_cma_mae": {"sigma0": mae[0], "learning_rate": mae[1], **_PYRIBS},
        "ga_me": {**variation, **_CELLS},
        "dns": {},
        "dns_g": {"step_size": dns_step},
    }


def _linear_projection(dim: int, *tuned: Any) -> Preset:
    return Preset(
        f"Linear Projection, {dim} behavior dimensions (published settings)",
        "linear_projection",
        {"behavior_dim": dim},
        _published(*tuned),
        budgets=_BUDGETS,
    )


# Sizes of the published runs on Latent Space Illumination, and their iterations.
_FEW = {"population_size": 256, "batch_size": 8}
_FINE = {"cells": 40_000, "batch_size": 16}
_LSI_SIZES: dict[str, dict[str, Any]] = {
    "squad": _FEW,
    "squad_published": {**_FEW, "optimizer": "adam(0.1)"},
    "cma_mega": {"num_emitters": 1, **_FINE},
    "cma_maega": {"num_emitters": 1, **_FINE},
    "sep_cma_mae": {"num_emitters": 1, **_FINE},
    "ga_me": {"start_size": 32, **_FINE},
    "dns": {"batch_size": 16},
    "dns_g": {"batch_size": 16, "grad_batch_size": 8},
}
_LSI_BUDGETS = {**dict.fromkeys(_BUDGETS, 3000), "dns_g": 1500, "squad": 307}


def _lsi(about: str, gamma_sq: float, prompt: str, pairs: list[str]) -> Preset:
    """Latent Space Illumination with the sentences of the paper's appendix."""
    tuned = _published(
        gamma_sq, (0.05, 0.01), (0.05, 0.01, 0.02), (0.02, 0.1), (0.01, 0.2, 0.05), 0.5
    )
    return Preset(
        about,
        "latent_space",
        {"prompt": prompt, "pairs": "; ".join(pairs)},
        {name: {**tuned[name], **_LSI_SIZES[name]} for name in tuned},
        iterations=175,
        budgets=_LSI_BUDGETS,
        weights=("stylegan2-ffhq", "clip-vit-b32"),
    )


def _of_size(size: int) -> dict[str, dict[str, Any]]:
    """As many solutions, or cells, for every method; all else is its default."""
    cells = ("cma_maega", "cma_mega", "ga_me", "sep_cma_mae")
    populations = ("squad", "squad_published", "dns", "dns_g")
    return {
        **{name: {"population_size": size} for name in populations},
        **{name: {"cells": size} for name in cells},
    }


# Applications are held out: nobody's settings are tuned for them. Iterations that take
# every method as many evaluations, or about as many.
_AIRFOIL_BUDGETS = {
    "squad": 500,
    "squad_published": 283,
    **dict.fromkeys(("cma_maega", "cma_mega", "sep_cma_mae"), 538),
    "dns": 2266,
    "dns_g": 1133,
    "ga_me": 1512,
}
_COARSE = {"cells": 1000, "batch_size": 16}
_NEURON_BUDGETS = {
    **dict.fromkeys(("cma_maega", "cma_mega", "sep_cma_mae"), 160),
    **dict.fromkeys(("dns", "ga_me"), 680),
    "dns_g": 450,
    "squad_published": 170,
}
_IC_SMALL = {"population_size": 128, "batch_size": 32}
# The paper's section "Hyperparameters", confirmed by its released settings.
PRESETS: dict[str, Preset] = {
    "lp-easy": _linear_projection(
        4, 0.1, (0.5, 2.0), (0.05, 0.5, 0.01), (2.0, 0.05), (2.0, 0.2, 0.1), 0.1
    ),
    "lp-medium": _linear_projection(
        8, 0.5, (0.1, 10.0), (0.05, 10.0, 0.01), (5.0, 0.01), (2.0, 0.1, 0.1), 0.1
    ),
    "lp-hard": _linear_projection(
        16, 1.0, (0.1, 10.0), (0.05, 0.5, 0.01), (2.0, 0.01), (0.5, 0.3, 0.1), 0.1
    ),
    "ic": Preset(
        "Image Composition, 1024 circles repaint Vermeer (published settings)",
        "image_composition",
        {"target": "vermeer"},
        _published(
            1.0, (0.05, 1.0), (0.05, 1.0, 0.02), (1.0, 0.02), (0.2, 0.2, 0.05), 0.5
        ),
        cells=1024,
        budgets={**_BUDGETS, "ga_me": 5350},
    ),
    "ic-small": Preset(
        "Image Composition, 128 circles and a portrait that comes along",
        "image_composition",
        {"num_circles": 128},
        {"squad": _IC_SMALL, "squad_published": {"gamma_sq": 1.0, **_IC_SMALL}},
        iterations=300,
        cells=1024,
        budgets={"squad": 529},
    ),
    "lsi": _lsi(
        "StyleGAN2 faces of Tom Cruise, by age and hair (published settings)",
        0.01,
        "A photo of Tom Cruise",
        [
            "Photo of Tom Cruise as a small child"
            " | Photo of Tom Cruise as an elderly person",
            "Photo of Tom Cruise with long hair | Photo of Tom Cruise with short hair",
        ],
    ),
    "lsi-hard": _lsi(
        "StyleGAN2 faces of a noir detective, 7 behaviors (published settings)",
        0.1,
        "A photo of a detective from a noir film",
        [
            "Photo of a young kid | Photo of an elderly person",
            "Photo of a person with long hair | Photo of a person with short hair",
            "Photo of a person with dark hair | Photo of a person with white hair",
            "Photo of a person smiling | Photo of a person frowning",
            "Photo of a person with a round face | Photo of a person with an oval face",
            "Photo of a person with thin, sparse hair"
            " | Photo of a person with thick, full hair",
            "Photo of a person looking directly into the camera"
            " | Photo of a person looking sideways",
        ],
    ),
    "lsi-faces": Preset(
        "one generated person at every age and smile",
        "faces",
        {},
        # As published for Latent Space Illumination, except gamma_sq, the number of
        # cells, and GA-ME's noise, which has the published length in 512 dimensions.
        {
            "squad": _FEW,
            "squad_published": {"gamma_sq": 0.1, **_FEW, "optimizer": "adam(0.1)"},
            "ga_me": {
                "iso_sigma": 0.04,
                "line_sigma": 0.2,
                "step_size": 0.05,
                "start_size": 32,
                **_COARSE,
            },
            "cma_mega": {"sigma0": 0.01, "num_emitters": 1, **_COARSE},
        },
        iterations=175,
        budgets={"cma_mega": 3000, "ga_me": 3000, "squad": 307},
        weights=("faces",),
    ),
    "airfoils": Preset(
        "airfoils of every thickness, lift and moment",
        "airfoils",
        {},
        _of_size(512),
        budgets=_AIRFOIL_BUDGETS,
        extra="airfoils",
    ),
    "neurons": Preset(
        "conductances that explain the recording of a neuron",
        "neurons",
        {},
        _of_size(256),
        iterations=300,
        budgets=_NEURON_BUDGETS,
        extra="neurons",
    ),
    "sphere": Preset(
        "one smooth peak, 2 behavior dimensions",
        "sphere",
        {},
        {"squad_published": {"gamma_sq": 0.005}},
        iterations=500,
        budgets={"squad": 885},
    ),
    "arm": Preset(
        "planar arm reaching every point of a disc, 2 behavior dimensions",
        "arm",
        {},
        {"squad_published": {"gamma_sq": 0.02}},
        iterations=500,
        budgets={"squad": 885},
    ),
}
