"""Quality-diversity algorithms, each a function that returns a `softqd.Algorithm`."""

from softqd.algorithms._dns import dns, dns_g
from softqd.algorithms._squad import squad

__all__ = ["dns", "dns_g", "squad"]
