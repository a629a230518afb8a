"""Formulas over real nodes: what the functions of complex numbers are written in, and a few that they share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from zyx import dtype as dtypes
from zyx.ops import BinaryOp, UnaryOp

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.graph import Graph, Node

LN_2: Final = math.log(2)


@dataclass(frozen=True, slots=True, eq=False)
class Real:
    """A node of float32, float64 or bool with Python's operators; operands have one shape, dtype and device."""

    graph: Graph
    node: Node

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.node.dtype

    def like(self, value: float) -> Real:
        """Return `value` in this shape, dtype and place."""
        return Real(self.graph, self.graph.const(value, self.node.dtype, self.node.device, self.node.shape))

    def unary(self, op: UnaryOp) -> Real:
        """Return `op` of the elements."""
        return Real(self.graph, self.graph.unary(op, self.node))

    def binary(self, op: BinaryOp, other: Operand) -> Real:
        """Return `op` of this and `other`."""
        y = other if isinstance(other, Real) else self.like(other)
        return Real(self.graph, self.graph.binary(op, self.node, y.node))

    def where(self, x: Operand, y: Operand) -> Real:
        """Return `x` where this one, of bools, holds, else `y`; at least one of them is a node."""
        like = x if isinstance(x, Real) else y
        assert isinstance(like, Real)
        first, second = (v if isinstance(v, Real) else like.like(v) for v in (x, y))
        return Real(self.graph, self.graph.where(self.node, first.node, second.node))

    def __neg__(self) -> Real:
        return self.unary(UnaryOp.NEG)

    def __invert__(self) -> Real:
        return self.unary(UnaryOp.NOT)

    def __add__(self, other: Operand) -> Real:
        return self.binary(BinaryOp.ADD, other)

    def __sub__(self, other: Operand) -> Real:
        return self.binary(BinaryOp.SUB, other)

    def __rsub__(self, other: float) -> Real:
        return self.like(other) - self

    def __mul__(self, other: Operand) -> Real:
        return self.binary(BinaryOp.MUL, other)

    def __truediv__(self, other: Operand) -> Real:
        return self.binary(BinaryOp.DIV, other)

    def __rtruediv__(self, other: float) -> Real:
        return self.like(other) / self

    def __lt__(self, other: Operand) -> Real:
        return self.binary(BinaryOp.LT, other)

    def __gt__(self, other: Operand) -> Real:
        return (other if isinstance(other, Real) else self.like(other)) < self

    def __and__(self, other: Real) -> Real:
        return self.binary(BinaryOp.AND, other)

    def __or__(self, other: Real) -> Real:
        return self.binary(BinaryOp.OR, other)

    def equals(self, other: Operand) -> Real:
        """Tell where this is equal to `other`."""
        return self.binary(BinaryOp.EQ, other)

    def differs(self, other: Operand) -> Real:
        """Tell where this is not equal to `other`."""
        return self.binary(BinaryOp.NE, other)

    def abs(self) -> Real:
        """Return the magnitude."""
        return self.unary(UnaryOp.ABS)

    def is_finite(self) -> Real:
        """Tell where this is neither infinite nor NaN."""
        return self.abs() < math.inf

    def is_infinite(self) -> Real:
        """Tell where this is infinite."""
        return self.abs().equals(math.inf)

    def is_nan(self) -> Real:
        """Tell where this is NaN."""
        return self.differs(self)

    def is_negative(self) -> Real:
        """Tell where the sign is minus, of zeros and NaN too."""
        integer = dtypes.int32 if self.dtype.bits == 32 else dtypes.int64
        bits = Real(self.graph, self.graph.bitcast(self.node, integer))
        return bits < 0

    def with_sign_of(self, other: Real) -> Real:
        """Return this with the sign of `other`."""
        return self.is_negative().differs(other.is_negative()).where(-self, self)

    def with_sign_of_product(self, other: Real) -> Real:
        """Return this negated where `other` has the sign minus."""
        return other.is_negative().where(-self, self)

    def exp(self) -> Real:
        """E to the power of this."""
        return self.unary(UnaryOp.EXP)

    def expm1(self) -> Real:
        """``exp(x) - 1``, exact near 0."""
        return self.unary(UnaryOp.EXPM1)

    def log(self) -> Real:
        """Natural logarithm."""
        return self.unary(UnaryOp.LOG)

    def log1p(self) -> Real:
        """``log(1 + x)``, exact near 0."""
        return self.unary(UnaryOp.LOG1P)

    def sqrt(self) -> Real:
        """Square root."""
        return self.unary(UnaryOp.SQRT)

    def sin(self) -> Real:
        """Sine."""
        return self.unary(UnaryOp.SIN)

    def cos(self) -> Real:
        """Cosine."""
        return self.unary(UnaryOp.COS)

    @property
    def is_double(self) -> bool:
        """Whether this is float64."""
        return self.dtype is dtypes.float64


Operand: TypeAlias = "Real | float"


def ordered(x: Real, y: Real) -> tuple[Real, Real]:
    """Return the greater and the lesser of two magnitudes; both are NaN at most where an operand is."""
    x, y = x.abs(), y.abs()
    swap = x < y
    return swap.where(y, x), swap.where(x, y)


def hypot(x: Real, y: Real) -> Real:
    """Return ``sqrt(x**2 + y**2)`` without overflow; infinity beside NaN is infinity."""
    large, small = ordered(x, y)
    is_endless = x.is_infinite() | y.is_infinite()
    ratio = small / large.equals(0.0).where(1.0, large)
    return is_endless.where(math.inf, large * (ratio * ratio + 1.0).sqrt())


def atan2(y: Real, x: Real) -> Real:
    """Return the angle, -pi to pi, of the point (x, y); signed zeros and infinities as in C."""
    height, width = y.abs(), x.abs()
    is_steep = width < height
    large, small = is_steep.where(height, width), is_steep.where(width, height)
    are_endless = height.equals(math.inf) & width.equals(math.inf)
    ratio = are_endless.where(1.0, small / large.equals(0.0).where(1.0, large))
    angle = ratio.unary(UnaryOp.ATAN)
    angle = is_steep.where(math.pi / 2 - angle, angle)
    angle = x.is_negative().where(math.pi - angle, angle)
    return (x.is_nan() | y.is_nan()).where(math.nan, angle.with_sign_of(y))


def exp_times(x: Real, factor: Real) -> Real:
    """Return ``exp(x) * factor``, which is finite where exp(x) alone is not; 40 less is exact where it counts."""
    is_large = x > (700.0 if x.is_double else 85.0)
    power = is_large.where(x - 40.0, x).exp()
    return is_large.where(power * factor * math.exp(40.0), power * factor)


def sinh_and_cosh(x: Real) -> tuple[Real, Real]:
    """Return the hyperbolic sine and cosine, both infinite where ``exp(abs(x))`` overflows."""
    size = x.abs()
    power = size.expm1()
    is_endless = power.equals(math.inf)
    inner = is_endless.where(1.0, power)
    sine = is_endless.where(math.inf, (inner + inner / (inner + 1.0)) * 0.5)
    exponential = size.exp()
    return sine.with_sign_of(x), (exponential + 1.0 / exponential) * 0.5
