"""Quality-diversity algorithms, each a function that returns a `softqd.Algorithm`."""

from softqd.algorithms._squad import squad

__all__ = ["squad"]
