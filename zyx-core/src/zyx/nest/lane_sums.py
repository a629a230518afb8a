"""Sums of integers that are made floats: neighbours among the lanes may be added while they are integers.

    sum(l) of f32(i[l]) * s      =      sum(l') of f32(i[2 l'] + i[2 l' + 1]) * s           s: the same in all lanes

What is added is exact if it fits the dtype, so that the sum has fewer roundings; half as many lanes are converted,
scaled and accumulated. Where s is not finite, neither sum is, but they may differ in whether that is NaN: of s = inf
and the integers 0 and 1, the left side has 0 * inf, which is NaN, and the right side is inf.

Of products of short integers, ``i[l] = i32(a[l]) * i32(b[l])``, processors multiply and add
neighbours in one instruction (x86: vpmaddwd, and with accumulation vpdpwssd; Arm: smlal and addp).

Where four numbers that are summed lie side by side in each lane, ``i[l] = sum(t < 4) of a[4 l + t] * b[t]``, a group of
bytes is a lane of 32 bits: products of bytes are added in pairs as int16 as long as they fit, and then as int32 (x86:
vpmaddubsw, vpmaddwd).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.arithmetic.intervals import binary_range, cast_range, full_range
from zyx.nest import expr as e
from zyx.nest.accesses import below, stride_along
from zyx.nest.data import Compute, Kind
from zyx.ops import BinaryOp, ReduceOp

if TYPE_CHECKING:
    from zyx.arithmetic.intervals import Range as Interval
    from zyx.nest.data import Nest, Statement
    from zyx.nest.expr import Expr, Range

#: Bytes of a lane of 32 bits.
GROUP: Final = 4


def may_pair_lanes(statement: Statement, vector: Range | None) -> bool:
    """Whether a statement is a sum along `vector` of integers that may be added in pairs before they are floats."""
    return (
        vector is not None
        and vector.size >= 4
        and vector.size.bit_count() == 1
        and isinstance(statement, Compute)
        and statement.op is ReduceOp.SUM
        and statement.matrix is None
        and vector in statement.reduced
        and are_scaled_integers(statement.expr, vector)
    )


def group_of(statement: Statement, vector: Range | None) -> Range | None:
    """Return the range of the numbers in each lane of `vector`, where a statement sums groups of bytes; None elsewhere.

    It sums scaled integers along that range, products of bytes among them, and reads them lane behind lane.
    """
    if (
        vector is None
        or vector.size.bit_count() != 1
        or not isinstance(statement, Compute)
        or statement.op is not ReduceOp.SUM
        or statement.matrix is not None
        or vector in statement.reduced
    ):
        return None
    found = (r for r in statement.reduced if r.size == GROUP and _are_groups(statement.expr, vector, r))
    return next(found, None)


def written_out_group(nest: Nest, statement: Statement) -> Range | None:
    """Return the range of groups of bytes of a scheduled statement, where it is written out beside a vector range."""
    vector = next((r for r in statement.order if nest.kind(r) is Kind.VECTOR), None)
    group = group_of(statement, vector)
    return group if group is not None and nest.kind(group) is Kind.UNROLL else None


def _are_groups(expr: Expr, vector: Range, group: Range) -> bool:
    if not are_scaled_integers(expr, group):
        return False
    is_byte_product = False
    for each in below(expr):
        if isinstance(each, e.Read) and each.free & group.bit:
            step = stride_along(each.index, vector)
            if each.mask is not None or stride_along(each.index, group) != 1 or step not in (0, GROUP):
                return False
        elif not isinstance(each, e.Apply2 | e.Convert | e.Reinterpret | e.Affine | e.RangeRef | e.Literal):
            if each.free & group.bit:
                return False
        elif isinstance(each, e.Apply2) and each.op is BinaryOp.MUL and each.dtype is dtypes.int32:
            is_byte_product = is_byte_product or all(
                x.free & group.bit and narrow(x).dtype.bits == 8 for x in (each.x, each.y)
            )
    return is_byte_product


def narrow(expr: Expr) -> Expr:
    """Return the integers of the shortest dtype that `expr` is made of by conversions that keep all of them."""
    while True:
        match expr:
            case e.Convert(x=x) if (
                x.dtype is not e.INDEX and x.dtype.is_integer and interval_of(x) == interval_of(expr)
            ):
                expr = x
            case e.Reinterpret(x=x) if x.dtype.is_integer and interval_of(x) == interval_of(expr):
                expr = x
            case _:
                return expr


def are_scaled_integers(expr: Expr, vector: Range) -> bool:
    """Whether an expression is a sum of integers along `vector`, made float32, times what is the same in all lanes."""
    if not expr.free & vector.bit or expr.dtype is not dtypes.float32:
        return False
    match expr:
        case e.Apply2(op=BinaryOp.ADD, x=x, y=y):
            return are_scaled_integers(x, vector) and are_scaled_integers(y, vector)
        case e.Apply2(op=BinaryOp.MUL, x=x, y=y):
            return (not x.free & vector.bit and are_scaled_integers(y, vector)) or (
                not y.free & vector.bit and are_scaled_integers(x, vector)
            )
        case e.Convert(x=x) if x.dtype is dtypes.int32:
            low, high = interval_of(x)
            return int(dtypes.int32.min) <= 2 * low and 2 * high <= int(dtypes.int32.max)
        case _:
            return False


def interval_of(expr: Expr) -> Interval:
    """Return where an expression of integers or bools lies, as far as its operations tell."""
    match expr:
        case e.Literal(value=value):
            return int(value), int(value)
        case e.Convert(x=x) if x.dtype is not e.INDEX and (x.dtype.is_integer or x.dtype.is_bool):
            return cast_range(interval_of(x), expr.dtype)
        case e.Reinterpret(x=x) if expr.dtype.is_integer and x.dtype.is_integer:
            found, full = interval_of(x), full_range(expr.dtype)
            return found if full[0] <= found[0] and found[1] <= full[1] else full
        case e.Apply2(op=op, x=x, y=y) if x.dtype is not e.INDEX and x.dtype.is_integer:
            return binary_range(op, interval_of(x), interval_of(y), x.dtype)
        case _:
            return full_range(expr.dtype)
