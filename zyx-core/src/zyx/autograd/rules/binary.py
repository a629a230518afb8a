"""Gradients of the binary operations: `g` is the gradient at ``z = op(x, y)``, the results those at `x` and `y`.

An operand that is a constant gets none. Of equal operands `MAX` and `MIN` give each half of the gradient; where one of
the two is a constant, as in ``relu``, it takes all: the other one gets the gradient only where it is truly the greater,
which is read off `z`. At an end of the domain slopes are limits from inside, and NaN outside, see
`zyx.autograd.rules.unary`: of ``x ** y`` in x where x = 0 and y < 1, in y where x <= 0, of ``x % y`` where it is NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from zyx.autograd.rules.unary import where_any
from zyx.autograd.term import GradientTerm
from zyx.graph.node import Const
from zyx.ops import BinaryOp, UnaryOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.graph import Graph, Node
    from zyx.graph.node import Binary

Pair: TypeAlias = tuple["GradientTerm | None", "GradientTerm | None"]
Formula: TypeAlias = "Callable[[GradientTerm, GradientTerm, GradientTerm, GradientTerm], Pair]"


def _product(x: GradientTerm, y: GradientTerm, z: GradientTerm, g: GradientTerm) -> Pair:
    return (None if _is_const(x) else g * y), (None if _is_const(y) else g * x)


def _quotient(x: GradientTerm, y: GradientTerm, z: GradientTerm, g: GradientTerm) -> Pair:
    at_x = g / y
    return at_x, (None if _is_const(y) else -(at_x * z))


def _remainder(x: GradientTerm, y: GradientTerm, z: GradientTerm, g: GradientTerm) -> Pair:
    # z = x - n * y. (x - z) / y finds n where trunc(x / y) would not: x / y may round up to the next integer.
    at_x = where_any(g, z.equals(z).where(g, g * z))  # NaN where z is, with all its slopes
    return at_x, (None if _is_const(y) else where_any(g, -(g * ((x - z) / y))))


def _power(x: GradientTerm, y: GradientTerm, z: GradientTerm, g: GradientTerm) -> Pair:
    return _power_at_base(x, y, g), (None if _is_const(y) else _power_at_exponent(x, y, z, g))


def _power_at_base(x: GradientTerm, y: GradientTerm, g: GradientTerm) -> GradientTerm | None:
    if _is_const(x):
        return None
    if x.node.dtype.is_complex:
        slope = g * y * x ** (y - 1.0)
        return x.equals(0.0).where((y - 1.0).equals(0.0).where(g, x.like(0.0)), slope)
    if not isinstance(y.node, Const):
        return y.equals(0.0).where(y.like(0.0), where_any(g, g * y * x ** (y - 1.0)))
    exponent = float(y.node.value)
    if exponent == 0.0:
        return None
    if exponent == 1.0:
        return g
    if exponent == 2.0:
        return g * 2.0 * x
    slope = g * exponent * x ** (exponent - 1.0)
    return slope if exponent > 1.0 and exponent.is_integer() else where_any(g, slope)


def _power_at_exponent(x: GradientTerm, y: GradientTerm, z: GradientTerm, g: GradientTerm) -> GradientTerm:
    if x.node.dtype.is_complex:
        return x.equals(0.0).where(x.like(0.0), g * z * x.unary(UnaryOp.LOG))
    is_flat = x.equals(0.0) & (y.like(0.0) <= y)  # but for a jump at y = 0
    return is_flat.where(x.like(0.0), where_any(g, g * z * x.unary(UnaryOp.LOG)))


def _extremum(is_beyond: Callable[[GradientTerm, GradientTerm], GradientTerm]) -> Formula:
    """Return the formula of the operation that picks the one that `is_beyond` the other."""

    def formula(x: GradientTerm, y: GradientTerm, z: GradientTerm, g: GradientTerm) -> Pair:
        if _is_const(y):
            return is_beyond(z, y).where(g, 0.0), None
        if _is_const(x):
            return None, is_beyond(z, x).where(g, 0.0)
        shared = x.equals(y).where(g * 0.5, g)
        nothing = g.like(0.0)
        return is_beyond(y, x).where(nothing, shared), is_beyond(x, y).where(nothing, shared)

    return formula


def _is_const(term: GradientTerm) -> bool:
    return isinstance(term.node, Const)


BINARY: Final[dict[BinaryOp, Formula | None]] = {
    BinaryOp.ADD: lambda x, y, z, g: (g, g),
    BinaryOp.SUB: lambda x, y, z, g: (g, -g),
    BinaryOp.MUL: _product,
    BinaryOp.DIV: _quotient,
    BinaryOp.MOD: _remainder,
    BinaryOp.POW: _power,
    BinaryOp.MAX: _extremum(lambda x, y: x > y),
    BinaryOp.MIN: _extremum(lambda x, y: x < y),
    BinaryOp.AND: None,  # not of floats
    BinaryOp.OR: None,
    BinaryOp.XOR: None,
    BinaryOp.SHL: None,
    BinaryOp.SHR: None,
    BinaryOp.LT: None,  # bools
    BinaryOp.LE: None,
    BinaryOp.EQ: None,
    BinaryOp.NE: None,
}
"""The formula of each operation, None where there is no gradient."""


def binary(graph: Graph, node: Binary, upstream: Node) -> tuple[Node | None, ...]:
    """Look the formula up."""
    formula = BINARY[node.op]
    if formula is None:
        return (None, None)
    x, y = node.sources
    parts = formula(
        GradientTerm(graph, x), GradientTerm(graph, y), GradientTerm(graph, node), GradientTerm(graph, upstream)
    )
    return tuple(None if part is None else part.node for part in parts)
