"""Benchmark problems, each a function that returns a `softqd.Problem`."""

from softqd.problems._arm import arm
from softqd.problems._linear_projection import linear_projection
from softqd.problems._sphere import sphere

__all__ = ["arm", "linear_projection", "sphere"]
