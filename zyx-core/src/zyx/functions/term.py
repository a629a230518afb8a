"""Formulas over nodes: what the functions of this package are written in.

    t = Term(graph, node)
    0.5 * t * (1.0 + (t * 0.7071067811865476).erf())

A `Term` is a node with operators. It is to the graph what a tensor is to the user, but strict and light: two terms have
one dtype, a Python number takes the dtype of the term it meets, shapes broadcast, reductions keep their axes; and no
handle is made for what lies between, so that tapes and traces see results only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.graph import node as n
from zyx.ops import BinaryOp, ReduceOp, UnaryOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType, Scalar
    from zyx.graph import Graph
    from zyx.shape import Shape

TermLike: TypeAlias = "Term | Scalar"


def signed_of(dtype: DType) -> DType:
    """Return the signed integer type of the same size."""
    return {8: dtypes.int8, 16: dtypes.int16, 32: dtypes.int32, 64: dtypes.int64}[dtype.bits]


def broadcast_shapes(first: Shape, *others: Shape) -> Shape:
    """Return the shape that all of them expand to, by NumPy's rules; see `zyx.shape.broadcast`."""
    result = first
    for shape in others:
        if len(shape) == len(result) and shape == result:  # or sizes of other axes would meet that may vary
            continue
        longer, shorter = (result, shape) if len(result) >= len(shape) else (shape, result)
        # Most often one continues the other to the left.
        result = longer if longer[len(longer) - len(shorter) :] == shorter else shapes.broadcast(result, shape)
    return result


def expand_to(graph: Graph, node: n.Node, shape: Shape) -> n.Node:
    """Return `node` broadcast to `shape`, by NumPy's rules."""
    missing = len(shape) - len(node.shape)
    if not missing and node.shape == shape:
        return node
    if isinstance(node, n.Const):
        shapes.broadcast(node.shape, shape)
        return graph.const(node.value, node.dtype, node.device, shape)
    if missing > 0:
        node = graph.reshape(node, (1,) * missing + node.shape)
    return graph.expand(node, shape)


class Term:
    """A node with operators; see the module."""

    __slots__ = ("graph", "node")
    __hash__ = None  # type: ignore[assignment]  # == makes a term

    def __init__(self, graph: Graph, node: n.Node) -> None:
        self.graph = graph
        self.node = node

    @property
    def shape(self) -> Shape:
        """Sizes."""
        return self.node.shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.node.dtype

    def like(self, value: Scalar) -> Term:
        """Return `value` in the shape, dtype and place of this term."""
        return Term(self.graph, self.graph.const(value, self.node.dtype, self.node.device, self.node.shape))

    def iota(self, axis: int, dtype: DType) -> Term:
        """Return the coordinate along `axis` of this term, size 1 along the others."""
        shape = tuple(size if i == axis else 1 for i, size in enumerate(self.node.shape))
        return Term(self.graph, self.graph.iota(shape, axis, dtype, self.node.device))

    # ---- conversion and movement

    def cast(self, dtype: DType) -> Term:
        """Convert values."""
        return self if dtype is self.node.dtype else Term(self.graph, self.graph.cast(self.node, dtype))

    def bitcast(self, dtype: DType) -> Term:
        """Read the bits as another type of the same size."""
        return Term(self.graph, self.graph.bitcast(self.node, dtype))

    def reshape(self, shape: Sequence[int]) -> Term:
        """Put the elements in another shape."""
        return Term(self.graph, self.graph.reshape(self.node, tuple(shape)))

    def expand(self, shape: Sequence[int]) -> Term:
        """Broadcast to `shape`."""
        return Term(self.graph, expand_to(self.graph, self.node, tuple(shape)))

    def permute(self, order: Sequence[int]) -> Term:
        """Reorder axes."""
        return Term(self.graph, self.graph.permute(self.node, tuple(order)))

    def pad(self, widths: Sequence[tuple[int, int]], value: Scalar = 0) -> Term:
        """Put `value` around."""
        return Term(self.graph, self.graph.pad(self.node, widths, value))

    def shrink(self, bounds: Sequence[tuple[int, int]]) -> Term:
        """Cut a box out."""
        return Term(self.graph, self.graph.shrink(self.node, bounds))

    def narrow(self, axis: int, start: int, stop: int) -> Term:
        """Cut `start` to `stop` out of one axis."""
        bounds = [(0, size) for size in self.node.shape]
        bounds[axis] = (start, stop)
        return self.shrink(bounds)

    def flip(self, axes: Sequence[int]) -> Term:
        """Reverse axes."""
        return Term(self.graph, self.graph.flip(self.node, tuple(axes)))

    # ---- combining; reduced axes keep size 1

    def reduce(self, op: ReduceOp, axes: Sequence[int]) -> Term:
        """Combine along `axes`."""
        return Term(self.graph, self.graph.reduce(op, self.node, tuple(axes)))

    def sum(self, axes: Sequence[int]) -> Term:
        """Add along `axes`."""
        return self.reduce(ReduceOp.SUM, axes)

    def max(self, axes: Sequence[int]) -> Term:
        """Take the greatest along `axes`."""
        return self.reduce(ReduceOp.MAX, axes)

    def detach(self) -> Term:
        """Return the same values, at which gradients end."""
        return Term(self.graph, self.graph.detach(self.node))

    # ---- element by element

    def unary(self, op: UnaryOp) -> Term:
        """Apply `op`."""
        return Term(self.graph, self.graph.unary(op, self.node))

    def binary(self, op: BinaryOp, other: TermLike) -> Term:
        """Apply `op` to this and `other`."""
        x, y = self._together(other)
        return Term(self.graph, self.graph.binary(op, x, y))

    def reflected(self, op: BinaryOp, other: TermLike) -> Term:
        """Apply `op` to `other` and this."""
        x, y = self._together(other)
        return Term(self.graph, self.graph.binary(op, y, x))

    def _together(self, other: TermLike) -> tuple[n.Node, n.Node]:
        """Return both nodes in one shape."""
        x = self.node
        if not isinstance(other, Term):
            return x, self.graph.const(other, x.dtype, x.device, x.shape)
        y = other.node
        if x.shape != y.shape:
            shape = broadcast_shapes(x.shape, y.shape)
            return expand_to(self.graph, x, shape), expand_to(self.graph, y, shape)
        return x, y

    def where(self, x: TermLike, y: TermLike) -> Term:
        """Choose `x` where this bool term holds, else `y`; at least one of them is a term."""
        if isinstance(x, Term):
            first, second = x, y if isinstance(y, Term) else x.like(y)
        elif isinstance(y, Term):
            first, second = y.like(x), y
        else:
            raise AssertionError("a choice between two numbers has no dtype")
        shape = broadcast_shapes(self.shape, first.shape, second.shape)
        nodes = (expand_to(self.graph, term.node, shape) for term in (self, first, second))
        return Term(self.graph, self.graph.where(*nodes))

    def __add__(self, other: TermLike) -> Term:
        return self.binary(BinaryOp.ADD, other)

    def __radd__(self, other: Scalar) -> Term:
        return self.reflected(BinaryOp.ADD, other)

    def __sub__(self, other: TermLike) -> Term:
        return self.binary(BinaryOp.SUB, other)

    def __rsub__(self, other: Scalar) -> Term:
        return self.reflected(BinaryOp.SUB, other)

    def __mul__(self, other: TermLike) -> Term:
        return self.binary(BinaryOp.MUL, other)

    def __rmul__(self, other: Scalar) -> Term:
        return self.reflected(BinaryOp.MUL, other)

    def __truediv__(self, other: TermLike) -> Term:
        """Divide floats; integers truncate."""
        return self.binary(BinaryOp.DIV, other)

    def __rtruediv__(self, other: Scalar) -> Term:
        return self.reflected(BinaryOp.DIV, other)

    def __neg__(self) -> Term:
        return self.unary(UnaryOp.NEG)

    def __invert__(self) -> Term:
        return self.unary(UnaryOp.NOT)

    def __and__(self, other: TermLike) -> Term:
        return self.binary(BinaryOp.AND, other)

    def __or__(self, other: TermLike) -> Term:
        return self.binary(BinaryOp.OR, other)

    def __xor__(self, other: TermLike) -> Term:
        return self.binary(BinaryOp.XOR, other)

    def __lt__(self, other: TermLike) -> Term:
        return self.binary(BinaryOp.LT, other)

    def __le__(self, other: TermLike) -> Term:
        return self.binary(BinaryOp.LE, other)

    def __gt__(self, other: TermLike) -> Term:
        return self.reflected(BinaryOp.LT, other)

    def __ge__(self, other: TermLike) -> Term:
        return self.reflected(BinaryOp.LE, other)

    def __eq__(self, other: TermLike) -> Term:  # type: ignore[override]  # a term, not a bool
        return self.binary(BinaryOp.EQ, other)

    def __ne__(self, other: TermLike) -> Term:  # type: ignore[override]  # a term, not a bool
        return self.binary(BinaryOp.NE, other)

    def abs(self) -> Term:
        """Return the magnitude."""
        return self if self.dtype.is_unsigned else self.unary(UnaryOp.ABS)

    def is_nan(self) -> Term:
        """Tell where a float is NaN."""
        return self.binary(BinaryOp.NE, self)

    def modulo(self, other: TermLike) -> Term:
        """Return the remainder, with the sign of this term."""
        return self.binary(BinaryOp.MOD, other)

    def maximum(self, other: TermLike) -> Term:
        """Return the greater of two."""
        return self.binary(BinaryOp.MAX, other)

    def minimum(self, other: TermLike) -> Term:
        """Return the lesser of two."""
        return self.binary(BinaryOp.MIN, other)

    def exp(self) -> Term:
        """E to the power of this."""
        return self.unary(UnaryOp.EXP)

    def expm1(self) -> Term:
        """``exp(x) - 1``, exact near 0."""
        return self.unary(UnaryOp.EXPM1)

    def log(self) -> Term:
        """Natural logarithm."""
        return self.unary(UnaryOp.LOG)

    def log1p(self) -> Term:
        """``log(1 + x)``, exact near 0."""
        return self.unary(UnaryOp.LOG1P)

    def sqrt(self) -> Term:
        """Square root."""
        return self.unary(UnaryOp.SQRT)

    def reciprocal(self) -> Term:
        """``1 / x``."""
        return self.unary(UnaryOp.RECIPROCAL)

    def tanh(self) -> Term:
        """Hyperbolic tangent."""
        return self.unary(UnaryOp.TANH)

    def atan(self) -> Term:
        """Arc tangent."""
        return self.unary(UnaryOp.ATAN)

    def erf(self) -> Term:
        """Error function."""
        return self.unary(UnaryOp.ERF)

    def floor(self) -> Term:
        """Round down."""
        return self.unary(UnaryOp.FLOOR)

    def trunc(self) -> Term:
        """Round toward zero."""
        return self.unary(UnaryOp.TRUNC)
