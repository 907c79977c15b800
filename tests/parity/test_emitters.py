"""Rankings, and a whole iteration's bookkeeping, against pyribs."""

import jax.numpy as jnp
import numpy as np
import pytest

from softqd.ops import emitters
from softqd.ops.archive import Insertion
from softqd.ops.novelty import dominated_novelty

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.mark.parametrize("seed", range(5))
def test_rankings(seed):
    rankers = pytest.importorskip("ribs.emitters.rankers")
    rng = np.random.default_rng(seed)
    status = rng.integers(0, 3, 36)
    value = rng.normal(size=36).astype(np.float32)
    for name, ranker, values in (
        ("improvement", rankers.ImprovementRanker(), value),
        # Few levels: many ties, which its stable sort orders as ours does.
        ("two_stage", rankers.TwoStageImprovementRanker(), np.round(value)),
    ):
        add_info = {"status": status, "value": values}
        expected, _ = ranker.rank(None, None, None, add_info)
        found = Insertion(jnp.asarray(status, jnp.int32), jnp.asarray(values))
        assert emitters.rank(found, name)[0].tolist() == expected.tolist()


def test_dominated_novelty_keeps_what_the_dns_archive_keeps():
    archives = pytest.importorskip("ribs.archives")
    rng = np.random.default_rng(0)
    quality, behavior = rng.random(60), rng.random((60, 3))
    archive = archives.DNSArchive(
        solution_dim=1, measure_dim=3, k_neighbors=5, capacity=40
    )
    archive.add(np.arange(60.0)[:, None], quality, behavior)
    score = dominated_novelty(jnp.asarray(quality), jnp.asarray(behavior), 5)
    expected = np.sort(archive.data("solution")[:, 0]).astype(int)
    kept = np.sort(np.argsort(-np.asarray(score), kind="stable")[:40])
    assert kept.tolist() == expected.tolist()
