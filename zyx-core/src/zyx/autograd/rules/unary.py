"""Gradients of the unary operations: `g` is the gradient at ``y = op(x)``, the result the one at `x`.

Where `y` says it all it is read instead of `x`: it is often in memory or in the same kernel. At a corner (abs at 0) the
slope is the mean of those on its two sides. At an end of the domain it is the limit from inside, infinite if that is,
and outside it is NaN, also where the formula goes on, as 1 / x does below 0. Where nothing comes in, nothing goes out
of roots, logarithms and reciprocals: 0 times an infinite slope is 0, so that what `where` has not chosen stays clean.
Slopes of slopes are right as well, since these rules are differentiated in turn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

from zyx.autograd.term import GradientTerm
from zyx.graph.node import Const
from zyx.ops import BinaryOp, UnaryOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.graph import Graph, Node
    from zyx.graph.node import Unary

Formula: TypeAlias = "Callable[[GradientTerm, GradientTerm, GradientTerm], GradientTerm]"


def where_any(g: GradientTerm, slope: GradientTerm) -> GradientTerm:
    """Return `slope`, which has been multiplied by `g`, but 0 where `g` is and that has made NaN of it.

    Elsewhere it is 0 by itself, and stays what it is: its own slopes need not be 0, as at the least value of a square.
    """
    if isinstance(g.node, Const) and g.node.value != 0:
        return slope
    return slope.equals(slope).where(slope, g.equals(0.0).where(g.like(0.0), slope))


def not_negative(x: GradientTerm) -> GradientTerm:
    """Return `x`, NaN where it is negative, and 0 of either zero: the end of a domain is approached from inside.

    What is added leaves slopes as they are, so that these are NaN as well.
    """
    if x.node.dtype.is_complex:
        return x
    return x + (x < 0.0).where(x.like(math.nan), 0.0)


def _root(x: GradientTerm, y: GradientTerm, g: GradientTerm) -> GradientTerm:
    if y.node.dtype.is_complex:
        return y.equals(0.0).where(y.like(0.0), g * 0.5 / y)
    return where_any(g, g * 0.5 / (y + 0.0))  # which makes 0 of -0


def _square(x: GradientTerm) -> GradientTerm:
    """Return ``x * x``, whose slope at infinity is 0: what it is multiplied by there has vanished faster."""
    if not x.node.dtype.is_complex:
        most = float(x.node.dtype.max)
        x = x.binary(BinaryOp.MAX, -most).binary(BinaryOp.MIN, most)
    return x * x


UNARY: Final[dict[UnaryOp, Formula | None]] = {
    UnaryOp.NEG: lambda x, y, g: -g,
    UnaryOp.NOT: None,  # not of floats
    UnaryOp.ABS: lambda x, y, g: (x > 0.0).where(g, (x < 0.0).where(-g, 0.0)),
    UnaryOp.FLOOR: None,  # flat
    UnaryOp.TRUNC: None,
    UnaryOp.SQRT: _root,
    UnaryOp.RECIPROCAL: lambda x, y, g: where_any(g, -(g * y * y)),
    UnaryOp.EXP: lambda x, y, g: g * y,
    UnaryOp.EXP2: lambda x, y, g: g * math.log(2.0) * y,
    UnaryOp.EXPM1: lambda x, y, g: g * (y + 1.0),
    UnaryOp.LOG: lambda x, y, g: where_any(g, g / not_negative(x)),
    UnaryOp.LOG2: lambda x, y, g: where_any(g, g * (1.0 / math.log(2.0)) / not_negative(x)),
    UnaryOp.LOG1P: lambda x, y, g: where_any(g, g / not_negative(x + 1.0)),
    UnaryOp.SIN: lambda x, y, g: g * x.unary(UnaryOp.COS),
    UnaryOp.COS: lambda x, y, g: -(g * x.unary(UnaryOp.SIN)),
    UnaryOp.TANH: lambda x, y, g: g * (y.like(1.0) - y * y),
    UnaryOp.ATAN: lambda x, y, g: g / (_square(x) + 1.0),
    UnaryOp.ERF: lambda x, y, g: g * (2.0 / math.sqrt(math.pi)) * (-_square(x)).unary(UnaryOp.EXP),
}
"""The formula of each operation, None where there is no gradient."""


def unary(graph: Graph, node: Unary, upstream: Node) -> tuple[Node | None, ...]:
    """Look the formula up."""
    formula = UNARY[node.op]
    if formula is None:
        return (None,)
    return (
        formula(GradientTerm(graph, node.sources[0]), GradientTerm(graph, node), GradientTerm(graph, upstream)).node,
    )
