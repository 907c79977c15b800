"""Benchmark problems, each a function that returns a `softqd.Problem`."""

from softqd.networks._latent_models import Generator, Scorer
from softqd.problems._arm import arm
from softqd.problems._faces import faces
from softqd.problems._image_composition import image_composition
from softqd.problems._latent_space import latent_space
from softqd.problems._linear_projection import linear_projection
from softqd.problems._sphere import sphere

__all__ = [
    "Generator",
    "Scorer",
    "arm",
    "faces",
    "image_composition",
    "latent_space",
    "linear_projection",
    "sphere",
]
