"""Borders as modules. Padding is one number, or (before, after) of the last axis, of the one before it, and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from zyx.errors import ShapeError
from zyx.functions.joining import pad
from zyx.functions.operands import require
from zyx.integers import as_index, as_integers, is_several
from zyx.nn.families import by_rank
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


_RAISES = "Raises:\n    ShapeError: Another number of widths than two an axis. When called: fewer axes.\n"
_AROUND = f"around the last {{}}.\n\n{_RAISES}\n>>> zyx.nn.{{name}}(1)(zyx.ones{{shape:8}}).shape\n{{shape:10}}\n"
ConstantPad1d, ConstantPad2d, ConstantPad3d = by_rank(
    _ConstantPad, "ConstantPad{}d", f"A border of one value, {_AROUND.replace('(1)', '(1, 0.5)')}"
)
ZeroPad1d, ZeroPad2d, ZeroPad3d = by_rank(_Pad, "ZeroPad{}d", f"A border of zeros, {_AROUND}")
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = by_rank(
    _Pad, "ReflectionPad{}d", f"A border that mirrors without the edge, {_AROUND}", mode="reflect"
)
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = by_rank(
    _Pad, "ReplicationPad{}d", f"A border that repeats the edge, {_AROUND}", mode="replicate"
)
CircularPad1d, CircularPad2d, CircularPad3d = by_rank(
    _Pad, "CircularPad{}d", f"A border that goes on at the other end, {_AROUND}", mode="circular"
)
