"""Comparison, logic, bits: functions of two operands, and of one.

Operands broadcast and are promoted, see `zyx.functions.operands`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.errors import DTypeError
from zyx.functions.arithmetic import operate
from zyx.functions.operands import (
    align,
    term_of,
    wrap,
)
from zyx.ops import BinaryOp
from zyx.runtime.handle import Handle

if TYPE_CHECKING:
    from zyx.functions import Tensor
    from zyx.functions.operands import Operand

__all__ = [
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "equal", "greater", "greater_equal", "less", "less_equal", "logical_and", "logical_not", "logical_or",
    "logical_xor", "not_equal",
]  # fmt: skip


def _compare(op: BinaryOp, x: Operand, y: Operand) -> Tensor:
    """Return a comparison; an integer that the other operand's type cannot hold is greater or less than all of it."""
    if type(x) is int and isinstance(y, Handle):
        number, other, is_left = x, y, True
    elif type(y) is int and isinstance(x, Handle):
        number, other, is_left = y, x, False
    else:
        return operate(op, x, y)
    node = other.node
    held = dtypes.int64 if node.dtype.is_bool else node.dtype
    if held.is_inexact or held.min <= number <= held.max:
        return operate(op, x, y)
    right_is_greater = (number > 0) is not is_left
    holds = right_is_greater if op in (BinaryOp.LT, BinaryOp.LE) else op is BinaryOp.NE
    return wrap(other.runtime.graph.const(holds, dtypes.bool_, node.device, node.shape), other)


# ---- comparison


def equal(x: Operand, y: Operand) -> Tensor:
    """Tell where ``x == y``, element by element.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or there is no dtype that both fit into.

    >>> zyx.equal(zyx.Tensor([1, 2]), 2).tolist()
    [False, True]
    """
    return _compare(BinaryOp.EQ, x, y)


def not_equal(x: Operand, y: Operand) -> Tensor:
    """Tell where ``x != y``, element by element; NaN differs from everything.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or there is no dtype that both fit into.

    >>> zyx.not_equal(zyx.Tensor([1, 2]), 2).tolist()
    [True, False]
    """
    return _compare(BinaryOp.NE, x, y)


def less(x: Operand, y: Operand) -> Tensor:
    """Tell where ``x < y``, element by element.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is complex.

    >>> zyx.less(zyx.Tensor([1, 2, 3]), 2).tolist()
    [True, False, False]
    """
    return _compare(BinaryOp.LT, x, y)


def less_equal(x: Operand, y: Operand) -> Tensor:
    """Tell where ``x <= y``, element by element.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is complex.

    >>> zyx.less_equal(zyx.Tensor([1, 2, 3]), 2).tolist()
    [True, True, False]
    """
    return _compare(BinaryOp.LE, x, y)


def greater(x: Operand, y: Operand) -> Tensor:
    """Tell where ``x > y``, element by element.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is complex.

    >>> zyx.greater(zyx.Tensor([1, 2, 3]), 2).tolist()
    [False, False, True]
    """
    return _compare(BinaryOp.LT, y, x)


def greater_equal(x: Operand, y: Operand) -> Tensor:
    """Tell where ``x >= y``, element by element.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is complex.

    >>> zyx.greater_equal(zyx.Tensor([1, 2, 3]), 2).tolist()
    [False, True, True]
    """
    return _compare(BinaryOp.LE, y, x)


# ---- bits and logic


def _bits(op: BinaryOp, x: Operand, y: Operand, what: str) -> Tensor:
    like, (left, right) = align((x, y), what)
    if left.dtype.is_inexact:
        raise DTypeError(f"{what} takes integers or bools, not {left.dtype}")
    return wrap(left.binary(op, right).node, like)


def bitwise_and(x: Operand, y: Operand) -> Tensor:
    """Return ``x & y`` of each two elements, integers or bools.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is of floats or complex numbers.

    >>> zyx.bitwise_and(zyx.Tensor([6, 5]), 3).tolist()
    [2, 1]
    """
    return _bits(BinaryOp.AND, x, y, "bitwise_and")


def bitwise_or(x: Operand, y: Operand) -> Tensor:
    """Return ``x | y`` of each two elements, integers or bools.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is of floats or complex numbers.

    >>> zyx.bitwise_or(zyx.Tensor([6, 5]), 3).tolist()
    [7, 7]
    """
    return _bits(BinaryOp.OR, x, y, "bitwise_or")


def bitwise_xor(x: Operand, y: Operand) -> Tensor:
    """Return ``x ^ y`` of each two elements, integers or bools.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is of floats or complex numbers.

    >>> zyx.bitwise_xor(zyx.Tensor([6, 5]), 3).tolist()
    [5, 6]
    """
    return _bits(BinaryOp.XOR, x, y, "bitwise_xor")


def bitwise_left_shift(x: Operand, y: Operand) -> Tensor:
    """Return ``x << y`` of each two elements, integers; 0 once all bits are out.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is not of integers.

    >>> zyx.bitwise_left_shift(zyx.Tensor([1, 3]), 2).tolist()
    [4, 12]
    """
    return _bits(BinaryOp.SHL, x, y, "bitwise_left_shift")


def bitwise_right_shift(x: Operand, y: Operand) -> Tensor:
    """Return ``x >> y`` of each two elements, integers, keeping the sign.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is not of integers.

    >>> zyx.bitwise_right_shift(zyx.Tensor([8, -8]), 2).tolist()
    [2, -2]
    """
    return _bits(BinaryOp.SHR, x, y, "bitwise_right_shift")


def bitwise_invert(x: Tensor) -> Tensor:
    """Return ``~x`` of each element, an integer or bool.

    Raises:
        DTypeError: `x` is no tensor, or of floats or complex numbers.

    >>> zyx.bitwise_invert(zyx.Tensor([0, 5])).tolist()
    [-1, -6]
    """
    term = term_of(x, "bitwise_invert")
    if term.dtype.is_inexact:
        raise DTypeError(f"bitwise_invert takes integers or bools, not {term.dtype}")
    return wrap((~term).node, x)


def _logic(op: BinaryOp, x: Operand, y: Operand, what: str) -> Tensor:
    like, (left, right) = align((x, y), what)
    return wrap(left.cast(dtypes.bool_).binary(op, right.cast(dtypes.bool_)).node, like)


def logical_and(x: Operand, y: Operand) -> Tensor:
    """Tell where the elements of both are nonzero.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or there is no dtype that both fit into.

    >>> zyx.logical_and(zyx.Tensor([True, True]), zyx.Tensor([True, False])).tolist()
    [True, False]
    """
    return _logic(BinaryOp.AND, x, y, "logical_and")


def logical_or(x: Operand, y: Operand) -> Tensor:
    """Tell where an element of either is nonzero.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or there is no dtype that both fit into.

    >>> zyx.logical_or(zyx.Tensor([True, False]), zyx.Tensor([0, 0])).tolist()
    [True, False]
    """
    return _logic(BinaryOp.OR, x, y, "logical_or")


def logical_xor(x: Operand, y: Operand) -> Tensor:
    """Tell where the element of one is nonzero and that of the other is not.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or there is no dtype that both fit into.

    >>> zyx.logical_xor(zyx.Tensor([True, False]), zyx.Tensor([1, 1])).tolist()
    [False, True]
    """
    return _logic(BinaryOp.XOR, x, y, "logical_xor")


def logical_not(x: Tensor) -> Tensor:
    """Tell which elements are zero.

    Raises:
        DTypeError: `x` is no tensor.

    >>> zyx.logical_not(zyx.Tensor([True, False])).tolist()
    [False, True]
    """
    return wrap((~term_of(x, "logical_not").cast(dtypes.bool_)).node, x)
