"""What quasi-random, stratified points bring to the Soft QD Score, and its speed.

Standard errors of plain sampling from the mixture, of stratified picks with random
offsets, and of the shifted Sobol points that softqd uses, all with the same number of
points, each measured as the spread of 200 repeats.
"""

from __future__ import annotations

import time

import jax.numpy as jnp
import numpy as np

import softqd
from softqd.metrics import _soft_qd as score

REPEATS, SAMPLES = 200, 2**12


def spread(quality, behavior, sigma, make):
    """Standard deviation over repeats of the mean ratio."""
    means = []
    for seed in range(REPEATS):
        picks, normals = make(behavior.shape[1], seed)
        means.append(
            float(
                score._ratio_means(
                    jnp.asarray(quality),
                    jnp.asarray(behavior),
                    sigma,
                    None,
                    jnp.asarray(picks, jnp.float32),
                    jnp.asarray(normals, jnp.float32),
                ).mean()
            )
        )
    return np.std(means)


def plain(dim, seed):
    rng = np.random.default_rng(seed)
    return rng.random(SAMPLES), rng.normal(size=(SAMPLES, dim))


def stratified(dim, seed):
    rng = np.random.default_rng(seed)
    picks = (np.arange(SAMPLES) + rng.random(SAMPLES)) / SAMPLES
    return picks, rng.normal(size=(SAMPLES, dim))


def quasi_random(dim, seed):
    return score.base_points(dim, SAMPLES, seed)


def main():
    rng = np.random.default_rng(0)
    print("n, d, sigma: variance against plain sampling (smaller is better)")
    for n, d, sigma in ((50, 2, 0.1), (200, 4, 0.15), (1000, 8, 0.25), (1000, 16, 0.3)):
        quality = rng.random(n).astype(np.float32)
        behavior = rng.random((n, d)).astype(np.float32)
        errors = [
            spread(quality, behavior, sigma, make)
            for make in (plain, stratified, quasi_random)
        ]
        ratios = [(e / errors[0]) ** 2 for e in errors[1:]]
        print(
            f"{n:5} {d:3} {sigma:5}: stratified {ratios[0]:.3f}, Sobol {ratios[1]:.3f}"
        )
    quality, behavior = rng.random(10_000), rng.random((10_000, 16))
    for _ in range(2):  # the second time without compilation
        began = time.perf_counter()
        found = softqd.soft_qd_score(quality, behavior, rel_error=0.01)
        spent = time.perf_counter() - began
    print(
        f"n=10,000, d=16: {found.value:.4f} ± {found.stderr:.4f} "
        f"({found.stderr / found.value:.2%}) in {spent:.2f} s"
    )


if __name__ == "__main__":
    main()
