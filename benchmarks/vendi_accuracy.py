"""The estimated Vendi score against all eigenvalues, for many uniform points.

Usage: python benchmarks/vendi_accuracy.py [--dims 2 4 8 16] [--size 10000]

The reference computes every eigenvalue in double precision: 4/3 n^3 operations, half of
them bound by memory, minutes for n = 10,000, and one n x n matrix (0.8 GB) that is
built and reduced in place. The estimate costs 4 products of the kernel with 512 vectors
and 24 with 48, in single precision: 2 n^2 (4 * 512 + 24 * 48) = 0.64 TFLOP. One
dimension at a time; by hand, since it is too slow for ``make bench``.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from scipy.linalg import eigvalsh
from scipy.spatial.distance import cdist

from softqd.metrics import vendi_estimate


def exact(behavior):
    """Exponential of the entropy of all eigenvalues."""
    n, dim = behavior.shape
    kernel = cdist(behavior, behavior, "sqeuclidean")
    kernel *= -6 / dim
    np.exp(kernel, out=kernel)
    kernel /= n
    # The transpose is the same matrix in the order that LAPACK overwrites.
    values = eigvalsh(kernel.T, overwrite_a=True, check_finite=False)
    values = values[values > 0]
    return float(np.exp(-(values * np.log(values)).sum()))


def timed(function, *arguments):
    began = time.perf_counter()
    found = function(*arguments)
    return found, time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dims", type=int, nargs="+", default=[2, 4, 8, 16])
    parser.add_argument("--size", type=int, default=10_000)
    arguments = parser.parse_args()
    print("   d      exact   estimate  rel. error  stated  seconds  exact seconds")
    for dim in arguments.dims:
        behavior = np.random.default_rng(dim).random((arguments.size, dim))
        estimate, seconds = timed(vendi_estimate, behavior)
        value, exact_seconds = timed(exact, behavior)
        print(
            f"{dim:4} {value:10.4f} {estimate.value:10.4f} "
            f"{abs(estimate.value / value - 1):11.1e} "
            f"{estimate.stderr / value:7.0e} {seconds:8.1f} {exact_seconds:14.1f}",
            flush=True,
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"peak memory {peak:.1f} GB")


if __name__ == "__main__":
    main()
