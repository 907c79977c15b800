"""SQUAD's objective as a loss of PyTorch, for loops and optimizers of one's own.

What `softqd.squad` does with the evaluations of an iteration, after Algorithm 1 of Soft
Quality-Diversity Optimization: quality pulls, neighbors push, and the bandwidth follows
the overlap of the population. The repulsion is written out in closed form, as in
`softqd.objective`. After the first call, which finds level and bandwidth by the rules
of `softqd.squad`, all is torch and nothing waits for the device.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import torch
from torch import Tensor

from softqd.algorithms._bandwidth import (
    ANNEALING,
    FAINT,
    GAMMA_LIMITS,
    MANY,
    SHARED,
    SMALLEST,
    SMALLEST_UNBOUNDED,
    first_gamma_sq,
)
from softqd.algorithms._squad import POLISH
from softqd.ops.checks import check_count
from softqd.ops.distances import MAX_ENTRIES
from softqd.ops.kernels import KERNEL_CUTOFF
from softqd.ops.level import level_of
from softqd.types import Problem


class SquadLoss(torch.nn.Module):
    r"""A loss whose descent makes solutions good and different.

    ``loss(quality, behavior)`` is $-\frac{1}{n} \sum_i \big(f_i - \sum_{j \in N_i}
    \sqrt{f_i f_j} e^{-\|z_i-z_j\|^2/\gamma^2}\big)$, with neighbors, and $f_i$ inside
    the repulsion, held constant; $f$ is measured from a level and $z$ in standard
    deviations of the population. Bandwidth and coordinates adapt at every call in
    training mode, and are buffers. Rows that are not finite take no part.

    Args:
        behavior_bounds: ``(low, high)``, numbers or one value per behavior; None for an
            unbounded space.
        num_steps: Calls of the whole training: it spreads first and polishes last.
        overlap: Diversity against quality, as of `softqd.squad`.
        num_neighbors: How many others repel a solution, at least 1.
        quality_level: From where quality is measured; None: by rule, at the first call.

    Raises:
        ValueError: If a setting is out of range.

    Examples:
        >>> loss = SquadLoss(behavior_bounds=(0, 1), num_steps=100)
        >>> x = torch.rand(32, 4, requires_grad=True)
        >>> loss(1 - ((x - 0.5) ** 2).sum(1), x[:, :2]).backward()
        >>> x.grad.shape
        torch.Size([32, 4])
    """

    level: Tensor
    gamma_sq: Tensor
    center: Tensor
    spread: Tensor
    num_calls: Tensor

    def __init__(
        self,
        behavior_bounds: Any = None,
        *,
        num_steps: int = 1000,
        overlap: float = 0.12,
        num_neighbors: int = 8,
        quality_level: float | None = None,
    ):
        super().__init__()
        check_count("num_steps", num_steps, 1)
        check_count("num_neighbors", num_neighbors, 1)
        if not 0 < overlap < float("inf"):
            raise ValueError(f"overlap must be a positive number; got {overlap!r}")
        # Checks bounds and level, and knows them.
        self._problem = Problem(
            _nothing, behavior_bounds=behavior_bounds, quality_level=quality_level
        )
        self.num_steps, self.overlap = num_steps, overlap
        self.num_neighbors = num_neighbors
        for name in ("level", "gamma_sq", "center", "spread"):
            self.register_buffer(name, torch.tensor(0.0))
        self.register_buffer("num_calls", torch.tensor(0))
        self.register_load_state_dict_pre_hook(_make_room)
        self._bounds = self._directions = torch.zeros(0)

    def forward(self, quality: Tensor, behavior: Tensor) -> Tensor:
        """The loss of a population, a scalar.

        Args:
            quality: Qualities ``(n,)``, at least two.
            behavior: Behaviors ``(n, d)``.

        Raises:
            ValueError: If shapes do not fit, or the first call cannot begin.
        """
        self._check(quality, behavior)
        dtype = torch.promote_types(behavior.dtype, torch.float32)
        quality, behavior = quality.to(dtype), behavior.to(dtype)
        is_sound = quality.isfinite() & behavior.isfinite().all(1)
        quality = torch.where(is_sound, quality, 0.0)
        unit = self._unit(torch.where(is_sound[:, None], behavior, 0.0))
        if not self.is_started:
            self._begin(quality[is_sound], unit[is_sound])
        z = (unit - self.center) / self.spread
        light = torch.where(is_sound, (quality - self.level).relu(), 0.0).detach()
        others = min(self.num_neighbors, len(quality) - 1)
        overlap, push, kept = self._repelled(z.detach(), light, is_sound, others)
        if self.training:
            self._adapt(unit.detach(), light, overlap, is_sound, others)
        # The value, with derivatives 1 and push with respect to quality and z.
        rise = quality - quality.detach() + (push * (z - z.detach())).sum(1)
        value = (quality - self.level).detach() - kept + rise
        return -torch.where(is_sound, value, 0.0).sum() / is_sound.sum()

    @property
    def is_started(self) -> bool:
        """Whether there was a first call; its coordinates tell."""
        return self.center.ndim == 1

    def _check(self, quality: Tensor, behavior: Tensor) -> None:
        if quality.ndim != 1 or behavior.ndim != 2 or len(quality) != len(behavior):
            raise ValueError(
                "quality must have shape (n,) and behavior (n, d) with the same n; got "
                f"{tuple(quality.shape)} and {tuple(behavior.shape)}"
            )
        if len(quality) < 2 or not behavior.shape[1]:
            raise ValueError(
                "a population has at least 2 solutions and 1 behavior; got behavior of "
                f"shape {tuple(behavior.shape)}"
            )
        if self.is_started and len(self.center) != behavior.shape[1]:
            raise ValueError(
                f"behavior has {behavior.shape[1]} columns, and had {len(self.center)}"
            )
        if not (self.is_started or self.training):
            raise ValueError("the first call must be in training mode; call .train()")

    def _unit(self, behavior: Tensor) -> Tensor:
        """Behaviors mapped from their bounds to [0, 1], those without as they are."""
        low, high = self._sides(behavior)
        is_bounded = (high - low).isfinite()
        unit = torch.where(is_bounded, (behavior - low) / (high - low), 0.0)
        return torch.where(is_bounded, unit.clamp(0.0, 1.0), behavior)

    def _sides(self, behavior: Tensor) -> Tensor:
        """Lower and upper bounds, infinite where there are none."""
        dim = behavior.shape[1]
        if self._bounds.shape != (2, dim):
            self._bounds = torch.tensor(np.stack(self._problem.bounds(dim)))
        self._bounds = self._bounds.to(behavior)
        return self._bounds

    def _begin(self, quality: Tensor, unit: Tensor) -> None:
        """Find level, coordinates and bandwidth, as `softqd.squad` does."""
        if len(quality) < 2:
            raise ValueError(
                f"the first call needs 2 solutions that are finite; got {len(quality)}"
            )
        unit = unit.detach()
        is_sound = torch.ones(len(unit), dtype=torch.bool, device=unit.device)
        self.level = quality.new_tensor(
            level_of(self._problem, quality.detach().cpu().numpy())
        )
        self.center, self.spread = self._scale(unit, is_sound)
        z = jnp.asarray(((unit - self.center) / self.spread).cpu().numpy())
        others = min(self.num_neighbors, len(z) - 1)
        target = jnp.asarray(self._target(len(z), others).item(), z.dtype)
        gamma_sq = first_gamma_sq(z, others, target)
        self.gamma_sq = quality.new_tensor(float(gamma_sq))

    def _repelled(
        self, z: Tensor, light: Tensor, is_sound: Tensor, others: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Overlap with neighbors, their push, and the light that they take."""
        root = light.sqrt()
        overlap, push = repulsion(z, root, is_sound, self.gamma_sq, others)
        taken = root * overlap
        mean = root.sum() / is_sound.sum()
        overlap = overlap / torch.where(mean > 0, mean, 1.0)
        push = (2.0 / self.gamma_sq) * root[:, None] * push
        # Neighbors at no distance push nowhere: such solutions leave on their own.
        crowding = ((overlap / others - SHARED) / (1.0 - SHARED)).clamp(0.0, 1.0)
        leave = (crowding * light / self.gamma_sq.sqrt())[:, None]
        return overlap, push + leave * self._leaving(z), taken

    def _leaving(self, z: Tensor) -> Tensor:
        """A direction per row, the same at every call."""
        if self._directions.shape != z.shape:
            generator = torch.Generator().manual_seed(0)
            self._directions = torch.randn(z.shape, generator=generator)
        self._directions = self._directions.to(z)
        return self._directions

    @torch.no_grad()
    def _adapt(
        self,
        unit: Tensor,
        light: Tensor,
        overlap: Tensor,
        is_sound: Tensor,
        others: int,
    ) -> None:
        """Steer the bandwidth towards its target, and look where the population is."""
        share = torch.where(is_sound, 1.0 / (1.0 + overlap), 0.0)
        found = (is_sound.sum() / share.sum() - 1.0).clamp_min(FAINT)
        target = self._target(len(unit), others)
        slope = (others / target).log().clamp_min(1.0)
        step = ((target.log() - found.log()) / slope).clamp(-1.0, 1.0)
        gamma_sq = (self.gamma_sq * step.exp()).clamp(*GAMMA_LIMITS)
        # Where no solution shines, none overlaps, at any bandwidth.
        self.gamma_sq = torch.where((light > 0).any(), gamma_sq, self.gamma_sq)
        has_any = is_sound.any()
        scale = zip(
            self._scale(unit, is_sound), (self.center, self.spread), strict=True
        )
        self.center, self.spread = (torch.where(has_any, x, old) for x, old in scale)
        self.num_calls = self.num_calls + 1

    def _target(self, n: int, others: int) -> Tensor:
        last = self.overlap * max(n / MANY, 1.0) ** 0.5
        length = min(self.num_steps, POLISH)
        done = self.num_calls - (self.num_steps - length)
        progress = (done / max(length - 1, 1)).clamp(0.0, 1.0)
        return (last * ANNEALING ** (1.0 - progress)).clamp_max(others / 2)

    def _scale(self, unit: Tensor, is_sound: Tensor) -> tuple[Tensor, Tensor]:
        """Where the population lies and how far it reaches, as of `softqd.squad`."""
        is_bounded = self._sides(unit).isfinite().all(0)
        known = torch.where(is_sound[:, None], unit, torch.nan)
        center = known.nanmean(0)
        spread = ((known - center) ** 2).nanmean(0).sqrt()
        largest = known.abs().nan_to_num(0.0).amax(0)
        smallest = torch.where(is_bounded, SMALLEST, SMALLEST_UNBOUNDED * largest)
        tiny = torch.finfo(unit.dtype).tiny ** 0.5
        return center, torch.maximum(spread, smallest).clamp_min(tiny)


@torch.no_grad()
def repulsion(
    z: Tensor, root: Tensor, is_sound: Tensor, gamma_sq: Tensor, others: int
) -> tuple[Tensor, Tensor]:
    """Overlap ``(n,)`` with, and push ``(n, d)`` away from, the nearest neighbors.

    As `softqd.objective.repulsion`: those that are exactly as far as the last neighbor
    share its place.
    """
    n, middle = len(z), z - z.mean(0)
    overlaps, pushes = [], []
    for rows in torch.arange(n, device=z.device).split(max(1, MAX_ENTRIES // n)):
        exact = "donot_use_mm_for_euclid_dist"
        distance = torch.cdist(z[rows], z, compute_mode=exact)
        is_other = is_sound & (rows[:, None] != torch.arange(n, device=z.device))
        distance = torch.where(is_other, distance, torch.inf)
        kernel = torch.exp(-(distance**2) / gamma_sq)
        kernel = torch.where(kernel < KERNEL_CUTOFF, 0.0, kernel)
        last = distance.kthvalue(others, 1, keepdim=True).values
        is_closer, is_tied = distance < last, distance == last
        share = (others - is_closer.sum(1, True)) / is_tied.sum(1, True)
        weight = kernel * root * torch.where(is_closer, 1.0, share * is_tied)
        overlap = weight.sum(1)
        overlaps.append(overlap)
        pushes.append(overlap[:, None] * middle[rows] - weight @ middle)
    return torch.cat(overlaps), torch.cat(pushes)


def _make_room(loss: SquadLoss, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Take saved coordinates: how many behaviors there are shows at the first call."""
    for name in ("center", "spread"):
        if (saved := state.get(prefix + name)) is not None:
            setattr(loss, name, getattr(loss, name).new_zeros(saved.shape))


def _nothing(solution: Any) -> Any:
    return solution
