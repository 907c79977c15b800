"""PyTorch: SQUAD's objective as a loss for loops of one's own."""

from softqd.interop._torch_loss import SquadLoss

__all__ = ["SquadLoss"]
