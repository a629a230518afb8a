"""Write kernels by hand: a builder with short words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from zyx import dtype as dtypes
from zyx.kernel.build import Builder
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.kernel import data as k

#: A value, or a number that takes the type of the value it meets.
Operand: TypeAlias = "k.ValueId | Immediate"


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal, told apart from the number of a value."""

    value: int


class Code(Builder):
    """A builder that knows the type of positions.

    Args:
        elements: Positions up to so many, and a few times as many, have to be counted.
    """

    def __init__(self, elements: int) -> None:
        super().__init__()
        self.position: DType = dtypes.int32 if elements < 1 << 29 else dtypes.int64

    def at(self, value: int) -> k.ValueId:
        """Return a literal position."""
        return self.const(value, self.position)

    def _apply(self, op: BinaryOp, x: k.ValueId, y: Operand) -> k.ValueId:
        return self.binary(op, x, self.like(y.value, x) if isinstance(y, Immediate) else y)

    def plus(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return the sum."""
        return self._apply(BinaryOp.ADD, x, y)

    def minus(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return the difference."""
        return self._apply(BinaryOp.SUB, x, y)

    def times(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return the product."""
        return self._apply(BinaryOp.MUL, x, y)

    def over(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return the quotient."""
        return self._apply(BinaryOp.DIV, x, y)

    def rest(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return the remainder."""
        return self._apply(BinaryOp.MOD, x, y)

    def least(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return the lesser one."""
        return self._apply(BinaryOp.MIN, x, y)

    def most(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return the greater one."""
        return self._apply(BinaryOp.MAX, x, y)

    def both(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return the bits, or the truth, that both have."""
        return self._apply(BinaryOp.AND, x, y)

    def either(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return the bits, or the truth, that one of them has."""
        return self._apply(BinaryOp.OR, x, y)

    def differing(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return the bits that they do not share."""
        return self._apply(BinaryOp.XOR, x, y)

    def up(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return `x` shifted to higher bits."""
        return self._apply(BinaryOp.SHL, x, y)

    def down(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return `x` shifted to lower bits."""
        return self._apply(BinaryOp.SHR, x, y)

    def less(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return whether `x` is less than `y`."""
        return self._apply(BinaryOp.LT, x, y)

    def at_most(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return whether `x` is at most `y`."""
        return self._apply(BinaryOp.LE, x, y)

    def equal(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return whether `x` is `y`."""
        return self._apply(BinaryOp.EQ, x, y)

    def within(self, x: k.ValueId, size: int) -> k.ValueId:
        """Return the position nearest to `x` that an array of that size has."""
        return self.least(self.most(x, Immediate(0)), Immediate(size - 1))
