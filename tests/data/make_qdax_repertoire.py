"""Makes the two QDax repertoires beside this file, each with empty slots.

qdax_repertoire.npz: MAP-Elites on a planar arm; an empty cell has fitness -inf and a
descriptor and genotype of zeros. qdax_unstructured.npz: an unstructured repertoire; an
empty slot has fitness -inf and a genotype of NaN.

Made with qdax 0.5.0, jax 0.10.2, numpy 2.4.6 and Python 3.11 on a CPU. The tests do not
need QDax. To make the files again: pip install qdax, then
python tests/data/make_qdax_repertoire.py
"""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from qdax.core.containers.mapelites_repertoire import compute_cvt_centroids
from qdax.core.containers.unstructured_repertoire import UnstructuredRepertoire
from qdax.core.emitters.mutation_operators import isoline_variation
from qdax.core.emitters.standard_emitters import MixingEmitter
from qdax.core.map_elites import MAPElites
from qdax.tasks.arm import arm_scoring_function
from qdax.utils.metrics import default_qd_metrics

CELLS, JOINTS, BATCH, ITERATIONS = 24, 5, 4, 8
HERE = Path(__file__).parent


def map_elites_repertoire():
    """A few iterations of MAP-Elites from a handful of random arms."""
    init_key, centroids_key, genotypes_key, key = jax.random.split(jax.random.key(0), 4)
    variation = functools.partial(
        isoline_variation, iso_sigma=0.05, line_sigma=0.1, minval=0.0, maxval=1.0
    )
    map_elites = MAPElites(
        scoring_function=arm_scoring_function,
        emitter=MixingEmitter(None, variation, 1.0, BATCH),
        metrics_function=functools.partial(default_qd_metrics, qd_offset=1.0),
    )
    centroids = compute_cvt_centroids(
        num_descriptors=2,
        num_init_cvt_samples=2000,
        num_centroids=CELLS,
        minval=0.0,
        maxval=1.0,
        key=centroids_key,
    )
    genotypes = jax.random.uniform(genotypes_key, (BATCH, JOINTS))
    repertoire, state, _ = map_elites.init(genotypes, centroids, init_key)
    for step_key in jax.random.split(key, ITERATIONS):
        repertoire, state, _ = map_elites.update(repertoire, state, step_key)
    return repertoire


def unstructured_repertoire():
    """Eight random arms, of which some are too near to others, and room for twelve."""
    genotypes = jax.random.uniform(jax.random.key(0), (8, 3))
    fitnesses, descriptors, _ = arm_scoring_function(genotypes, jax.random.key(1))
    return UnstructuredRepertoire.init(
        genotypes, fitnesses, descriptors, jnp.asarray(0.1), 12
    )


if __name__ == "__main__":
    repertoire = map_elites_repertoire()
    np.savez(
        HERE / "qdax_repertoire.npz",
        genotypes=repertoire.genotypes,
        fitnesses=repertoire.fitnesses,
        descriptors=repertoire.descriptors,
        centroids=repertoire.centroids,
    )
    repertoire = unstructured_repertoire()
    np.savez(
        HERE / "qdax_unstructured.npz",
        genotypes=repertoire.genotypes,
        fitnesses=repertoire.fitnesses,
        descriptors=repertoire.descriptors,
    )
