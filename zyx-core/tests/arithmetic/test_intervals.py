"""Range arithmetic against all values that the ranges hold."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zyx import dtype as dtypes
from zyx.arithmetic.intervals import binary_range, cast_range, full_range, unary_range, union
from zyx.ops import COMPARISONS, BinaryOp, binary_ops, unary_ops
from zyx.semantics import apply_binary, apply_cast, apply_unary

SMALL = [dtypes.int8, dtypes.uint8, dtypes.bool_]


def ranges_of(dtype):
    low, high = full_range(dtype)
    ends = st.integers(low, high) | st.sampled_from([v for v in (low, -2, -1, 0, 1, 2, 7, 8, high) if low <= v <= high])
    return st.tuples(ends, ends).map(lambda pair: (min(pair), max(pair)))


def all_values(range_, dtype):
    return np.arange(range_[0], range_[1] + 1).astype(dtype.numpy)


def holds(range_, values) -> bool:
    return range_[0] <= int(values.min()) and int(values.max()) <= range_[1]


@pytest.mark.parametrize("dtype", SMALL, ids=str)
@given(data=st.data())
def test_a_binary_range_holds_every_result(dtype, data):
    x, y = data.draw(ranges_of(dtype)), data.draw(ranges_of(dtype))
    left, right = all_values(x, dtype)[:, None], all_values(y, dtype)[None, :]
    for op in binary_ops(dtype):
        assert holds(binary_range(op, x, y, dtype), apply_binary(op, left, right)), op


@pytest.mark.parametrize("dtype", SMALL, ids=str)
@given(data=st.data())
def test_a_unary_range_and_a_cast_range_hold_every_result(dtype, data):
    x = data.draw(ranges_of(dtype))
    for op in unary_ops(dtype):
        assert holds(unary_range(op, x, dtype), apply_unary(op, all_values(x, dtype))), op
    for target in dtypes.ALL:
        if not target.is_float:
            assert holds(cast_range(x, target), apply_cast(all_values(x, dtype), target)), target


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_the_range_of_an_operation_on_single_values_is_its_result(dtype):
    """But for bit operations, remainders and powers, of which only bounds are known."""
    low, high = full_range(dtype)
    values = [v for v in (low, low + 1, -3, -1, 0, 1, 2, 5, high - 1, high) if low <= v <= high]
    inexact = {BinaryOp.MOD, BinaryOp.AND, BinaryOp.OR, BinaryOp.XOR, BinaryOp.POW}
    for op, x, y in itertools.product(binary_ops(dtype), values, values):
        result = apply_binary(op, np.array([x], dtype.numpy), np.array([y], dtype.numpy))
        found = binary_range(op, (x, x), (y, y), dtype)
        wraps = found == full_range(dtype)
        assert found == (int(result[0]),) * 2 or op in inexact or wraps, (op, x, y)


def test_ranges_are_as_tight_as_index_arithmetic_needs():
    i64 = dtypes.int64
    assert binary_range(BinaryOp.ADD, (0, 7), (8, 15), i64) == (8, 22)
    assert binary_range(BinaryOp.SUB, (0, 7), (8, 15), i64) == (-15, -1)
    assert binary_range(BinaryOp.MUL, (-2, 3), (-5, 7), i64) == (-15, 21)
    assert binary_range(BinaryOp.DIV, (0, 1023), (10, 10), i64) == (0, 102)
    assert binary_range(BinaryOp.DIV, (-7, 7), (2, 2), i64) == (-3, 3)
    assert binary_range(BinaryOp.DIV, (5, 9), (-1, 1), i64) == (-9, 9)
    assert binary_range(BinaryOp.MOD, (0, 1023), (10, 10), i64) == (0, 9)
    assert binary_range(BinaryOp.MOD, (0, 5), (10, 10), i64) == (0, 5)
    assert binary_range(BinaryOp.MOD, (-3, 5), (10, 10), i64) == (-3, 5)
    assert binary_range(BinaryOp.SHL, (0, 7), (3, 3), i64) == (0, 56)
    assert binary_range(BinaryOp.SHR, (0, 100), (3, 3), i64) == (0, 12)
    assert binary_range(BinaryOp.AND, (-100, 100), (7, 7), i64) == (0, 7)
    assert binary_range(BinaryOp.MIN, (0, 1023), (999, 999), i64) == (0, 999)
    assert binary_range(BinaryOp.MAX, (-5, 1023), (0, 0), i64) == (0, 1023)
    assert binary_range(BinaryOp.LT, (0, 7), (8, 8), i64) == (1, 1)
    assert binary_range(BinaryOp.EQ, (0, 7), (8, 8), i64) == (0, 0)
    assert binary_range(BinaryOp.LE, (0, 8), (8, 8), i64) == (1, 1)
    assert binary_range(BinaryOp.NE, (0, 7), (7, 7), i64) == (0, 1)
    assert union((0, 3), (7, 9)) == (0, 9)


def test_what_may_wrap_may_be_anything():
    assert binary_range(BinaryOp.ADD, (0, 1), (127, 127), dtypes.int8) == (-128, 127)
    assert binary_range(BinaryOp.SUB, (0, 1), (1, 1), dtypes.uint8) == (0, 255)
    assert binary_ops(dtypes.int8) >= COMPARISONS
