"""Our Holm correction against statsmodels'."""

import numpy as np
import pytest

from softqd.metrics import holm

pytestmark = pytest.mark.parity
multitest = pytest.importorskip("statsmodels.stats.multitest")


@pytest.mark.parametrize("seed", range(20))
def test_holm(seed):
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=1 + seed) ** 3
    p[::3] = p[0]  # ties
    expected = multitest.multipletests(p, method="holm")[1]
    np.testing.assert_allclose(holm(p), expected, rtol=1e-12)
