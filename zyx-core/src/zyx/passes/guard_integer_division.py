"""Keep the divisors of integers from being 0, or -1 where that overflows, so that devices may divide plainly.

    %2 = div %0, %1 : i32     =>    %zero = eq %1, 0
                                    %minus = eq %1, -1
                                    %bad = or %zero, %minus
                                    %safe = where %bad, 1, %1
                                    %2 = div %0, %safe
                                    %negated = neg %0
                                    %signed = where %minus, %negated, %2
                                    %result = where %zero, 0, %signed

A remainder by `%safe` needs no more: it is 0 in both cases. Divisors whose range excludes 0 and -1, and those made like
`%safe`, stay as they are; of the comparisons, those that can hold are written.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from zyx.kernel import data as k
from zyx.ops import BinaryOp, UnaryOp
from zyx.passes.rules import Rules, applied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.kernel.data import Kernel, Op, ValueId
    from zyx.kernel.rewrite import BoundedRewriter


def guard_integer_division(kernel: Kernel) -> Kernel:
    """Return `kernel` with the divisors of integer `DIV` and `MOD` safe."""
    return applied(kernel, SafeDivisors())


class SafeDivisors(Rules):
    """Keeps the divisors of integers from being 0, or -1 where that overflows."""

    looks_at = frozenset({BinaryOp.DIV, BinaryOp.MOD})

    def write(self, b: BoundedRewriter, op: k.Binary) -> ValueId | None:
        """Return what a division by a divisor that may be unsafe gives."""
        if not op.type.dtype.is_integer:
            return None
        unsafe = _unsafe_divisors(b, op)
        return _guarded(b, op, unsafe) if unsafe else None


def _unsafe_divisors(rewriter: BoundedRewriter, op: k.Binary) -> set[int]:
    """Return which of 0 and -1 the divisor may be that must not be."""
    bounds = rewriter.bounds
    unsafe = {0} if op.type.dtype.is_unsigned or bounds.range_of(op.x)[0] > op.type.dtype.min else {0, -1}
    value = op.y
    while unsafe := _possible(rewriter, value, unsafe):
        divisor = bounds.ops[value]
        if not isinstance(divisor, k.Where) or _possible(rewriter, divisor.x, unsafe):
            break
        unsafe = unsafe - _excluded(bounds.ops, divisor.condition, divisor.y)
        value = divisor.y
    return unsafe


def _possible(rewriter: BoundedRewriter, value: ValueId, among: set[int]) -> set[int]:
    low, high = rewriter.bounds.range_of(value)
    return {number for number in among if low <= number <= high}


def _excluded(ops: Sequence[Op], condition: ValueId, value: ValueId) -> set[int]:
    """Return what `value` is not where `condition` does not hold."""
    match ops[condition]:
        case k.Binary(op=BinaryOp.OR, x=x, y=y):
            return _excluded(ops, x, value) | _excluded(ops, y, value)
        case k.Binary(op=BinaryOp.EQ, x=x, y=y):
            other = ops[y] if x == value else ops[x] if y == value else None
            return {int(other.value)} if isinstance(other, k.Const) else set()
        case _:
            return set()


def _guarded(rewriter: BoundedRewriter, op: k.Binary, unsafe: set[int]) -> ValueId:
    tests = {number: rewriter.binary(BinaryOp.EQ, op.y, rewriter.like(number, op.y)) for number in sorted(unsafe)}
    is_unsafe = functools.reduce(lambda x, y: rewriter.binary(BinaryOp.OR, x, y), tests.values())
    result = rewriter.binary(op.op, op.x, rewriter.where(is_unsafe, rewriter.like(1, op.y), op.y))
    if op.op is BinaryOp.DIV:
        if -1 in tests:
            result = rewriter.where(tests[-1], rewriter.unary(UnaryOp.NEG, op.x), result)
        if 0 in tests:
            result = rewriter.where(tests[0], rewriter.like(0, op.x), result)
    return result
