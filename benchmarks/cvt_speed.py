"""CVT centroids: softqd's k-means against pyribs' CVTArchive, in one run.

Usage: python benchmarks/cvt_speed.py [--cells 10000] [--dim 16] [--repeats 1]

Both cluster the same s = 100,000 uniform samples into m cells from one start: softqd in
single precision until the mean squared distance improves by less than 3e-4 (12
iterations for m = 10,000 and d = 16), pyribs through scikit-learn in double precision
until the centroids hardly move (25 iterations). No cache is read. The time of
CVTArchive includes its search tree over the centroids, which is small. Other work may
share the machine, so the two take turns, softqd first and last, and medians count.

The floor of one iteration of Lloyd's algorithm, m = 10,000 and d = 16:

- scores: a product of (s, d+1) and (d+1, m), 2 s m (d+1) = 34 GFLOP;
- the nearest centroid: one pass over s m = 1 G scores (maxima of groups of 16), 1 G
  comparisons, in chunks of 4 MiB that stay in cache, then 16 distances per sample;
- bytes from memory: samples and centroids, 4 s d + 8 m d = 8 MB.

About 35 G operations: 0.35 s on two CPU cores that sustain 100 GFLOP/s. Measured on two
such cores: 0.34 s an iteration, 4 s for all.
"""

from __future__ import annotations

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
import ribs
from ribs.archives import CVTArchive

from softqd.ops.cvt import kmeans, nearest_centroid

NUM_SAMPLES = 100_000


def timed(function, *arguments):
    began = time.perf_counter()
    found = jax.block_until_ready(function(*arguments))
    return found, time.perf_counter() - began


def ribs_centroids(samples, cells):
    dim = samples.shape[1]
    archive = CVTArchive(
        solution_dim=1,
        centroids=cells,
        ranges=[(0.0, 1.0)] * dim,
        samples=samples,
        seed=0,
    )
    return archive.centroids


def mean_dist_sq(centroids, fresh):
    """Mean squared distance of new samples to their centroid."""
    return float(nearest_centroid(fresh, jnp.asarray(centroids, fresh.dtype))[1].mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=1)
    arguments = parser.parse_args()
    cells, dim = arguments.cells, arguments.dim
    rng = np.random.default_rng(0)
    samples = rng.random((NUM_SAMPLES, dim), dtype=np.float32)
    fresh = jnp.asarray(rng.random((NUM_SAMPLES, dim), dtype=np.float32))
    compiled, compilation = timed(lambda: kmeans.lower(samples, cells).compile())
    times = {"softqd": [], "pyribs": []}
    for turn in range(2 * arguments.repeats + 1):
        if turn % 2:
            theirs, seconds = timed(ribs_centroids, samples.astype(float), cells)
            times["pyribs"].append(seconds)
        else:
            ours, seconds = timed(compiled, jnp.asarray(samples))
            times["softqd"].append(seconds)
    print(f"{cells} cells, d={dim}, {NUM_SAMPLES} samples, pyribs {ribs.__version__}")
    for name, seconds in times.items():
        print(f"{name}: {', '.join(f'{x:.2f}' for x in seconds)} s")
    ours_median, theirs_median = (float(np.median(x)) for x in times.values())
    print(
        f"pyribs takes {theirs_median / ours_median:.1f} times as long, "
        f"{theirs_median / (ours_median + compilation):.1f} times with softqd's "
        f"compilation of {compilation:.2f} s counted"
    )
    errors = [mean_dist_sq(centroids, fresh) for centroids in (ours, theirs)]
    print(
        f"mean squared distance of fresh samples: softqd {errors[0]:.5f}, pyribs "
        f"{errors[1]:.5f}, ratio {errors[0] / errors[1]:.4f}"
    )


if __name__ == "__main__":
    main()
