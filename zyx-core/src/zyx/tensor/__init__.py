"""The tensor that users hold: its class, its making and its leaving; `zyx` has them all.

The module can be called, as ``zyx.tensor([1.0, 2.0])``: that makes a tensor, as PyTorch's function of this name does.
"""

import sys
from types import ModuleType


class _Callable(ModuleType):
    def __call__(
        self, data: object, dtype: object = None, device: object = None, requires_grad: bool = False
    ) -> object:
        """Return `zyx.Tensor` of the same arguments.

        Raises:
            ArgumentError: `requires_grad` is true: tapes record without it.
        """
        from zyx.errors import ArgumentError
        from zyx.tensor.tensor import Tensor

        if requires_grad:
            raise ArgumentError("tensor: requires_grad=True is not there; see zyx.grad and zyx.Tape")
        return Tensor(data, dtype, device)  # type: ignore[arg-type]  # it is checked there


sys.modules[__name__].__class__ = _Callable
