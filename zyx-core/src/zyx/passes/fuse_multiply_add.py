"""Join a product of floats and the sum that is its only use, so that it is rounded once.

    %3 = mul %0, %1 : f32     =>    %3 = mul %0, %1 : f32
    %4 = add %3, %2 : f32           %4 = mad %0, %1, %2 : f32

The product stays behind; `eliminate_dead_code` removes it. In a difference one operand is negated, which is exact. The
result changes in its last bit, unless the device rounds twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.kernel import data as k
from zyx.kernel.rewrite import Rewriter
from zyx.ops import BinaryOp, UnaryOp

if TYPE_CHECKING:
    from zyx.kernel.data import Kernel, Op, ValueId


def fuse_multiply_add(kernel: Kernel) -> Kernel:
    """Return `kernel` with products and sums of floats joined, where both are in one region."""
    rewriter = Rewriter()
    uses = [0] * len(kernel.ops)
    for op in kernel.ops:
        for operand in k.OPERANDS[type(op)](op):
            uses[operand] += 1
    products: list[dict[ValueId, k.Binary]] = [{}]  # of each open region, those with one use

    def product(value: ValueId) -> k.Binary | None:
        return products[-1].get(value)

    def rule(op: Op) -> ValueId | None:
        if type(op) not in _CONCERNED:
            return None
        match op:
            case k.Loop() | k.If():
                products.append({})
            case k.EndLoop() | k.EndIf():
                products.pop()
            case k.Binary(op=BinaryOp.MUL, type=type_) if type_.dtype.is_float:
                if uses[len(rewriter.renamed)] == 1:
                    products[-1][len(rewriter.ops)] = op
            case k.Binary(op=BinaryOp.ADD, x=x, y=y, type=type_) if type_.dtype.is_float:
                for value, other in ((x, y), (y, x)):
                    factors = product(value)
                    if factors is not None:
                        return rewriter.mad(factors.x, factors.y, other)
            case k.Binary(op=BinaryOp.SUB, x=x, y=y, type=type_) if type_.dtype.is_float:
                factors = product(x)
                if factors is not None:
                    return rewriter.mad(factors.x, factors.y, rewriter.unary(UnaryOp.NEG, y))
                factors = product(y)
                if factors is not None:
                    return rewriter.mad(rewriter.unary(UnaryOp.NEG, factors.x), factors.y, x)
            case _:
                pass
        return None

    return rewriter.rewrite(kernel, rule)


# Looked up before a match, since most operations are none of these.
_CONCERNED: Final[frozenset[type[Op]]] = frozenset({k.Binary, k.Loop, k.EndLoop, k.If, k.EndIf})
