"""PyTorch: functions of tensors as problems, and SQUAD as a loss."""

from softqd.interop._torch_loss import SquadLoss
from softqd.interop._torch_problem import problem

__all__ = ["SquadLoss", "problem"]
