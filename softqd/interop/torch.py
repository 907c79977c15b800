"""PyTorch: functions of tensors as problems."""

from softqd.interop._torch_problem import problem

__all__ = ["problem"]
