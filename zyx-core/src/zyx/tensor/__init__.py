"""The tensor that users hold: its class, its making and its leaving; `zyx` has them all.

The module can be called, as ``zyx.tensor([1.0, 2.0])``: that makes a tensor, as PyTorch's function of this name does.
"""

import sys
from types import ModuleType


class _Callable(ModuleType):
    def __call__(
        self, data: object, dtype: object = None, device: object = None, requires_grad: bool = False
    ) -> object:
        """Return `zyx.Tensor` of the same arguments, which keeps gradients if `requires_grad` is true.

        Raises:
            GradientError: It is to keep them, and is of integers or bools.
        """
        made = self.tensor.Tensor(data, dtype, device)  # of the module, which `zyx` imports
        return made.requires_grad_() if requires_grad else made


sys.modules[__name__].__class__ = _Callable
