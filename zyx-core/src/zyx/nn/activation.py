"""Activation functions as modules, for `Sequential`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.dtype import float32
from zyx.functions import activations
from zyx.functions.operands import require
from zyx.functions.transcendental import tanh
from zyx.integers import as_given, as_index
from zyx.nn import initial
from zyx.nn.module import Module

if TYPE_CHECKING:
    from zyx.dtype import DTypeLike
    from zyx.tensor.tensor import Tensor


class ReLU(Module):
    """`zyx.relu`.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is complex.

    >>> zyx.nn.ReLU()(zyx.Tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        return activations.relu(x)


class ReLU6(Module):
    """`zyx.relu6`.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is complex.

    >>> zyx.nn.ReLU6()(zyx.Tensor([-1.0, 3.0, 8.0])).tolist()
    [0.0, 3.0, 6.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        return activations.relu6(x)


class SELU(Module):
    """`zyx.selu`.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is complex.

    >>> [round(v, 4) for v in zyx.nn.SELU()(zyx.Tensor([0.0, 1.0])).tolist()]
    [0.0, 1.0507]
    """

    def forward(self, x: Tensor) -> Tensor:
        return activations.selu(x)


class Sigmoid(Module):
    """`zyx.sigmoid`.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is complex.

    >>> zyx.nn.Sigmoid()(zyx.zeros(1)).tolist()
    [0.5]
    """

    def forward(self, x: Tensor) -> Tensor:
        return activations.sigmoid(x)


class Hardsigmoid(Module):
    """`zyx.hardsigmoid`.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is complex.

    >>> zyx.nn.Hardsigmoid()(zyx.Tensor([-3.0, 0.0, 3.0])).tolist()
    [0.0, 0.5, 1.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        return activations.hardsigmoid(x)


class SiLU(Module):
    """`zyx.silu`, also called Swish.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is complex.

    >>> [round(v, 4) for v in zyx.nn.SiLU()(zyx.Tensor([-1.0, 0.0, 1.0])).tolist()]
    [-0.2689, 0.0, 0.7311]
    """

    def forward(self, x: Tensor) -> Tensor:
        return activations.silu(x)


class Hardswish(Module):
    """`zyx.hardswish`.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is complex.

    >>> zyx.nn.Hardswish()(zyx.Tensor([-1.5, 3.0])).tolist()
    [-0.375, 3.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        return activations.hardswish(x)


class Mish(Module):
    """`zyx.mish`.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is complex.

    >>> [round(v, 4) for v in zyx.nn.Mish()(zyx.Tensor([0.0, 1.0])).tolist()]
    [0.0, 0.8651]
    """

    def forward(self, x: Tensor) -> Tensor:
        return activations.mish(x)


class Softsign(Module):
    """`zyx.softsign`.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is complex.

    >>> zyx.nn.Softsign()(zyx.Tensor([-1.0, 3.0])).tolist()
    [-0.5, 0.75]
    """

    def forward(self, x: Tensor) -> Tensor:
        return activations.softsign(x)


class LogSigmoid(Module):
    """`zyx.logsigmoid`.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is complex.

    >>> [round(v, 4) for v in zyx.nn.LogSigmoid()(zyx.Tensor([0.0, 2.0])).tolist()]
    [-0.6931, -0.1269]
    """

    def forward(self, x: Tensor) -> Tensor:
        return activations.logsigmoid(x)


class Tanh(Module):
    """`zyx.tanh`.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is no tensor.

    >>> zyx.nn.Tanh()(zyx.zeros(1)).tolist()
    [0.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        return tanh(x)


class GELU(Module):
    """`zyx.gelu`.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is complex, or `approximate` is neither "none" nor "tanh".

    >>> [round(v, 4) for v in zyx.nn.GELU()(zyx.Tensor([-1.0, 0.0, 1.0])).tolist()]
    [-0.1587, 0.0, 0.8413]
    """

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return activations.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class LeakyReLU(Module):
    """`zyx.leaky_relu`.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is complex.

    >>> zyx.nn.LeakyReLU(0.5)(zyx.Tensor([-2.0, 2.0])).tolist()
    [-1.0, 2.0]
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        return activations.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"


class PReLU(Module):
    """`zyx.prelu` with slopes that are trained: one, or one for each channel of ``(N, C, ...)``.

    Raises:
        DTypeError: When called: the input is complex.

    >>> zyx.nn.PReLU()(zyx.Tensor([-4.0, 2.0])).tolist()
    [-1.0, 2.0]
    """

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
    """`zyx.elu`.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is complex.

    >>> [round(v, 4) for v in zyx.nn.ELU(alpha=2.0)(zyx.Tensor([-1.0, 3.0])).tolist()]
    [-1.2642, 3.0]
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return activations.elu(x, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class CELU(Module):
    """`zyx.celu`.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is complex.

    >>> [round(v, 4) for v in zyx.nn.CELU(alpha=2.0)(zyx.Tensor([-1.0, 3.0])).tolist()]
    [-0.7869, 3.0]
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return activations.celu(x, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class Hardtanh(Module):
    """`zyx.hardtanh`.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is complex.

    >>> zyx.nn.Hardtanh(-2.0, 2.0)(zyx.Tensor([-5.0, 1.0, 5.0])).tolist()
    [-2.0, 1.0, 2.0]
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        self.min_val, self.max_val = min_val, max_val

    def forward(self, x: Tensor) -> Tensor:
        return activations.hardtanh(x, self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"


class Softplus(Module):
    """`zyx.softplus`.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is complex.

    >>> [round(v, 4) for v in zyx.nn.Softplus()(zyx.Tensor([0.0, 1.0])).tolist()]
    [0.6931, 1.3133]
    """

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
    """`zyx.softmax`.

    Probabilities along `axis`; the result has the shape of the input.

    Raises:
        AxisError: When called: the input has no such axis.
        DTypeError: When called: the input is complex.

    >>> zyx.nn.Softmax(-1)(zyx.zeros(1, 2)).tolist()
    [[0.5, 0.5]]
    """

    def forward(self, x: Tensor) -> Tensor:
        return activations.softmax(x, self.axis)


class LogSoftmax(_AlongAxis):
    """`zyx.log_softmax`.

    Logarithms of probabilities whose sum along `axis` is 1, of the shape of the input.

    Raises:
        AxisError: When called: the input has no such axis.
        DTypeError: When called: the input is complex.

    >>> [round(v, 4) for v in zyx.nn.LogSoftmax(-1)(zyx.zeros(2)).tolist()]
    [-0.6931, -0.6931]
    """

    def forward(self, x: Tensor) -> Tensor:
        return activations.log_softmax(x, self.axis)


class Softmin(_AlongAxis):
    """`zyx.softmin`.

    Probabilities along `axis`, the greater the smaller the element is; of the shape of the input.

    Raises:
        AxisError: When called: the input has no such axis.
        DTypeError: When called: the input is complex.

    >>> [round(v, 4) for v in zyx.nn.Softmin(-1)(zyx.Tensor([1.0, 1.0, 50.0])).tolist()]
    [0.5, 0.5, 0.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        return activations.softmin(x, self.axis)
