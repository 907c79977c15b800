"""Quality-diversity algorithms, each a function that returns a `softqd.Algorithm`."""

from softqd.algorithms._cma_maega import cma_maega
from softqd.algorithms._cma_mega import cma_mega
from softqd.algorithms._dns import dns, dns_g
from softqd.algorithms._ga_me import ga_me
from softqd.algorithms._sep_cma_mae import sep_cma_mae
from softqd.algorithms._squad import squad
from softqd.algorithms._squad_published import squad_published

__all__ = [
    "cma_maega",
    "cma_mega",
    "dns",
    "dns_g",
    "ga_me",
    "sep_cma_mae",
    "squad",
    "squad_published",
]
