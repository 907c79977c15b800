import jax
import numpy as np
import pytest
import toys

import softqd
from softqd.experiment.many.plan import parse_seeds
from softqd.ops.seeds import check_seed, check_seeds, key_of

# The pairs that were one run: their low 32 bits are the same.
SEEDS = [0, 5, 2**32 - 1, 2**32, 2**32 + 5, 2**63, 2**64 - 1]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_key_holds_the_high_and_the_low_bits(seed):
    expected = [seed // 2**32, seed % 2**32]
    assert jax.random.key_data(key_of(seed)).tolist() == expected
    with jax.enable_x64(True):
        assert jax.random.key_data(key_of(seed)).tolist() == expected
    if seed < 2**32:  # runs of earlier versions stay what they were
        np.testing.assert_array_equal(
            jax.random.key_data(key_of(seed)), jax.random.key_data(jax.random.key(seed))
        )


def test_seeds_that_differ_in_high_bits_are_different_runs(bowl):
    results = softqd.run(toys.climb(bowl), seed=SEEDS, num_iterations=1)
    first = [result.population.solutions[0].tobytes() for result in results]
    assert len(set(first)) == len(SEEDS)
    assert [result.seed for result in results] == SEEDS


@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, True, "1", None, [1]])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(ValueError, match=r"whole number from 0 to 2\*\*64 - 1; got"):
        check_seed(seed)


def test_whole_numbers_of_numpy_and_jax_are_seeds():
    given = [np.int64(3), np.uint64(2**64 - 1), jax.numpy.int32(4)]
    assert check_seeds(given) == [3, 2**64 - 1, 4]
    with pytest.raises(ValueError, match=r"duplicates: \[3\]"):
        check_seeds([*given, 3])


@pytest.mark.parametrize(
    "text",
    [str(10**12), f"0-{10**12}", "18446744073709551616", "3--1", "0-2,-1", "--1"],
)
def test_seeds_of_commands_that_cannot_be(text):
    with pytest.raises(ValueError, match="seeds"):
        parse_seeds(text)


def test_seeds_of_commands_may_have_64_bits():
    assert parse_seeds("4294967295-4294967296") == [2**32 - 1, 2**32]
