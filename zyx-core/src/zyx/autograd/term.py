"""Write element-by-element formulas as formulas.

    g * 0.5 / y    =>    binary(DIV, binary(MUL, g, const 0.5), y)

Numbers become constants of the shape and dtype of the term they meet. Arithmetic on constants alone is done here, and a
factor of 1 is left out: gradients start as 1, and means divide by constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from zyx.graph.node import Const
from zyx.ops import BinaryOp, UnaryOp
from zyx.scalar import fold_binary, fold_unary

if TYPE_CHECKING:
    from zyx.graph import Graph, Node


@dataclass(frozen=True, slots=True, eq=False)
class GradientTerm:
    """A node with Python's operators; operands have one shape, dtype and device, as for `Graph.binary`."""

    graph: Graph
    node: Node

    def like(self, value: float) -> GradientTerm:
        """Return `value` as a term of this shape, dtype and device."""
        return GradientTerm(self.graph, self.graph.const(value, self.node.dtype, self.node.device, self.node.shape))

    def unary(self, op: UnaryOp) -> GradientTerm:
        """Return `op` of the elements."""
        x = self.node
        if isinstance(x, Const):
            value = fold_unary(op, x.value, x.dtype)
            if value is not None:
                return self.like(value)
        return GradientTerm(self.graph, self.graph.unary(op, x))

    def binary(self, op: BinaryOp, other: Operand) -> GradientTerm:
        """Return `op` of this term and `other`."""
        term = other if isinstance(other, GradientTerm) else self.like(other)
        x, y = self.node, term.node
        if op is BinaryOp.MUL and _is_one(x):
            return term
        if op in (BinaryOp.MUL, BinaryOp.DIV) and _is_one(y):
            return self
        if isinstance(x, Const) and isinstance(y, Const) and op in _FOLDED:
            value = fold_binary(op, x.value, y.value, x.dtype)
            if value is not None:
                return self.like(value)
        return GradientTerm(self.graph, self.graph.binary(op, x, y))

    def where(self, x: GradientTerm, y: Operand) -> GradientTerm:
        """Return `x` where this term, of bools, holds, else `y`."""
        otherwise = y if isinstance(y, GradientTerm) else x.like(y)
        return GradientTerm(self.graph, self.graph.where(self.node, x.node, otherwise.node))

    def equals(self, other: Operand) -> GradientTerm:
        """Return which elements are equal to those of `other`."""
        return self.binary(BinaryOp.EQ, other)

    def __neg__(self) -> GradientTerm:
        return self.unary(UnaryOp.NEG)

    def __add__(self, other: Operand) -> GradientTerm:
        return self.binary(BinaryOp.ADD, other)

    def __sub__(self, other: Operand) -> GradientTerm:
        return self.binary(BinaryOp.SUB, other)

    def __mul__(self, other: Operand) -> GradientTerm:
        return self.binary(BinaryOp.MUL, other)

    def __truediv__(self, other: Operand) -> GradientTerm:
        return self.binary(BinaryOp.DIV, other)

    def __pow__(self, other: Operand) -> GradientTerm:
        return self.binary(BinaryOp.POW, other)

    def __lt__(self, other: Operand) -> GradientTerm:
        return self.binary(BinaryOp.LT, other)

    def __le__(self, other: Operand) -> GradientTerm:
        return self.binary(BinaryOp.LE, other)

    def __gt__(self, other: Operand) -> GradientTerm:
        return (other if isinstance(other, GradientTerm) else self.like(other)).binary(BinaryOp.LT, self)

    def __and__(self, other: Operand) -> GradientTerm:
        return self.binary(BinaryOp.AND, other)


Operand: TypeAlias = "GradientTerm | float"

_FOLDED = frozenset({BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV})  # whose result has the operands' dtype


def _is_one(node: Node) -> bool:
    return isinstance(node, Const) and node.value == 1
