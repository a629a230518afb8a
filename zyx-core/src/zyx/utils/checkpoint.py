"""`zyx.checkpoint` by PyTorch's name."""

from zyx.autograd.custom import checkpoint

__all__ = ["checkpoint"]
