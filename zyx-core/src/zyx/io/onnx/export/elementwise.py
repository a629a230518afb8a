"""Element by element: operators of one, two and three operands, and conversions.

Where ONNX has no such operator for a dtype, or ONNX Runtime no kernel, it is made of others that give the same values.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from zyx import dtype as dtypes
from zyx.graph import node as n
from zyx.io.onnx.export.sizes import dims_of
from zyx.io.onnx.export.writer import CannotWriteError
from zyx.io.onnx.values import number_of
from zyx.ops import BinaryOp, UnaryOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.dtype import DType
    from zyx.graph.node import Node
    from zyx.io.onnx.export.writer import GraphValue, GraphWriter

Unary: TypeAlias = "Callable[[GraphWriter, GraphValue], GraphValue]"
Binary: TypeAlias = "Callable[[GraphWriter, GraphValue, GraphValue], GraphValue]"

_INT32, _INT64, _UINT8 = dtypes.int32, dtypes.int64, dtypes.uint8
#: By operator, what stands in for dtypes that it is not there for. Integers come back by wrapping.
STAND_INS: Final[dict[str, dict[DType, DType]]] = {
    "Where": {dtypes.uint16: _INT32, dtypes.int16: _INT32, dtypes.uint64: _INT64, dtypes.bool_: _UINT8},
    "Max": {dtypes.uint16: _INT32, dtypes.int16: _INT32},
    "Min": {dtypes.uint16: _INT32, dtypes.int16: _INT32},
}


def operand(w: GraphWriter, node: Node) -> GraphValue:
    """Return an operand, lean, maybe without axes of size 1 in front; a constant has none at all."""
    return w.scalar(node.value, node.dtype) if isinstance(node, n.Const) else w.trimmed(w.lean(node))


def through(w: GraphWriter, kind: str, x: GraphValue, y: GraphValue, *before: GraphValue) -> GraphValue:
    """Return what an operator gives, of two operands in the dtype that stands in, and those before them."""
    wide = STAND_INS[kind].get(x.dtype, x.dtype)
    return w.cast(w.like(kind, *before, w.cast(x, wide), w.cast(y, wide), dtype=wide), x.dtype)


def _shaped(w: GraphWriter, node: Node, value: GraphValue) -> GraphValue:
    """Return a result in the rank of its node."""
    return w.reshape(value, (*[1] * (node.ndim - len(value.dims)), *value.dims))


def write_unary(w: GraphWriter, node: n.Unary) -> GraphValue:
    """Write one operand's operator."""
    return _shaped(w, node, _UNARY[node.op](w, operand(w, node.sources[0])))


def write_binary(w: GraphWriter, node: n.Binary) -> GraphValue:
    """Write two operands' operator."""
    x, y = [operand(w, source) for source in node.sources]
    return _shaped(w, node, _BINARY[node.op](w, x, y))


def write_where(w: GraphWriter, node: n.Where) -> GraphValue:
    """Write a choice."""
    condition, x, y = [operand(w, source) for source in node.sources]
    return _shaped(w, node, where(w, condition, x, y))


def write_cast(w: GraphWriter, node: n.Cast) -> GraphValue:
    """Write a conversion; floats that an integer cannot hold become its bounds, NaN 0."""
    x = w.lean(node.sources[0])
    if not (x.dtype.is_float and node.dtype.is_integer):
        return w.cast(x, node.dtype)
    wide = x if x.dtype.bits >= 32 else w.cast(x, dtypes.float32)
    low, end = float(node.dtype.min), float(int(node.dtype.max) + 1)
    found = w.cast(where(w, w.like("IsNaN", wide, dtype=dtypes.bool_), w.scalar(0.0, wide.dtype), wide), node.dtype)
    below = w.like("Less", wide, w.scalar(low, wide.dtype), dtype=dtypes.bool_)
    above = w.like("GreaterOrEqual", wide, w.scalar(end, wide.dtype), dtype=dtypes.bool_)
    found = where(w, below, w.scalar(node.dtype.min, node.dtype), found)
    return where(w, above, w.scalar(node.dtype.max, node.dtype), found)


def write_bitcast(w: GraphWriter, node: n.Bitcast) -> GraphValue:
    """Write bits read as another dtype; integers wrap, which all opsets know."""
    x = w.lean(node.sources[0])
    if x.dtype.is_integer and node.dtype.is_integer:
        return w.cast(x, node.dtype)
    return w.op("BitCast", [x], x.dims, node.dtype, to=number_of(node.dtype))


def where(w: GraphWriter, condition: GraphValue, x: GraphValue, y: GraphValue) -> GraphValue:
    """Return x where the condition holds, else y."""
    return through(w, "Where", x, y, condition)


# ---- one operand


def _plain(kind: str) -> Unary:
    def write(w: GraphWriter, x: GraphValue) -> GraphValue:
        return w.like(kind, x)

    return write


def _neg(w: GraphWriter, x: GraphValue) -> GraphValue:
    return w.like("Sub", w.scalar(0, x.dtype), x) if x.dtype.is_unsigned else w.like("Neg", x)


def _not(w: GraphWriter, x: GraphValue) -> GraphValue:
    return w.like("Not" if x.dtype.is_bool else "BitwiseNot", x)


def _trunc(w: GraphWriter, x: GraphValue) -> GraphValue:
    return w.like("Mul", w.like("Sign", x), w.like("Floor", w.like("Abs", x)))


def _exp2(w: GraphWriter, x: GraphValue) -> GraphValue:
    return w.like("Pow", w.scalar(2.0, x.dtype), x)


def _log2(w: GraphWriter, x: GraphValue) -> GraphValue:
    return w.like("Mul", w.like("Log", x), w.scalar(1 / math.log(2), x.dtype))


def _expm1(w: GraphWriter, x: GraphValue) -> GraphValue:
    """Write ``2 t / (1 - t)`` for small x, t the hyperbolic tangent of x / 2: nothing cancels out there."""
    half = w.like("Tanh", w.like("Mul", x, w.scalar(0.5, x.dtype)))
    near = w.like("Div", w.like("Add", half, half), w.like("Sub", w.scalar(1.0, x.dtype), half))
    is_near = w.like("Less", w.like("Abs", x), w.scalar(1.0, x.dtype), dtype=dtypes.bool_)
    return where(w, is_near, near, w.like("Sub", w.like("Exp", x), w.scalar(1.0, x.dtype)))


def _log1p(w: GraphWriter, x: GraphValue) -> GraphValue:
    """Write ``log(u) * x / (u - 1)``, u = 1 + x rounded: what rounding loses cancels out (Kahan)."""
    one = w.scalar(1.0, x.dtype)
    u = w.like("Add", x, one)
    difference = w.like("Sub", u, one)
    is_lost = w.like("Equal", difference, w.scalar(0.0, x.dtype), dtype=dtypes.bool_)
    is_infinite = w.like("Equal", u, w.scalar(math.inf, x.dtype), dtype=dtypes.bool_)
    ratio = w.like("Div", x, where(w, is_lost, one, difference))
    found = w.like("Mul", w.like("Log", u), ratio)
    return where(w, w.like("Or", is_lost, is_infinite), x, found)


_UNARY: Final[dict[UnaryOp, Unary]] = {
    UnaryOp.NEG: _neg,
    UnaryOp.NOT: _not,
    UnaryOp.ABS: _plain("Abs"),
    UnaryOp.FLOOR: _plain("Floor"),
    UnaryOp.TRUNC: _trunc,
    UnaryOp.SQRT: _plain("Sqrt"),
    UnaryOp.RECIPROCAL: _plain("Reciprocal"),
    UnaryOp.EXP: _plain("Exp"),
    UnaryOp.EXP2: _exp2,
    UnaryOp.EXPM1: _expm1,
    UnaryOp.LOG: _plain("Log"),
    UnaryOp.LOG2: _log2,
    UnaryOp.LOG1P: _log1p,
    UnaryOp.SIN: _plain("Sin"),
    UnaryOp.COS: _plain("Cos"),
    UnaryOp.TANH: _plain("Tanh"),
    UnaryOp.ATAN: _plain("Atan"),
    UnaryOp.ERF: _plain("Erf"),
}


# ---- two operands


def _arithmetic(kind: str) -> Binary:
    def write(w: GraphWriter, x: GraphValue, y: GraphValue) -> GraphValue:
        return w.like(kind, x, y)

    return write


def _divisor(w: GraphWriter, y: GraphValue) -> tuple[GraphValue, GraphValue, GraphValue]:
    """Return where an integer is 0 and where it is -1, and the integer with 1 in place of both."""
    is_zero = w.like("Equal", y, w.scalar(0, y.dtype), dtype=dtypes.bool_)
    minus = w.scalar(0 if y.dtype.is_unsigned else -1, y.dtype)
    is_minus = w.like("Equal", y, minus, dtype=dtypes.bool_)
    return is_zero, is_minus, where(w, w.like("Or", is_zero, is_minus), w.scalar(1, y.dtype), y)


def _known(w: GraphWriter, y: GraphValue) -> int | None:
    """Return an integer operand that is a constant."""
    array = w.shared.constants.get(y.name)
    return int(array.flat[0]) if array is not None and array.size == 1 else None


def _div(w: GraphWriter, x: GraphValue, y: GraphValue) -> GraphValue:
    if x.dtype.is_float or _known(w, y) not in (None, 0, -1):
        return w.like("Div", x, y)
    is_zero, is_minus, divisor = _divisor(w, y)
    found = w.like("Div", x, divisor)
    if not y.dtype.is_unsigned:
        found = where(w, is_minus, w.like("Neg", x), found)
    return where(w, is_zero, w.scalar(0, x.dtype), found)


def _mod(w: GraphWriter, x: GraphValue, y: GraphValue) -> GraphValue:
    if x.dtype.is_float or _known(w, y) not in (None, 0, -1):
        return w.like("Mod", x, y, fmod=1)
    return w.like("Mod", x, _divisor(w, y)[2], fmod=1)


def _pow(w: GraphWriter, x: GraphValue, y: GraphValue) -> GraphValue:
    """Write a power; whole numbers by squaring, which wraps."""
    if x.dtype.is_float:
        return w.like("Pow", x, y)
    exponent = _known(w, y)
    if exponent is None or exponent < 0:
        raise CannotWriteError("powers of integers take an exponent that is a constant and not negative")
    result, square = w.scalar(1, x.dtype), x
    while exponent:
        if exponent & 1:
            result = w.like("Mul", result, square)
        square = w.like("Mul", square, square)
        exponent >>= 1
    return result


def _extreme(kind: str, of_bools: str) -> Binary:
    def write(w: GraphWriter, x: GraphValue, y: GraphValue) -> GraphValue:
        return w.like(of_bools, x, y) if x.dtype.is_bool else through(w, kind, x, y)

    return write


def _bits(kind: str, of_bools: str) -> Binary:
    def write(w: GraphWriter, x: GraphValue, y: GraphValue) -> GraphValue:
        return w.like(of_bools if x.dtype.is_bool else kind, x, y)

    return write


def _unsigned(w: GraphWriter, x: GraphValue) -> GraphValue:
    return x if x.dtype.is_unsigned else w.cast(x, dtypes.as_dtype(f"uint{x.dtype.bits}"))


def _shift(w: GraphWriter, x: GraphValue, y: GraphValue, direction: str) -> GraphValue:
    """Write a shift; by the width or more, or by a negative amount, it is that of all bits."""
    bits, by = x.dtype.bits, _unsigned(w, y)
    amount = _known(w, y)
    fills = direction == "RIGHT" and not x.dtype.is_unsigned
    negative = w.like("Less", x, w.scalar(0, x.dtype), dtype=dtypes.bool_) if fills else None
    given = x if negative is None else where(w, negative, w.like("BitwiseNot", x), x)
    given = _unsigned(w, given)
    if amount is not None and 0 <= amount < bits:
        found = w.like("BitShift", given, by, direction=direction)
    else:
        is_far = w.like("GreaterOrEqual", by, w.scalar(bits, by.dtype), dtype=dtypes.bool_)
        zero = w.scalar(0, by.dtype)
        found = where(w, is_far, zero, w.like("BitShift", given, where(w, is_far, zero, by), direction=direction))
    found = w.cast(found, x.dtype)
    return found if negative is None else where(w, negative, w.like("BitwiseNot", found), found)


def _less(w: GraphWriter, x: GraphValue, y: GraphValue) -> GraphValue:
    if x.dtype.is_bool:
        return w.like("And", w.like("Not", x), y)
    return w.like("Less", x, y, dtype=dtypes.bool_)


def _less_equal(w: GraphWriter, x: GraphValue, y: GraphValue) -> GraphValue:
    if x.dtype.is_bool:
        return w.like("Or", w.like("Not", x), y)
    return w.like("LessOrEqual", x, y, dtype=dtypes.bool_)


def _equal(w: GraphWriter, x: GraphValue, y: GraphValue) -> GraphValue:
    return w.like("Equal", x, y, dtype=dtypes.bool_)


def _not_equal(w: GraphWriter, x: GraphValue, y: GraphValue) -> GraphValue:
    return w.like("Not", _equal(w, x, y))


_BINARY: Final[dict[BinaryOp, Binary]] = {
    BinaryOp.ADD: _arithmetic("Add"),
    BinaryOp.SUB: _arithmetic("Sub"),
    BinaryOp.MUL: _arithmetic("Mul"),
    BinaryOp.DIV: _div,
    BinaryOp.MOD: _mod,
    BinaryOp.POW: _pow,
    BinaryOp.MAX: _extreme("Max", "Or"),
    BinaryOp.MIN: _extreme("Min", "And"),
    BinaryOp.AND: _bits("BitwiseAnd", "And"),
    BinaryOp.OR: _bits("BitwiseOr", "Or"),
    BinaryOp.XOR: _bits("BitwiseXor", "Xor"),
    BinaryOp.SHL: partial(_shift, direction="LEFT"),
    BinaryOp.SHR: partial(_shift, direction="RIGHT"),
    BinaryOp.LT: _less,
    BinaryOp.LE: _less_equal,
    BinaryOp.EQ: _equal,
    BinaryOp.NE: _not_equal,
}


def combined(w: GraphWriter, op: BinaryOp, x: GraphValue, y: GraphValue) -> GraphValue:
    """Return `op` of two values."""
    return _BINARY[op](w, x, y)


def write_const(w: GraphWriter, node: n.Const) -> GraphValue:
    """Write a constant, which is repeated where it has to be."""
    return w.reshape(w.scalar(node.value, node.dtype), (1,) * len(dims_of(node)))
