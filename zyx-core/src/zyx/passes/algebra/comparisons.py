"""Identities of comparisons of integers: what is compared with a constant stands alone on its side.

    %5 = neg %3 : i32                %6 = const 26 : i32
    %6 = const 26 : i32       =>     %8 = eq %3, %6 : bool
    %7 = add %5, %6 : i32
    %8 = eq %7, %0 : bool            with %0 = const 0 : i32

Whether two numbers are equal does not change if both are moved around the circle of wrapping arithmetic. Which of them
is less does, so what is ordered is moved only where its range says that nothing wraps. Besides saving an operation,
this keeps differences from compilers of drivers, some of which fold ``26 - min(i, 26) == 0`` to true.

They do so with ``max(min(i, 26), 0) == 26``, too, where what is compared is converted besides: ptxas of CUDA 13.0 gives
code that takes every index for the last one. Whether a minimum or maximum is at the end of its range is asked by order,
``25 < ...``, which was right in all surroundings that were tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.ops import BinaryOp, UnaryOp

if TYPE_CHECKING:
    from zyx.kernel import data as k
    from zyx.kernel.data import ValueId
    from zyx.passes.algebra.simplifier import Simplifier

ADD, SUB, EQ, NE = BinaryOp.ADD, BinaryOp.SUB, BinaryOp.EQ, BinaryOp.NE


def simplify_comparison(s: Simplifier, op: k.Binary) -> ValueId | None:
    """Return what equals a comparison of integers, or None."""
    known = s.bounds.decide(op.op, op.x, op.y)
    lanes = op.type.lanes
    if known is not None and all(s.bounds.decide(op.op, op.x, op.y, lane) is known for lane in range(1, lanes)):
        return s.const(known, op.type.dtype, lanes)
    return _equality(s, op) if op.op in (EQ, NE) else _order(s, op)


def _equality(s: Simplifier, op: k.Binary) -> ValueId | None:
    """Return a comparison for equality whose operands are smaller: constants come second."""
    x, y = op.x, op.y
    constant = s.integer(y)
    if constant is None:
        first, second = s.as_unary(x, UnaryOp.NEG), s.as_unary(y, UnaryOp.NEG)
        return None if first is None or second is None else s.binary(op.op, first, second)
    end = _end(s, op, constant)
    if end is not None:
        return end
    wrap = s.type_of(x).dtype.wrap
    total = s.with_integer(x, ADD)
    if total is not None:
        return s.binary(op.op, total[0], s.like(wrap(constant - total[1]), x))
    turned = _turned(s, x)
    if turned is not None:
        return s.binary(op.op, turned[1], s.like(wrap(turned[0] - constant), x))
    sides = s.as_binary(x, SUB) or s.as_binary(x, BinaryOp.XOR)
    return s.binary(op.op, *sides) if constant == 0 and sides is not None else None


def _end(s: Simplifier, op: k.Binary, constant: int) -> ValueId | None:
    """Return whether a minimum or maximum is, or is not, at the end of its range that `constant` is; else None."""
    x = op.x
    if s.as_binary(x, BinaryOp.MIN) is None and s.as_binary(x, BinaryOp.MAX) is None:
        return None
    low, high = s.bounds.range_of(x)
    if low == high or constant not in (low, high):
        return None
    is_equal = op.op is EQ
    limit = s.like(constant if not is_equal else constant + 1 if constant == low else constant - 1, x)
    is_below = (constant == low) is is_equal
    return s.binary(BinaryOp.LT, x, limit) if is_below else s.binary(BinaryOp.LT, limit, x)


def _order(s: Simplifier, op: k.Binary) -> ValueId | None:
    """Return a comparison of order whose operands are smaller, where these do not wrap."""
    for is_first, x, constant in ((True, op.x, s.integer(op.y)), (False, op.y, s.integer(op.x))):
        if constant is None:
            continue
        dtype = s.type_of(x).dtype
        total, turned, difference = s.with_integer(x, ADD), _turned(s, x), s.as_binary(x, SUB)
        if total is not None:
            (inner, added), flips = total, False
            low, high = (bound + added for bound in s.bounds.range_of(inner))
            limit = constant - added
        elif turned is not None:
            (start, inner), flips = turned, True
            high, low = (start - bound for bound in s.bounds.range_of(inner))
            limit = start - constant
        elif difference is not None and constant == 0:
            left, right = (s.bounds.range_of(value) for value in difference)
            if left[0] - right[1] < dtype.min or left[1] - right[0] > dtype.max:
                return None
            return s.binary(op.op, *(difference if is_first else reversed(difference)))
        else:
            continue
        if low < dtype.min or high > dtype.max or not dtype.min <= limit <= dtype.max:
            return None
        bound = s.like(limit, x)
        return s.binary(op.op, inner, bound) if is_first is not flips else s.binary(op.op, bound, inner)
    return None


def _turned(s: Simplifier, x: ValueId) -> tuple[int, ValueId] | None:
    """Return the constant that `x` is less by some value, and that value, if `x` is such a difference."""
    negated, difference = s.as_unary(x, UnaryOp.NEG), s.as_binary(x, SUB)
    if negated is not None:
        return 0, negated
    start = None if difference is None else s.integer(difference[0])
    return None if difference is None or start is None else (start, difference[1])
