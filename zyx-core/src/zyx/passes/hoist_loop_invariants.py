"""Move what does not change in a loop to before it.

    %3 = loop < 16 : i64                %4 = const 8 : i64
        %4 = const 8 : i64              %5 = mul %2, %4 : i64
        %5 = mul %2, %4 : i64           %3 = loop < 16 : i64
        %6 = add %5, %3 : i64     =>        %6 = add %5, %3 : i64
        store %0[%6] = %1                   store %0[%6] = %1
    endloop                             endloop

Values move as far out as their operands allow, but not out of an `If`, whose condition may be what makes them valid.
Loads move too, if they are not in an `If`, and the array is not stored to in the loop; so the loop must run at least
once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.kernel import data as k
from zyx.kernel.data import Kernel
from zyx.kernel.rewrite import DROPPED, renumber
from zyx.passes.effects import stored_in_loops

if TYPE_CHECKING:
    from zyx.kernel.data import Op, ValueId


def hoist_loop_invariants(kernel: Kernel) -> Kernel:
    """Return `kernel` with values outside of the loops that they do not depend on."""
    ops = kernel.ops
    stored_in = stored_in_loops(ops)
    # The new order of each open region; a region that ends is appended to the one around it, behind what left it.
    orders: list[list[ValueId]] = [[]]
    openers: list[ValueId | None] = [None]
    levels = [0] * len(ops)
    moved = False
    for number, op in enumerate(ops):
        kind = type(op)
        if kind is k.Loop or kind is k.If:
            orders.append([number])
            openers.append(number)
            levels[number] = len(orders) - 1
            continue
        if kind is k.EndLoop or kind is k.EndIf:
            region = orders.pop()
            openers.pop()
            orders[-1].extend(region)
            orders[-1].append(number)
            continue
        level = len(orders) - 1
        if level and kind in _MOVABLE:
            array = op.source if isinstance(op, k.Load) else None
            least = max([levels[operand] for operand in k.OPERANDS[kind](op)], default=0)
            while level > least:
                opener = openers[level]
                assert opener is not None
                region_op = ops[opener]
                if not isinstance(region_op, k.Loop) or region_op.size == 0 or array in stored_in[opener]:
                    break
                level -= 1
            moved = moved or level < len(orders) - 1
        orders[level].append(number)
        levels[number] = level
    if not moved:
        return kernel
    return _reordered(kernel, orders[0])


def _reordered(kernel: Kernel, order: list[ValueId]) -> Kernel:
    """Return the kernel with its operations in another order."""
    renamed = [DROPPED] * len(order)
    for new, old in enumerate(order):
        renamed[old] = new
    return Kernel(kernel.name, tuple(renumber(kernel.ops[old], renamed) for old in order))


_MOVABLE: Final[frozenset[type[Op]]] = frozenset(
    {
        k.Const, k.Index, k.Load, k.Unary, k.Binary, k.Where, k.Cast, k.Bitcast, k.Mad, k.Vectorize, k.Devectorize,
        k.Shuffle,
    }
)  # fmt: skip
