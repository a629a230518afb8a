"""Borders as modules. Padding is one number, or (before, after) of the last axis, of the one before it, and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from zyx.errors import ShapeError
from zyx.functions.joining import pad
from zyx.functions.operands import require
from zyx.integers import as_index, as_integers, is_several
from zyx.nn.module import Module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.tensor.tensor import Tensor


class _Pad(Module):
    """A border around the last `ndim` axes."""

    ndim: ClassVar[int]
    mode: ClassVar[str] = "constant"

    def __init__(self, padding: int | Sequence[int]) -> None:
        """Make the layer.

        Raises:
            ShapeError: Another number of widths than two an axis.
        """
        given = (
            as_integers(padding, "padding")
            if is_several(padding)
            else (as_index(padding, "padding"),) * (2 * self.ndim)
        )
        if len(given) != 2 * self.ndim:
            raise ShapeError(f"{type(self).__name__}: padding is one number or {2 * self.ndim} of them, not {padding}")
        self.padding, self.value = given, 0.0

    def forward(self, x: Tensor) -> Tensor:
        ndim = require(x, type(self).__name__).node.ndim
        if ndim < self.ndim:
            raise ShapeError(f"{type(self).__name__} takes at least {self.ndim} axes, not {ndim}")
        pairs = [(self.padding[2 * i], self.padding[2 * i + 1]) for i in reversed(range(self.ndim))]
        return pad(x, [(0, 0)] * (ndim - self.ndim) + pairs, self.mode, self.value)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """A border of one value."""

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """A border of one value, around the last axis."""

    ndim = 1


class ConstantPad2d(_ConstantPad):
    """A border of one value, around the last two axes."""

    ndim = 2


class ConstantPad3d(_ConstantPad):
    """A border of one value, around the last three axes."""

    ndim = 3


class ZeroPad1d(_Pad):
    """A border of zeros, around the last axis."""

    ndim = 1


class ZeroPad2d(_Pad):
    """A border of zeros, around the last two axes."""

    ndim = 2


class ZeroPad3d(_Pad):
    """A border of zeros, around the last three axes."""

    ndim = 3


class ReflectionPad1d(_Pad):
    """A border that mirrors without the edge, around the last axis."""

    ndim = 1
    mode = "reflect"


class ReflectionPad2d(_Pad):
    """A border that mirrors without the edge, around the last two axes."""

    ndim = 2
    mode = "reflect"


class ReflectionPad3d(_Pad):
    """A border that mirrors without the edge, around the last three axes."""

    ndim = 3
    mode = "reflect"


class ReplicationPad1d(_Pad):
    """A border that repeats the edge, around the last axis."""

    ndim = 1
    mode = "replicate"


class ReplicationPad2d(_Pad):
    """A border that repeats the edge, around the last two axes."""

    ndim = 2
    mode = "replicate"


class ReplicationPad3d(_Pad):
    """A border that repeats the edge, around the last three axes."""

    ndim = 3
    mode = "replicate"


class CircularPad1d(_Pad):
    """A border that goes on at the other end, around the last axis."""

    ndim = 1
    mode = "circular"


class CircularPad2d(_Pad):
    """A border that goes on at the other end, around the last two axes."""

    ndim = 2
    mode = "circular"


class CircularPad3d(_Pad):
    """A border that goes on at the other end, around the last three axes."""

    ndim = 3
    mode = "circular"
