"""What the CMA methods share: settings, the two archives, first points, insertion.

Every method of the family (CMA-MEGA, CMA-MAEGA, Sep-CMA-MAE) has several emitters, each
with a CMA-ES of its own, which learn from what one archive says of their children.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from softqd.algorithms import _cells
from softqd.algorithms._assembly import picked
from softqd.ops import emitters, evaluation
from softqd.ops.archive import CellArchive, Insertion, sample_elites
from softqd.ops.bounds import reflected
from softqd.ops.checks import check_count, is_concrete
from softqd.ops.start import evaluate_first, first_solutions
from softqd.types import Evaluation, Key, Population, Problem


class Search(NamedTuple):
    """Settings that all of them have."""

    cells: int
    num_emitters: int
    batch_size: int
    sigma0: float
    rules: emitters.Rules
    thresholds: dict[str, Any]  # arguments of insertions; none where they are not soft


def search_of(settings: dict[str, Any]) -> Search:
    """Check and sort a factory's settings."""
    soft = {k: settings.get(k) for k in ("learning_rate", "threshold_floor")}
    soft = soft if "threshold_floor" in settings else {}
    rules = picked(emitters.Rules, settings)
    search = picked(Search, {**settings, "rules": rules, "thresholds": soft})
    check_count("num_emitters", search.num_emitters, 1)
    check_count("batch_size", search.batch_size, 2)
    num_children = search.num_emitters * search.batch_size
    check_count("num_emitters times batch_size", num_children, 2)
    emitters.check_rules(rules.ranker, rules.selection, rules.restart)
    if is_concrete(search.sigma0) and not search.sigma0 > 0:
        raise ValueError(f"sigma0 must be positive; got {search.sigma0!r}")
    return search


class Archives(NamedTuple):
    """The archive that guides; where it has soft thresholds, one that remembers too."""

    archive: CellArchive
    result: CellArchive | None

    @property
    def best(self) -> CellArchive:
        """The one whose elites are the answer."""
        return self.archive if self.result is None else self.result


def population(problem: Problem, state: Any) -> Population:
    """The answer of a state."""
    return _cells.elites(problem, Archives(state.archive, state.result).best)


def open_search(
    search: Search, problem: Problem, centroids: Any, key: Key, solutions: PyTree | None
) -> tuple[tuple[Key, Array, Array, Array], Archives, Float[Array, "e p"]]:
    """Begin a state: key and counts; archives; points to search around.

    As in the papers, random points are not kept. Given solutions are, and the points
    are elites among them.
    """
    e, (key, *keys) = search.num_emitters, jax.random.split(key, 5)
    first, spent = first_solutions(problem, keys[0], solutions, e, any_number=True)
    empty = _cells.empty_cells(problem, centroids, search.cells, keys[1], first)
    archives = Archives(empty, empty if search.thresholds else None)
    if solutions is not None:
        found, count = evaluate_first(problem, first, keys[2], search.batch_size)
        spent += count
        archives, _ = insert(search, problem, archives, first, found)
        first = sample_elites(archives.best, keys[3], e)
    head = (key, jnp.int32(0), jnp.int32(spent), jnp.int32(0))
    return head, archives, emitters.flatten(first)


def insert(
    search: Search, problem: Problem, old: Archives, some: PyTree, found: Evaluation
) -> tuple[Archives, Insertion]:
    """Insert solutions into both archives; what they meant to the one that guides."""
    # Delta_i <- f - t_e; where that is positive, t_e <- (1 - alpha) t_e + alpha f
    soft = search.thresholds
    archive, insertion = _cells.add(problem, old.archive, some, found, **soft)
    result = old.result
    if result is not None:
        result, _ = _cells.add(problem, result, some, found)
    return Archives(archive, result), insertion


def solutions_of(problem: Problem, like: CellArchive, flat: Array) -> PyTree:
    """Rows of numbers as solutions like those in an archive, within their bounds."""
    template = jax.tree.map(lambda x: x[0], like.solutions)
    return reflected(problem, emitters.flattener(template)(flat))


def offer(
    search: Search, problem: Problem, old: Archives, children: Array, key: Key
) -> tuple[Archives, Insertion, Evaluation]:
    """Evaluate children ``(e, b, p)`` and insert them; the insertion by emitter."""
    flat = children.reshape(-1, children.shape[-1])
    some = solutions_of(problem, old.archive, flat)
    found = evaluation.evaluate(problem, some, key)
    new, insertion = insert(search, problem, old, some, found)
    return new, jax.tree.map(lambda x: x.reshape(len(children), -1), insertion), found
