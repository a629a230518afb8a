"""Replace `Mad` by a product and a sum, for devices without it: each is rounded.

%3 = mad %0, %1, %2 : f32     =>    %3 = mul %0, %1 : f32
%4 = add %3, %2 : f32
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.ir import kernel as k
from zyx.ir.rewriter import Rewriter
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from zyx.ir.kernel import Kernel, Op, ValueId


def split_multiply_add(kernel: Kernel) -> Kernel:
    """Return `kernel` without `Mad`."""
    rewriter = Rewriter()

    def rule(op: Op) -> ValueId | None:
        if not isinstance(op, k.Mad):
            return None
        return rewriter.binary(BinaryOp.ADD, rewriter.binary(BinaryOp.MUL, op.x, op.y), op.z)

    return rewriter.rewrite(kernel, rule)
