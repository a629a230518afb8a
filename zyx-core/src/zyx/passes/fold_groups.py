"""Lay the groups of a kernel out along axes that are long enough on the device.

    %1 = group 0 < 12 : i64            %1 = group 0 < 3600000 : i64
    %2 = group 1 < 300000 : i64   =>   %2 = mod %1, 12
                                       %3 = div %1, 12

Most devices have room for 2**31 groups along the first axis and for 65535 along the others; some, for 65535 along each.
Neighbours stay neighbours: groups are numbered, the first axis the fastest, and the numbers laid out along the first
axis as far as it goes, then along the next. Groups that this adds do nothing:

                                       %1 = group 1 < 4 : i64
                                       %2 = group 0 < 52501 : i64
    %1 = group 0 < 3 : i64             %3 = mad %1, 52501, %2 : i64
    %2 = group 1 < 70001 : i64    =>   %4 = le %3, 210002 : i64
                                       if %4
                                           %5 = mod %3, 3 : i64
                                           %6 = div %3, 3 : i64
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.data import Kernel
from zyx.kernel.rewrite import Rewriter
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType
    from zyx.kernel.data import Op, ValueId

_MAX_AXES = 3


def fold_groups(kernel: Kernel, max_groups: Sequence[int]) -> Kernel:
    """Return `kernel` with no more groups along each axis than there may be.

    Args:
        kernel: What to change. One that fits stays as it is, and so does one with more groups than there may be in all.
        max_groups: Most groups along each axis.
    """
    groups = kernel.grid[0]
    axes = folded(groups, max_groups)
    if axes is None or axes == groups:
        return kernel
    writer = Rewriter()
    parts: list[ValueId] = []
    count, launched = math.prod(groups), math.prod(axes)
    dtype = _dtype(kernel, launched)

    def number_groups() -> None:
        """Write the number of the group, and its position along each axis that there was."""
        number = _number(writer, axes, dtype)
        if launched > count:
            writer.open_if(writer.binary(BinaryOp.LE, number, writer.const(count - 1, dtype)))
        for size in groups[:-1]:
            parts.append(writer.binary(BinaryOp.MOD, number, writer.const(size, dtype)))
            number = writer.binary(BinaryOp.DIV, number, writer.const(size, dtype))
        parts.append(number)

    def replace(op: Op) -> ValueId | None:
        if isinstance(op, k.Index) and op.axis is k.Axis.GROUP:
            return writer.cast(parts[op.number], op.type.dtype)
        return None

    kernel = writer.rewrite(kernel, replace, number_groups)
    return Kernel(kernel.name, (*kernel.ops, k.EndIf())) if launched > count else kernel


def folded(groups: tuple[int, ...], max_groups: Sequence[int]) -> tuple[int, ...] | None:
    """Return sizes of axes within `max_groups` whose product is at least that of `groups`, and close to it.

    They are `groups` themselves if these fit, and None if there are too many.
    """
    if len(groups) <= len(max_groups) and all(n <= most for n, most in zip(groups, max_groups, strict=False)):
        return groups
    count = math.prod(groups)
    x, y, z = (*max_groups, 1, 1, 1)[:_MAX_AXES]
    third = -(-count // (x * y))
    if third > z:
        return None
    second = -(-count // (x * third))
    sizes = (-(-count // (second * third)), second, third)
    return sizes[: 3 if third > 1 else 2 if second > 1 else 1]


def _number(writer: Rewriter, axes: tuple[int, ...], dtype: DType) -> ValueId:
    """Write the number of the group: the first axis is the fastest."""
    number = writer.index(k.Axis.GROUP, len(axes) - 1, axes[-1], dtype)
    for axis in reversed(range(len(axes) - 1)):
        position = writer.index(k.Axis.GROUP, axis, axes[axis], dtype)
        number = writer.mad(number, writer.const(axes[axis], dtype), position)
    return number


def _dtype(kernel: Kernel, count: int) -> DType:
    """Return the widest type of the kernel's positions, or one that holds `count`."""
    used = (op.type.dtype for op in kernel.ops if isinstance(op, k.Index) and op.axis is k.Axis.GROUP)
    return max((dtypes.int32 if count <= dtypes.int32.max else dtypes.int64, *used), key=lambda dtype: dtype.bits)
