"""Gradients of the unary operations: `g` is the gradient at ``y = op(x)``, the result the one at `x`.

Where `y` says it all it is read instead of `x`: it is often in memory or in the same kernel. Where there is no slope,
at a corner or where it is infinite (sqrt at 0), 0 is taken; so as long as `y` is finite, the gradient is not NaN.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

from zyx.autograd.term import Term
from zyx.ops import UnaryOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.graph import Graph, Node
    from zyx.graph.node import Unary

Formula: TypeAlias = "Callable[[Term, Term, Term], Term]"

UNARY: Final[dict[UnaryOp, Formula | None]] = {
    UnaryOp.NEG: lambda x, y, g: -g,
    UnaryOp.NOT: None,  # not of floats
    UnaryOp.ABS: lambda x, y, g: (x > 0.0).where(g, (x < 0.0).where(-g, 0.0)),
    UnaryOp.FLOOR: None,  # flat
    UnaryOp.TRUNC: None,
    UnaryOp.SQRT: lambda x, y, g: y.equals(0.0).where(y.like(0.0), g * 0.5 / y),
    UnaryOp.RECIPROCAL: lambda x, y, g: -(g * y * y),
    UnaryOp.EXP: lambda x, y, g: g * y,
    UnaryOp.EXP2: lambda x, y, g: g * math.log(2.0) * y,
    UnaryOp.EXPM1: lambda x, y, g: g * (y + 1.0),
    UnaryOp.LOG: lambda x, y, g: g / x,
    UnaryOp.LOG2: lambda x, y, g: g * (1.0 / math.log(2.0)) / x,
    UnaryOp.LOG1P: lambda x, y, g: g / (x + 1.0),
    UnaryOp.SIN: lambda x, y, g: g * x.unary(UnaryOp.COS),
    UnaryOp.COS: lambda x, y, g: -(g * x.unary(UnaryOp.SIN)),
    UnaryOp.TANH: lambda x, y, g: g * (y.like(1.0) - y * y),
    UnaryOp.ATAN: lambda x, y, g: g / (x * x + 1.0),
    UnaryOp.ERF: lambda x, y, g: g * (2.0 / math.sqrt(math.pi)) * (-(x * x)).unary(UnaryOp.EXP),
}
"""The formula of each operation, None where there is no gradient."""


def unary(graph: Graph, node: Unary, upstream: Node) -> tuple[Node | None, ...]:
    """Look the formula up."""
    formula = UNARY[node.op]
    if formula is None:
        return (None,)
    return (formula(Term(graph, node.sources[0]), Term(graph, node), Term(graph, upstream)).node,)
