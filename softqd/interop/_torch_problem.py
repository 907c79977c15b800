"""Problems that PyTorch computes: one forward and one backward pass per batch.

Tensors and arrays share their memory by DLPack wherever both libraries are on the same
kind of device, so that nothing passes through the host.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jaxtyping import PyTree

from softqd.interop._problem import outside_problem, stated_dim
from softqd.ops.outside import Door
from softqd.types import Problem

# What torch calls the devices of JAX's backends.
_DEVICES = {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda", "rocm": "cuda"}


def problem(
    evaluate: Callable[..., Any],
    sample: Callable[[torch.Generator], Any] | None = None,
    behavior_bounds: Any = None,
    batched: bool = False,
    *,
    behavior_dim: int | None = None,
    is_differentiable: bool = True,
    name: str | None = None,
    **fields: Any,
) -> Problem:
    """A problem whose ``evaluate`` is a function of torch tensors.

    Every algorithm runs on it, with checkpoints, several seeds and comparisons, and
    takes its gradients from torch. The solutions of a result are tensors again.

    Args:
        evaluate: One solution to ``(quality, behavior)``, tensors ``()`` and ``(d,)``,
            by operations that `torch.func.vmap` batches. It must not change the
            solution in place.
        sample: Draws one solution from a `torch.Generator` of the CPU: a tensor, or any
            pytree of them such as the parameters of a module by name. Its device is
            where solutions are evaluated. None: runs are given theirs.
        behavior_bounds: As in `softqd.Problem`.
        batched: Whether ``evaluate`` takes a whole batch, a leading axis ``n``
            everywhere, and returns ``(n,)`` and ``(n, d)``.
        behavior_dim: Number of behavior dimensions. None: as bounds with one value per
            dimension say, else one solution is evaluated to find it out.
        is_differentiable: Whether gradients are of use.
        name: Of the problem; by default that of ``evaluate``.
        **fields: Others of `softqd.Problem`.

    Raises:
        ValueError: If a solution is no pytree of floating point tensors.
    """
    solution = None if sample is None else _one_drawn(sample)
    door = _TorchDoor(evaluate, sample, solution, batched, is_differentiable)
    first = partial(_first_dim, door, solution)
    return outside_problem(
        door,
        None if solution is None else jax.tree.map(lambda x: x.cpu().numpy(), solution),
        stated_dim(behavior_dim, behavior_bounds, first),
        name=name or getattr(evaluate, "__name__", "problem"),
        behavior_bounds=behavior_bounds,
        is_differentiable=is_differentiable,
        **fields,
    )


class _TorchDoor(Door):
    """Evaluates batches of tensors, and keeps the graph of the last one."""

    def __init__(
        self,
        function: Callable,
        sample: Callable | None,
        solution: PyTree,
        batched: bool,
        is_differentiable: bool,
    ):
        super().__init__(
            self._evaluate,
            self._linearize if is_differentiable else None,
            None if sample is None else self._draw,
            partial(jax.tree.map, lambda x: _to_torch(x).clone()),
        )
        self._function = function if batched else _over_rows(function)
        self._sample, self._solution = sample, solution

    def _draw(self, words: Any) -> PyTree:
        generator, drawn = torch.Generator(), []
        for high, low in np.asarray(words).tolist():
            generator.manual_seed((high << 32) | low)
            drawn.append(jax.tree.leaves(_detached(self._sample(generator))))  # pyright: ignore[reportOptionalCall] (not asked without)
        return [_to_jax(torch.stack(parts)) for parts in zip(*drawn, strict=True)]

    def _evaluate(self, solutions: PyTree, _: tuple) -> tuple[Any, Any]:
        with torch.no_grad():
            quality, behavior = self._found(self._tensors(solutions))
        return _to_jax(quality), _to_jax(behavior)

    def _linearize(self, solutions: PyTree, _: tuple) -> tuple[tuple, Callable]:
        tensors = self._tensors(solutions)
        leaves, structure = jax.tree.flatten(tensors)
        with torch.enable_grad():
            for leaf in leaves:
                leaf.requires_grad_()
            found = self._found(tensors)
        outputs = [x for x in found if x.requires_grad]
        if not outputs:
            raise ValueError(
                "evaluate returns tensors without a gradient; compute them from the "
                "solution by torch's operations, or pass is_differentiable=False"
            )

        def pullback(*cotangents: Any) -> PyTree:
            pairs = zip(found, cotangents, strict=True)
            given = [_to_torch(c).to(x) for x, c in pairs if x.requires_grad]
            # Kept for a second pullback; freed when the next batch comes.
            gradient = torch.autograd.grad(
                outputs,
                leaves,
                given,
                retain_graph=True,
                allow_unused=True,
                materialize_grads=True,
            )
            return jax.tree.unflatten(structure, map(_to_jax, gradient))

        return (_to_jax(found[0]), _to_jax(found[1])), pullback

    def _tensors(self, solutions: PyTree) -> PyTree:
        tensors = jax.tree.map(_to_torch, solutions)
        if self._solution is None:
            return tensors
        return jax.tree.map(lambda x, like: x.to(like), tensors, self._solution)

    def _found(self, tensors: PyTree) -> tuple[torch.Tensor, torch.Tensor]:
        """Quality and behavior, if they are what they must be."""
        leaves = jax.tree.leaves(tensors)
        versions = [leaf._version for leaf in leaves]
        found = self._function(tensors)
        if [leaf._version for leaf in leaves] != versions:
            raise ValueError(
                "evaluate changed its solution in place; work on solution.clone()"
            )
        is_pair = isinstance(found, (tuple, list)) and len(found) == 2
        shapes = [tuple(getattr(x, "shape", ())) for x in found] if is_pair else []
        n = len(leaves[0])
        if not is_pair or shapes[0] != (n,) or shapes[1][:-1] != (n,):
            raise ValueError(
                "evaluate must return (quality, behavior), for a batch tensors of "
                f"shapes ({n},) and ({n}, d); got {shapes or type(found).__name__}"
            )
        return found[0], found[1]


def _over_rows(function: Callable) -> Callable:
    """The function of a batch, by vmap; what that cannot batch is told another way."""
    batch = torch.func.vmap(function)

    def call(solutions: PyTree) -> Any:
        try:
            return batch(solutions)
        except RuntimeError as error:
            if str(error).startswith("vmap: "):
                error.add_note(
                    "torch.func.vmap batches evaluate: write torch.where in place of "
                    "branches on tensors and leave .item() out, or write evaluate for "
                    "a whole batch and pass batched=True"
                )
            raise

    return call


def _first_dim(door: _TorchDoor, solution: PyTree) -> int:
    if solution is None:
        raise ValueError(
            "how many behavior dimensions there are is not known without sample=; give "
            "behavior_dim="
        )
    batch = jax.tree.map(lambda x: x[None], solution)
    with torch.no_grad():
        return door._found(batch)[1].shape[1]


def _one_drawn(sample: Callable) -> PyTree:
    """A solution whose shapes, type and device tell those of all."""
    solution = _detached(sample(torch.Generator().manual_seed(0)))
    leaves = jax.tree.leaves(solution)
    is_fine = lambda x: isinstance(x, torch.Tensor) and x.is_floating_point()  # noqa: E731
    if not leaves or not all(map(is_fine, leaves)):
        kinds = [str(getattr(x, "dtype", type(x).__name__)) for x in leaves]
        raise ValueError(
            "sample must draw a solution of floating point tensors from a "
            f"torch.Generator; got {kinds or type(solution).__name__}"
        )
    return solution


def _detached(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda x: x.detach() if hasattr(x, "detach") else x, tree)


def _to_torch(array: Any) -> torch.Tensor:
    """An array as a tensor, on the device where it is."""
    if isinstance(array, jax.Array):
        return torch.from_dlpack(array)
    return torch.from_numpy(np.array(array))


def _to_jax(tensor: torch.Tensor) -> jax.Array:
    """A tensor as an array on JAX's device; through the host only if torch's differs.

    Nobody writes to it again: it is what evaluate returned, or a gradient.
    """
    tensor = tensor.detach().contiguous()
    if tensor.device.type == _DEVICES.get(jax.default_backend()):
        return jnp.from_dlpack(tensor)
    return jnp.asarray(tensor.cpu().numpy())
