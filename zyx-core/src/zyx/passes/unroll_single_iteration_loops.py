"""Replace loops of one iteration by their body, and drop loops of none.

%1 = loop < 1 : i64             %1 = const 0 : i64
store %0[%1] = %2     =>    store %0[%1] = %2
endloop
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.kernel import data as k
from zyx.kernel.rewrite import DROPPED, Rewriter

if TYPE_CHECKING:
    from zyx.kernel.data import Kernel, Op, ValueId


def unroll_single_iteration_loops(kernel: Kernel) -> Kernel:
    """Return `kernel` without loops of fewer than two iterations."""
    loops = [op for op in kernel.ops if type(op) is k.Loop]
    if not any(loop.size < 2 and (loop.end is None or not loop.size) for loop in loops):
        return kernel
    rewriter = Rewriter()
    kept: list[bool] = []  # for each open region, whether its ends are
    absent = 0  # regions that are open inside of a loop that never runs, and that loop

    def rule(op: Op) -> ValueId | None:
        nonlocal absent
        match op:
            case k.Loop() | k.If() if absent:
                absent += 1
            case k.EndLoop() | k.EndIf() if absent:
                absent -= 1
            case _ if absent:
                pass
            case k.Loop(size=0):
                absent = 1
            case k.Loop(size=1, end=None):
                kept.append(False)
                return rewriter.const(0, op.type.dtype)
            case k.Loop() | k.If():
                kept.append(True)
                return None
            case k.EndLoop() | k.EndIf() if kept.pop():
                return None
            case k.EndLoop() | k.EndIf():
                return DROPPED
            case _:
                return None
        return DROPPED

    return rewriter.rewrite(kernel, rule)
