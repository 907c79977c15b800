"""Seeds: whole numbers of 64 bits, all of which count."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from softqd.types import Key

# 64 bits are what a key of JAX can tell apart.
LARGEST_SEED = 2**64 - 1
# More runs than this are not made in one go.
MOST_SEEDS = 10**6
_BITS = 32


def check_seed(seed: Any, name: str = "seed") -> int:
    """A seed as a Python number.

    Raises:
        ValueError: If it is no whole number from 0 to 2**64 - 1.

    Examples:
        >>> check_seed(7)
        7
        >>> check_seed(-1)
        Traceback (most recent call last):
        ValueError: seed must be a whole number from 0 to 2**64 - 1; got -1
    """
    try:
        found = None if isinstance(seed, (bool, np.bool_)) else operator.index(seed)
    except TypeError:
        found = None
    if found is None or not 0 <= found <= LARGEST_SEED:
        raise ValueError(
            f"{name} must be a whole number from 0 to 2**64 - 1; got {seed!r:.80}"
        )
    return found


def check_seeds(seeds: Sequence[Any], name: str = "seeds") -> list[int]:
    """Seeds as a list of Python numbers.

    Raises:
        ValueError: If there is none, too many, one that is no seed, or one comes twice.

    Examples:
        >>> check_seeds(range(3, 6))
        [3, 4, 5]
    """
    if not 0 < len(seeds) <= MOST_SEEDS:
        raise ValueError(
            f"{name} must be between 1 and {MOST_SEEDS:,}; got {len(seeds):,} of them"
        )
    found = [check_seed(seed, name) for seed in seeds]
    if len(set(found)) < len(found):
        twice = [seed for seed, times in Counter(found).items() if times > 1][:5]
        raise ValueError(f"{name} holds duplicates: {twice}; give every seed once")
    return found


def key_of(seed: int) -> Key:
    """The key of a seed: another one for every seed, whatever JAX's precision.

    In single precision `jax.random.key` looks at 32 bits alone.

    Examples:
        >>> jax.random.key_data(key_of(2**32 + 5)).tolist()
        [1, 5]
    """
    if seed < 2**_BITS:
        return jax.random.key(seed)
    with jax.enable_x64(True):
        return jax.random.key(np.uint64(seed))
