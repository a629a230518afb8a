"""Activation functions as modules, for `Sequential`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.dtype import float32
from zyx.functions import activations
from zyx.functions.elementwise import tanh
from zyx.functions.operands import require
from zyx.integers import as_given, as_index
from zyx.nn import initial
from zyx.nn.module import Module

if TYPE_CHECKING:
    from zyx.dtype import DTypeLike
    from zyx.tensor.tensor import Tensor


class ReLU(Module):
    """`zyx.relu`."""

    def forward(self, x: Tensor) -> Tensor:
        return activations.relu(x)


class ReLU6(Module):
    """`zyx.relu6`."""

    def forward(self, x: Tensor) -> Tensor:
        return activations.relu6(x)


class SELU(Module):
    """`zyx.selu`."""

    def forward(self, x: Tensor) -> Tensor:
        return activations.selu(x)


class Sigmoid(Module):
    """`zyx.sigmoid`."""

    def forward(self, x: Tensor) -> Tensor:
        return activations.sigmoid(x)


class Hardsigmoid(Module):
    """`zyx.hardsigmoid`."""

    def forward(self, x: Tensor) -> Tensor:
        return activations.hardsigmoid(x)


class SiLU(Module):
    """`zyx.silu`, also called Swish."""

    def forward(self, x: Tensor) -> Tensor:
        return activations.silu(x)


class Hardswish(Module):
    """`zyx.hardswish`."""

    def forward(self, x: Tensor) -> Tensor:
        return activations.hardswish(x)


class Mish(Module):
    """`zyx.mish`."""

    def forward(self, x: Tensor) -> Tensor:
        return activations.mish(x)


class Softsign(Module):
    """`zyx.softsign`."""

    def forward(self, x: Tensor) -> Tensor:
        return activations.softsign(x)


class LogSigmoid(Module):
    """`zyx.logsigmoid`."""

    def forward(self, x: Tensor) -> Tensor:
        return activations.logsigmoid(x)


class Tanh(Module):
    """`zyx.tanh`."""

    def forward(self, x: Tensor) -> Tensor:
        return tanh(x)


class GELU(Module):
    """`zyx.gelu`."""

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return activations.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class LeakyReLU(Module):
    """`zyx.leaky_relu`."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        return activations.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"


class PReLU(Module):
    """`zyx.prelu` with slopes that are trained: one, or one for each channel of ``(N, C, ...)``."""

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, dtype: DTypeLike = float32, device: str | None = None
    ) -> None:
        self.weight = initial.constant(init, (as_index(num_parameters, "num_parameters"),), dtype, device)

    def forward(self, x: Tensor) -> Tensor:
        count, ndim = self.weight.shape[0], require(x, "PReLU").node.ndim
        slopes = self.weight.reshape((count, *[1] * (ndim - 2))) if count > 1 else self.weight
        return activations.prelu(x, slopes)

    def extra_repr(self) -> str:
        return f"num_parameters={self.weight.shape[0]}"


class ELU(Module):
    """`zyx.elu`."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return activations.elu(x, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class CELU(Module):
    """`zyx.celu`."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return activations.celu(x, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class Hardtanh(Module):
    """`zyx.hardtanh`."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        self.min_val, self.max_val = min_val, max_val

    def forward(self, x: Tensor) -> Tensor:
        return activations.hardtanh(x, self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"


class Softplus(Module):
    """`zyx.softplus`."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self.beta, self.threshold = beta, threshold

    def forward(self, x: Tensor) -> Tensor:
        return activations.softplus(x, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class _AlongAxis(Module):
    """A function of whole slices."""

    def __init__(self, axis: int = -1) -> None:
        self.axis: int = as_given(axis, "axis")

    def extra_repr(self) -> str:
        return f"axis={self.axis}"


class Softmax(_AlongAxis):
    """`zyx.softmax`."""

    def forward(self, x: Tensor) -> Tensor:
        return activations.softmax(x, self.axis)


class LogSoftmax(_AlongAxis):
    """`zyx.log_softmax`."""

    def forward(self, x: Tensor) -> Tensor:
        return activations.log_softmax(x, self.axis)


class Softmin(_AlongAxis):
    """`zyx.softmin`."""

    def forward(self, x: Tensor) -> Tensor:
        return activations.softmin(x, self.axis)
