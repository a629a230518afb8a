"""Activations as modules, beside those of `zyx.nn.activation`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.errors import ShapeError
from zyx.functions.activations import softmax
from zyx.functions.operands import require
from zyx.integers import as_given
from zyx.nn.functional import shrinking
from zyx.nn.module import Module

if TYPE_CHECKING:
    from zyx.tensor.tensor import Tensor


class GLU(Module):
    """`zyx.nn.functional.glu`.

    The result has half as many elements along `axis`.

    Raises:
        AxisError: When called: the input has no such axis.
        ShapeError: When called: the size of that axis is odd.

    >>> zyx.nn.GLU()(zyx.Tensor([[2.0, 4.0, 0.0, 0.0]])).tolist()
    [[1.0, 2.0]]
    """

    def __init__(self, axis: int = -1) -> None:
        self.axis: int = as_given(axis, "axis")

    def forward(self, x: Tensor) -> Tensor:
        return shrinking.glu(x, self.axis)

    def extra_repr(self) -> str:
        return f"axis={self.axis}"


class Hardshrink(Module):
    """`zyx.nn.functional.hardshrink`.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is complex.

    >>> zyx.nn.Hardshrink()(zyx.Tensor([-1.0, 0.25, 2.0])).tolist()
    [-1.0, 0.0, 2.0]
    """

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, x: Tensor) -> Tensor:
        return shrinking.hardshrink(x, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Module):
    """`zyx.nn.functional.softshrink`.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is complex.

    >>> zyx.nn.Softshrink()(zyx.Tensor([-1.0, 0.25, 2.0])).tolist()
    [-0.5, 0.0, 1.5]
    """

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, x: Tensor) -> Tensor:
        return shrinking.softshrink(x, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Tanhshrink(Module):
    """`zyx.nn.functional.tanhshrink`.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is complex.

    >>> [round(v, 4) for v in zyx.nn.Tanhshrink()(zyx.Tensor([0.0, 1.0])).tolist()]
    [0.0, 0.2384]
    """

    def forward(self, x: Tensor) -> Tensor:
        return shrinking.tanhshrink(x)


class Threshold(Module):
    """`zyx.nn.functional.threshold`.

    Elementwise; the result has the shape of the input.

    Raises:
        DTypeError: When called: the input is complex.

    >>> zyx.nn.Threshold(1.0, -9.0)(zyx.Tensor([0.5, 2.0])).tolist()
    [-9.0, 2.0]
    """

    def __init__(self, threshold: float, value: float) -> None:
        self.threshold, self.value = threshold, value

    def forward(self, x: Tensor) -> Tensor:
        return shrinking.threshold(x, self.threshold, self.value)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}"


class RReLU(Module):
    """`zyx.nn.functional.rrelu`, with slopes drawn in training.

    Elementwise; the result has the shape of the input.

    Raises:
        ShapeError: When called: `lower` is above `upper`.

    >>> zyx.nn.RReLU(0.25, 0.75).eval()(zyx.Tensor([-2.0, 2.0])).tolist()
    [-1.0, 2.0]
    """

    def __init__(self, lower: float = 1.0 / 8.0, upper: float = 1.0 / 3.0) -> None:
        self.lower, self.upper = lower, upper

    def forward(self, x: Tensor) -> Tensor:
        return shrinking.rrelu(x, self.lower, self.upper, self.training)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}"


class Softmax2d(Module):
    """`zyx.softmax` over the channels of ``(N, C, H, W)`` or ``(C, H, W)``.

    Raises:
        ShapeError: When called: another rank than 3 or 4.

    >>> zyx.nn.Softmax2d()(zyx.zeros(1, 4, 1, 2)).tolist()
    [[[[0.25, 0.25]], [[0.25, 0.25]], [[0.25, 0.25]], [[0.25, 0.25]]]]
    """

    def forward(self, x: Tensor) -> Tensor:
        ndim = require(x, "Softmax2d").node.ndim
        if ndim not in (3, 4):
            raise ShapeError(f"Softmax2d takes (N, C, H, W) or (C, H, W), not {x.shape}")
        return softmax(x, -3)
