"""Where programs for PyTorch look for what has other homes here: ``utils.data`` and ``utils.checkpoint``."""

from zyx.utils import checkpoint, data

__all__ = ["checkpoint", "data"]
