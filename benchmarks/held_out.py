"""Problems that no setting of SQUAD is chosen on.

`curves` was written down before the default was tuned, `routes` before the length of
polishing was chosen, the last setting; no run on them decides about it: what the
default reaches here is what a stranger may expect. `clusters` was one of them until it
showed that the level was of no use where most of a first population is hopeless; the
rule for that was found with a look at it. All have negative quality, as losses and
energies have.

Usage: python benchmarks/held_out.py [--evaluations 200000] [--seeds 3]
           [--algorithms squad,dns,dns_g,cma_mega] [--problems curves,routes,clusters]

Prints a comparison of algorithms with their defaults at equal evaluations.
squad_range.py has the default SQUAD alone, in other units and from other guesses.
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np

import softqd

# A few points of an unknown curve, and where nobody has looked.
_SEEN_AT = np.array([-0.9, -0.5, 0.0, 0.4, 0.8], np.float32)
_SEEN = np.array([0.2, -0.6, 0.1, 0.7, -0.1], np.float32)
_ASKED_AT = np.array([-0.7, 0.2, 0.6], np.float32)


def curves(width: int = 16) -> softqd.Problem:
    """Networks that agree where a curve was seen and differ where it was not.

    Quality is minus the mean squared error on five points, behavior the prediction at
    three others.
    """

    def predict(weights, x):
        hidden = jnp.tanh(weights["in"] * x + weights["shift"])
        hidden = jnp.tanh(weights["mix"] @ hidden)
        return weights["out"] @ hidden + weights["bias"]

    def evaluate(weights):
        seen = jax.vmap(lambda x: predict(weights, x))(jnp.asarray(_SEEN_AT))
        asked = jax.vmap(lambda x: predict(weights, x))(jnp.asarray(_ASKED_AT))
        return -jnp.mean((seen - _SEEN) ** 2), 2.0 * jnp.tanh(asked / 2.0)

    def sample(key):
        keys = jax.random.split(key, 4)
        return {
            "in": 2.0 * jax.random.normal(keys[0], (width,)),
            "shift": jax.random.normal(keys[1], (width,)),
            "mix": jax.random.normal(keys[2], (width, width)) / np.sqrt(width),
            "out": jax.random.normal(keys[3], (width,)) / np.sqrt(width),
            "bias": jnp.zeros(()),
        }

    return softqd.Problem(evaluate, sample, (-2.0, 2.0), name="curves")


def clusters(num_atoms: int = 13) -> softqd.Problem:
    """Arrangements of atoms in the plane, of low energy and different shape.

    Quality is minus the Lennard-Jones energy per atom, which has no lower end where two
    atoms meet; behavior is the size of the arrangement, how long it is, and how uneven.
    """
    pairs = np.triu_indices(num_atoms, 1)

    def evaluate(places):
        difference = places[pairs[0]] - places[pairs[1]]
        over_sq = 1.0 / (jnp.sum(difference**2, axis=1) + 1e-2)
        energy = 4.0 * jnp.sum(over_sq**6 - over_sq**3) / num_atoms
        centered = places - places.mean(0, keepdims=True)
        (xx, xy), (_, yy) = centered.T @ centered / num_atoms
        size_sq = xx + yy
        # Both eigenvalues of the covariance are (size_sq +- gap) / 2.
        gap = jnp.sqrt((xx - yy) ** 2 + 4.0 * xy**2 + 1e-12)
        radius_sq = jnp.sum(centered**2, axis=1)
        uneven = jnp.std(radius_sq) / size_sq
        size = jnp.sqrt(size_sq)
        return -energy, jnp.stack(
            [jnp.tanh(size / 4.0), gap / size_sq, jnp.tanh(uneven)]
        )

    def sample(key):
        return 2.0 * jax.random.normal(key, (num_atoms, 2))

    return softqd.Problem(evaluate, sample, (0.0, 1.0), name="clusters")


# Hills on the way, and how high they are.
_HILLS = np.array([[0.2, 0.3], [0.35, -0.4], [0.5, 0.05], [0.7, 0.5], [0.75, -0.2]])
_HEIGHTS = np.array([2.0, 1.0, 3.0, 1.5, 2.0])


def routes(num_points: int = 14) -> softqd.Problem:
    """Ways from one place to another through hills, short and with little climbing.

    Quality is minus the length of the way, hills counting more; behavior is where it
    passes a third and two thirds of the points.
    """
    ends = np.array([[0.0, 0.0], [1.0, 0.0]], np.float32)
    hills = np.asarray(_HILLS, np.float32)
    heights = np.asarray(_HEIGHTS, np.float32)
    thirds = np.array([num_points // 3, 2 * num_points // 3])

    def evaluate(offsets):
        straight = jnp.linspace(0.0, 1.0, num_points + 2)[1:-1]
        inner = jnp.stack([straight, jnp.zeros_like(straight)], 1) + offsets
        way = jnp.concatenate([ends[:1], inner, ends[1:]])
        pieces = way[1:] - way[:-1]
        length = jnp.sqrt(jnp.sum(pieces**2, axis=1) + 1e-12)
        middle = (way[1:] + way[:-1]) / 2
        far_sq = jnp.sum((middle[:, None] - hills[None]) ** 2, axis=2)
        height = (jnp.exp(-far_sq / 0.02) * heights[None]).sum(1)
        return -jnp.sum(length * (1.0 + 5.0 * height)), jnp.tanh(inner[thirds, 1])

    def sample(key):
        return 0.3 * jax.random.normal(key, (num_points, 2))

    return softqd.Problem(evaluate, sample, (-1.0, 1.0), name="routes")


PROBLEMS = {"curves": curves, "routes": routes, "clusters": clusters}
SHOWN = ("mean_quality", "qvs", "qd_score", "coverage", "soft_qd_score")


def show(name: str, found: softqd.Comparison) -> None:
    """One row per algorithm: means and standard errors."""
    for algorithm in found.algorithms:
        rows = [found.statistics[metric]["algorithms"][algorithm] for metric in SHOWN]
        text = "  ".join(f"{row['mean']:10.4g} ±{row['stderr']:8.2g}" for row in rows)
        print(f"{name:10} {algorithm:10} {text}", flush=True)


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evaluations", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--algorithms", default="squad,dns,dns_g,cma_mega")
    parser.add_argument("--problems", default="curves,routes,clusters")
    options = parser.parse_args()
    settings = {"seeds": options.seeds, "evaluations": options.evaluations}
    print(" " * 22 + "  ".join(f"{metric:>20}" for metric in SHOWN))
    for name in options.problems.split(","):
        problem = PROBLEMS[name]()
        found = softqd.compare(problem, options.algorithms.split(","), **settings)
        print(f"{name}: quality is measured from {found.quality_level:.4g}")
        show(name, found)


if __name__ == "__main__":
    main()
