"""Arithmetic and comparisons as SPIR-V, exactly as `zyx.ops` pins them, on scalars or vectors of up to four lanes.

Divisors are not 0, and not -1 where that overflows: `zyx.passes.guard_integer_division` sees to that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.ops import COMPARISONS, BinaryOp, UnaryOp
from zyx_backend_vulkan.render_code import UNSIGNED

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx_backend_vulkan.render_code import Code

_FUNCTIONS: Final = {
    UnaryOp.ABS: "FAbs", UnaryOp.FLOOR: "Floor", UnaryOp.TRUNC: "Trunc", UnaryOp.SQRT: "Sqrt",
}  # fmt: skip
_OF_FLOATS: Final = {
    BinaryOp.ADD: "FAdd", BinaryOp.SUB: "FSub", BinaryOp.MUL: "FMul", BinaryOp.DIV: "FDiv", BinaryOp.LT: "FOrdLessThan",
    BinaryOp.LE: "FOrdLessThanEqual", BinaryOp.EQ: "FOrdEqual", BinaryOp.NE: "FUnordNotEqual",
}  # fmt: skip
_OF_INTEGERS: Final = {
    BinaryOp.ADD: "IAdd", BinaryOp.SUB: "ISub", BinaryOp.MUL: "IMul", BinaryOp.AND: "BitwiseAnd",
    BinaryOp.OR: "BitwiseOr", BinaryOp.XOR: "BitwiseXor", BinaryOp.EQ: "IEqual", BinaryOp.NE: "INotEqual",
}  # fmt: skip
_OF_SIGNED: Final = {
    BinaryOp.DIV: "SDiv", BinaryOp.LT: "SLessThan", BinaryOp.LE: "SLessThanEqual", BinaryOp.SHR: "ShiftRightArithmetic",
    BinaryOp.SHL: "ShiftLeftLogical",
}  # fmt: skip
_OF_UNSIGNED: Final = {
    BinaryOp.DIV: "UDiv", BinaryOp.MOD: "UMod", BinaryOp.LT: "ULessThan", BinaryOp.LE: "ULessThanEqual",
    BinaryOp.SHR: "ShiftRightLogical", BinaryOp.SHL: "ShiftLeftLogical",
}  # fmt: skip
_OF_BOOLS: Final = {
    BinaryOp.AND: "LogicalAnd", BinaryOp.MIN: "LogicalAnd", BinaryOp.OR: "LogicalOr", BinaryOp.MAX: "LogicalOr",
    BinaryOp.XOR: "LogicalNotEqual", BinaryOp.NE: "LogicalNotEqual", BinaryOp.EQ: "LogicalEqual",
}  # fmt: skip
_EXTREMA: Final = {
    (BinaryOp.MAX, False): "SMax", (BinaryOp.MAX, True): "UMax",
    (BinaryOp.MIN, False): "SMin", (BinaryOp.MIN, True): "UMin",
}  # fmt: skip

#: Drivers multiply by the reciprocal, which is 0 for divisors above 2**126: a quarter of both is divided then.
LARGE: Final = 2.0**126


def unary(m: Code, op: UnaryOp, dtype: DType, lanes: int, x: int) -> int:
    """Return `op` of a value of a dtype.

    Raises:
        UnsupportedError: There is no form of it.
    """
    type_ = m.of(dtype, lanes)
    if dtype.is_bool and op is UnaryOp.NOT:
        return m.value("LogicalNot", type_, x)
    if dtype.is_float and m.computes(dtype):
        if op is UnaryOp.NEG:
            return m.exact("FNegate", type_, x)
        if op is UnaryOp.RECIPROCAL:
            return _quotient(m, dtype, lanes, m.const(1.0, dtype, lanes), x)
        if op in _FUNCTIONS:
            found = m.glsl(_FUNCTIONS[op], type_, x)
            m.decorate(found, "NoContraction")
            return found
    if dtype.is_integer:
        if op is UnaryOp.NOT:
            return m.value("Not", type_, x)
        if op is UnaryOp.NEG:
            return m.value("SNegate", type_, x)
        if op is UnaryOp.ABS:
            if dtype.is_unsigned:
                return x
            is_negative = m.compare("SLessThan", x, m.const(0, dtype, lanes), lanes)
            return m.select(is_negative, m.value("SNegate", type_, x), x, dtype, lanes)
    raise UnsupportedError(f"there is no native form of {op.value} of {dtype}")


def binary(m: Code, op: BinaryOp, dtype: DType, lanes: int, x: int, y: int) -> int:
    """Return `op` of two values of a dtype.

    Raises:
        UnsupportedError: There is no form of it.
    """
    result = m.of(dtypes.bool_ if op in COMPARISONS else dtype, lanes)
    if dtype.is_bool:
        if op in _OF_BOOLS:
            return m.value(_OF_BOOLS[op], result, x, y)
        if op in COMPARISONS:  # false < true
            joined = "LogicalAnd" if op is BinaryOp.LT else "LogicalOr"
            return m.value(joined, result, m.value("LogicalNot", result, x), y)
    elif dtype.is_float and m.computes(dtype):
        if op in (BinaryOp.MAX, BinaryOp.MIN):
            return _extremum_of_floats(m, op, dtype, lanes, x, y)
        if op is BinaryOp.DIV:
            return _quotient(m, dtype, lanes, x, y)
        if op in _OF_FLOATS:
            return m.exact(_OF_FLOATS[op], result, x, y)
    elif dtype.is_integer:
        own = _OF_UNSIGNED if dtype.is_unsigned else _OF_SIGNED
        match op:
            case BinaryOp.MAX | BinaryOp.MIN:
                return m.glsl(_EXTREMA[op, dtype.is_unsigned], result, x, y)
            case BinaryOp.SHL | BinaryOp.SHR:
                return shift(m, op, dtype, lanes, x, y)
            case BinaryOp.MOD if not dtype.is_unsigned:  # Vulkan leaves open what a remainder of negative numbers is
                whole = m.value("IMul", result, m.value("SDiv", result, x, y), y)
                return m.value("ISub", result, x, whole)
            case _ if op in _OF_INTEGERS or op in own:
                return m.value(_OF_INTEGERS.get(op) or own[op], result, x, y)
            case _:
                pass
    raise UnsupportedError(f"there is no native form of {op.value} of {dtype}")


def divide_plainly(m: Code, op: BinaryOp, dtype: DType, lanes: int, x: int, y: int) -> int:
    """Return a float divided by one that is not too large: `op` is `DIV`."""
    del op
    return m.exact("FDiv", m.of(dtype, lanes), x, y)


def multiply_add(m: Code, dtype: DType, lanes: int, x: int, y: int, z: int) -> int:
    """Return ``x * y + z``, rounded once where the device does that; raise `UnsupportedError` if there is no form."""
    if dtype in m.target.fuses and m.computes(dtype):
        found = m.glsl("Fma", m.of(dtype, lanes), x, y, z)
        m.decorate(found, "NoContraction")
        return found
    return binary(m, BinaryOp.ADD, dtype, lanes, binary(m, BinaryOp.MUL, dtype, lanes, x, y), z)


def _extremum_of_floats(m: Code, op: BinaryOp, dtype: DType, lanes: int, x: int, y: int) -> int:
    """Return the larger or smaller of two floats; NaN if one is."""
    flags = m.of(dtypes.bool_, lanes)
    is_first = m.exact("FOrdGreaterThan" if op is BinaryOp.MAX else "FOrdLessThan", flags, x, y)
    is_nan = m.exact("FUnordNotEqual", flags, x, x)
    return m.select(m.value("LogicalOr", flags, is_first, is_nan), x, y, dtype, lanes)


def _quotient(m: Code, dtype: DType, lanes: int, x: int, y: int) -> int:
    """Return a float divided by another one of any size."""
    type_ = m.of(dtype, lanes)
    if dtype is dtypes.float32:
        size = m.glsl("FAbs", type_, y)
        is_large = m.exact("FOrdGreaterThan", m.of(dtypes.bool_, lanes), size, m.const(LARGE, dtype, lanes))
        quarter = m.const(0.25, dtype, lanes)
        x, y = (m.select(is_large, m.exact("FMul", type_, part, quarter), part, dtype, lanes) for part in (x, y))
    return m.exact("FDiv", type_, x, y)


# ---- shifts


def shift_by(m: Code, op: BinaryOp, dtype: DType, lanes: int, x: int, distance: int) -> int:
    """Return a value shifted by a distance that is known, of any size and sign."""
    is_signed_right = op is BinaryOp.SHR and not dtype.is_unsigned
    if not 0 <= distance < dtype.bits:
        if not is_signed_right:
            return m.const(0, dtype, lanes)
        distance = dtype.bits - 1
    return m.value(_shift_name(op, dtype), m.of(dtype, lanes), x, m.const(distance, dtypes.uint32, lanes))


def shift_within(m: Code, op: BinaryOp, dtype: DType, lanes: int, x: int, y: int) -> int:
    """Return a value shifted by fewer bits than there are."""
    return m.value(_shift_name(op, dtype), m.of(dtype, lanes), x, _distance(m, dtype, lanes, y))


def shift(m: Code, op: BinaryOp, dtype: DType, lanes: int, x: int, y: int) -> int:
    """Return a value shifted by a distance of any size and sign; negative ones count for large."""
    unsigned = UNSIGNED[dtype.bits]
    last = m.const(dtype.bits - 1, unsigned, lanes)
    is_far = m.compare("ULessThan", last, y, lanes)
    near = m.select(is_far, last, y, unsigned, lanes)
    shifted = shift_within(m, op, dtype, lanes, x, near)
    if op is BinaryOp.SHR and not dtype.is_unsigned:
        return shifted
    return m.select(is_far, m.const(0, dtype, lanes), shifted, dtype, lanes)


def _shift_name(op: BinaryOp, dtype: DType) -> str:
    return (_OF_UNSIGNED if dtype.is_unsigned else _OF_SIGNED)[op]


def _distance(m: Code, dtype: DType, lanes: int, y: int) -> int:
    """Return a distance as a uint32, as which all drivers take it."""
    return y if dtype.bits == 32 else m.value("UConvert", m.of(dtypes.uint32, lanes), y)
