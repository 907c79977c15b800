"""Quality-diversity algorithms, each a function that returns a `softqd.Algorithm`."""

from softqd.algorithms._cma_maega import cma_maega as cma_maega
from softqd.algorithms._cma_mega import cma_mega as cma_mega
from softqd.algorithms._dns import dns as dns
from softqd.algorithms._dns import dns_g as dns_g
from softqd.algorithms._ga_me import ga_me as ga_me
from softqd.algorithms._sep_cma_mae import sep_cma_mae as sep_cma_mae
from softqd.algorithms._squad import squad as squad
from softqd.algorithms._squad_published import squad_published as squad_published
