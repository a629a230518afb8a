"""Operations on one element, as templates of C expressions.

They hold in every language of the family: what C leaves open or undefined (overflow of signed integers, shifts by the
width, division by zero, conversions out of range) is spelled out as `zyx.ops` pins it. A dialect's own tables come
first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.ops import COMPARISONS, BinaryOp, UnaryOp
from zyx.render.literals import literal

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.render.dialect import Dialect

_INFIX: Final = {
    BinaryOp.ADD: "+",
    BinaryOp.SUB: "-",
    BinaryOp.MUL: "*",
    BinaryOp.DIV: "/",
    BinaryOp.AND: "&",
    BinaryOp.OR: "|",
    BinaryOp.XOR: "^",
    BinaryOp.LT: "<",
    BinaryOp.LE: "<=",
    BinaryOp.EQ: "==",
    BinaryOp.NE: "!=",
}
_WRAPPING: Final = (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL)
_UNSIGNED: Final = {
    dtypes.int8: dtypes.uint8,
    dtypes.int16: dtypes.uint16,
    dtypes.int32: dtypes.uint32,
    dtypes.int64: dtypes.uint64,
}


def is_bits(dtype: DType, dialect: Dialect) -> bool:
    """Whether values of a half float type are held as 16-bit integers."""
    return dtype.is_float and dtype.bits == 16 and dialect.type_name(dtype) == dialect.types.get(dtypes.uint16)


def unary(op: UnaryOp, dtype: DType, dialect: Dialect) -> str | None:
    """Return the template of `op`, or None if there is none."""
    own = dialect.unary.get((op, dtype))
    if own is not None or is_bits(dtype, dialect):
        return own
    name = dialect.type_name(dtype)
    match op:
        case UnaryOp.NOT:
            return "!{x}" if dtype.is_bool else f"({name})~{{x}}"
        case UnaryOp.NEG if dtype.is_float:
            return "-{x}"
        case UnaryOp.NEG if not dtype.is_bool:
            return f"({name})(0 - {_unsigned(dtype, dialect)}{{x}})"
        case UnaryOp.ABS if dtype.is_unsigned:
            return "{x}"
        case UnaryOp.ABS if dtype.is_integer:
            return f"{{x}} < 0 ? ({name})(0 - {_unsigned(dtype, dialect)}{{x}}) : {{x}}"
        case UnaryOp.RECIPROCAL if dtype.is_float:
            return f"{literal(1.0, dtype, dialect)} / {{x}}"
        case _:
            return None


def binary(op: BinaryOp, dtype: DType, dialect: Dialect) -> str | None:
    """Return the template of `op` on two operands of `dtype`, or None if there is none."""
    own = dialect.binary.get((op, dtype))
    if own is not None or is_bits(dtype, dialect):
        return own
    name = dialect.type_name(dtype)
    if op in COMPARISONS:
        return f"{{x}} {_INFIX[op]} {{y}}"
    if dtype.is_bool:
        symbol = {BinaryOp.MAX: "|", BinaryOp.MIN: "&"}.get(op) or _INFIX.get(op)
        return f"{{x}} {symbol} {{y}}" if symbol else None
    match op:
        case BinaryOp.MAX | BinaryOp.MIN:
            sign = ">" if op is BinaryOp.MAX else "<"
            return f"({{x}} {sign} {{y}}{' || {x} != {x}' if dtype.is_float else ''}) ? {{x}} : {{y}}"
        case BinaryOp.MOD | BinaryOp.POW if dtype.is_float:
            return None
        case _ if dtype.is_float:
            return f"{{x}} {_INFIX[op]} {{y}}" if op in _INFIX else None
        case BinaryOp.DIV | BinaryOp.MOD:
            return _divide(op, dtype, dialect)
        case BinaryOp.SHL | BinaryOp.SHR:
            return _shift(op, dtype, dialect)
        case BinaryOp.POW:
            return None
        case _:
            unsigned = _unsigned(dtype, dialect) if op in _WRAPPING else ""
            return f"({name})({unsigned}{{x}} {_INFIX[op]} {unsigned}{{y}})"


def _unsigned(dtype: DType, dialect: Dialect) -> str:
    """Return the cast to arithmetic that wraps; types below 32 bits would be widened to int, which need not."""
    if dtype.bits < 32:
        return f"({dialect.type_name(dtypes.uint32)})"
    if dtype.is_unsigned or dialect.signed_wraps:
        return ""
    return f"({dialect.type_name(_UNSIGNED[dtype])})"


def _divide(op: BinaryOp, dtype: DType, dialect: Dialect) -> str:
    name, zero = dialect.type_name(dtype), literal(0, dtype, dialect)
    if op is BinaryOp.DIV:
        division = f"({name})({{x}} / {{y}})"
        by_minus_one = f"({name})(0 - {_unsigned(dtype, dialect)}{{x}})"  # the least integer gives itself
    else:
        division, by_minus_one = f"({name})({{x}} % {{y}})", zero
    if dtype.is_unsigned:
        return f"{{y}} == 0 ? {zero} : {division}"
    return f"{{y}} == 0 ? {zero} : {{y}} == -1 ? {by_minus_one} : {division}"


def _shift(op: BinaryOp, dtype: DType, dialect: Dialect) -> str:
    name, bits = dialect.type_name(dtype), dtype.bits
    distance = f"({dialect.type_name(_UNSIGNED.get(dtype, dtype))}){{y}}"  # negative distances become large
    if op is BinaryOp.SHL:
        wide = dialect.type_name(dtypes.uint64 if bits == 64 else dtypes.uint32)
        return f"{distance} < {bits} ? ({name})(({wide}){{x}} << {{y}}) : {literal(0, dtype, dialect)}"
    if dtype.is_unsigned:
        return f"{{y}} < {bits} ? ({name})({{x}} >> {{y}}) : {literal(0, dtype, dialect)}"
    return f"({name})({{x}} >> ({distance} < {bits} ? {{y}} : {bits - 1}))"


def multiply_add(dtype: DType, dialect: Dialect) -> str | None:
    """Return the template of ``x * y + z``, or None if there is none."""
    own = dialect.fma.get(dtype)
    if own is not None or is_bits(dtype, dialect) or dtype.is_bool:
        return own
    if dtype.is_float:
        return "{x} * {y} + {z}"
    unsigned = _unsigned(dtype, dialect)
    return f"({dialect.type_name(dtype)})({unsigned}{{x}} * {unsigned}{{y}} + {unsigned}{{z}})"


def cast(source: DType, target: DType, dialect: Dialect) -> str | None:
    """Return the template of a conversion, or None if there is none."""
    own = dialect.casts.get((source, target))
    if own is not None:
        return own
    if source is target:
        return "{x}"
    if is_bits(source, dialect):
        if target.is_bool:  # any bit but the sign
            return "({x} & 32767) != 0"
        return _through(source, dtypes.float32, target, dialect)
    if is_bits(target, dialect):
        wide = dtypes.float32 if source.bits <= 16 or source is dtypes.float32 else dtypes.float64
        return None if source is wide else _through(source, wide, target, dialect)
    if target.is_bool:
        return "{x} != 0"
    if source.is_float and target.is_integer:
        if source.bits < 32:  # it does not hold the bounds
            return _through(source, dtypes.float32, target, dialect)
        return _saturate(source, target, dialect)
    return f"({dialect.type_name(target)}){{x}}"


def _through(source: DType, middle: DType, target: DType, dialect: Dialect) -> str | None:
    first, second = cast(source, middle, dialect), cast(middle, target, dialect)
    if first is None or second is None:
        return None
    # The operand may occur several times in the second template, which is right as expressions have no effects.
    return second.replace("{x}", f"({first})")


def _saturate(source: DType, target: DType, dialect: Dialect) -> str:
    """Float to integer: the bounds are powers of two, which every float type of 32 bits and more holds."""
    low, end = (literal(float(bound), source, dialect) for bound in (int(target.min), int(target.max) + 1))
    top, bottom = literal(target.max, target, dialect), literal(target.min, target, dialect)
    inside = f"({dialect.type_name(target)}){{x}}"
    return (
        f"{{x}} >= {end} ? {top} : {{x}} >= {low} ? {inside} : {{x}} < {low} ? {bottom} : {literal(0, target, dialect)}"
    )


def bitcast(source: DType, target: DType, dialect: Dialect) -> str | None:
    """Return the template that reads the bits of a `source` as a `target`, or None if there is none."""
    own = dialect.bitcasts.get((source, target))
    if own is not None:
        return own
    if dialect.type_name(source) == dialect.type_name(target):
        return "{x}"
    if target.is_bool:
        return "{x} != 0"
    held_as_integers = [not dtype.is_float or is_bits(dtype, dialect) for dtype in (source, target)]
    return f"({dialect.type_name(target)}){{x}}" if all(held_as_integers) else None
