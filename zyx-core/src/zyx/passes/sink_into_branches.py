"""Move what only a branch needs into it.

    %4 = mul %2, %3 : i64              if %1
    if %1                        =>        %4 = mul %2, %3 : i64
        store %0[%4] = %2                  store %0[%4] = %2
    endif                              endif

Lowering computes positions and masks where the ranges are that they depend on, in front of the branches of a loop's
body. Those of a branch that is seldom taken may be most of the body. Nothing moves into a loop, and no load moves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.kernel import data as k
from zyx.kernel.data import Kernel
from zyx.kernel.rewrite import DROPPED, renumber

if TYPE_CHECKING:
    from zyx.kernel.data import Op, ValueId


def sink_into_branches(kernel: Kernel) -> Kernel:
    """Return `kernel` with values that one branch alone uses in that branch."""
    ops = kernel.ops
    if k.If not in set(map(type, ops)):
        return kernel
    regions = _regions(ops)
    users: list[ValueId | None] = [None] * len(ops)  # the innermost region with all users so far; -1 is the kernel
    moved: dict[ValueId, list[ValueId]] = {}
    where: dict[ValueId, ValueId] = {}
    for number in range(len(ops) - 1, -1, -1):
        op = ops[number]
        region = regions[number]
        found = users[number]
        if type(op) in _MOVABLE and found is not None:
            region = _branch_within(ops, regions, region, found)
            if region != regions[number]:
                moved.setdefault(region, []).append(number)
                where[number] = region
        for operand in k.operands(op):
            other = users[operand]
            users[operand] = region if other is None else _common(regions, region, other)
    if not moved:
        return kernel
    order: list[ValueId] = []
    for number in range(len(ops)):
        if number not in where:
            order.append(number)
            order.extend(reversed(moved.get(number, ())))
    renamed = [DROPPED] * len(order)
    for new, old in enumerate(order):
        renamed[old] = new
    return Kernel(kernel.name, tuple(renumber(ops[old], renamed) for old in order))


def _regions(ops: tuple[Op, ...]) -> list[ValueId]:
    """Return the opener of the region that each operation is in, -1 if it is in none; of an opener, that around it."""
    result: list[ValueId] = []
    stack = [-1]
    for number, op in enumerate(ops):
        if isinstance(op, k.EndLoop | k.EndIf):
            stack.pop()
        result.append(stack[-1])
        if isinstance(op, k.Loop | k.If):
            stack.append(number)
    return result


def _common(regions: list[ValueId], x: ValueId, y: ValueId) -> ValueId:
    """Return the innermost region that both are, or are in: openers of inner regions come later."""
    while x != y:
        if x > y:
            x = regions[x]
        else:
            y = regions[y]
    return x


def _branch_within(ops: tuple[Op, ...], regions: list[ValueId], outer: ValueId, inner: ValueId) -> ValueId:
    """Return the innermost region from `outer` to `inner` that is reached through branches alone."""
    path = []
    while inner != outer:
        path.append(inner)
        inner = regions[inner]
    for region in reversed(path):
        if not isinstance(ops[region], k.If):
            break
        outer = region
    return outer


_MOVABLE: Final[frozenset[type[Op]]] = frozenset(
    {
        k.Const, k.Unary, k.Binary, k.Where, k.Cast, k.Bitcast, k.Mad, k.Vectorize, k.Devectorize, k.Shuffle,
    }
)  # fmt: skip
