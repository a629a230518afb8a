"""Operations on one element as WGSL expressions, exactly as `zyx.ops` pins them.

Templates have ``{x}``, ``{y}`` and ``{z}``, which are names or literals. There are values of 32 and 64 bits, bools, and
where the device has it float16, which is only stored and converted: `zyx.render.wide_values` makes these of others.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.ops import BinaryOp, UnaryOp
from zyx.render.literals import digits

if TYPE_CHECKING:
    from zyx.dtype import DType, Scalar
    from zyx.render.dialect import Dialect

#: What values of each type are held as; float16 may be a type of its own.
TYPES: Final = {
    dtypes.bool_: "bool", dtypes.uint8: "u32", dtypes.int8: "i32", dtypes.uint16: "u32", dtypes.int16: "i32",
    dtypes.uint32: "u32", dtypes.int32: "i32", dtypes.uint64: "u64", dtypes.int64: "i64", dtypes.bfloat16: "u32",
    dtypes.float32: "f32", dtypes.float64: "f64",
}  # fmt: skip
SUFFIXES: Final = {"u32": "u", "i32": "i", "u64": "lu", "i64": "li", "f32": "f", "f64": "lf", "f16": "h"}
#: The type of the bits of a float that can be looked at.
BITS: Final = {"f32": "u32", "f64": "u64"}

_INFIX: Final = {
    BinaryOp.ADD: "+", BinaryOp.SUB: "-", BinaryOp.MUL: "*", BinaryOp.DIV: "/", BinaryOp.MOD: "%", BinaryOp.AND: "&",
    BinaryOp.OR: "|", BinaryOp.XOR: "^", BinaryOp.LT: "<", BinaryOp.LE: "<=", BinaryOp.EQ: "==", BinaryOp.NE: "!=",
}  # fmt: skip
_OF_BOOLS: Final = {
    BinaryOp.XOR: "{x} != {y}", BinaryOp.NE: "{x} != {y}", BinaryOp.EQ: "{x} == {y}", BinaryOp.AND: "{x} & {y}",
    BinaryOp.MIN: "{x} & {y}", BinaryOp.OR: "{x} | {y}", BinaryOp.MAX: "{x} | {y}", BinaryOp.LT: "!{x} & {y}",
    BinaryOp.LE: "!{x} | {y}",
}  # fmt: skip
_FUNCTIONS: Final = {UnaryOp.ABS: "abs", UnaryOp.SQRT: "sqrt", UnaryOp.FLOOR: "floor", UnaryOp.TRUNC: "trunc"}


def hidden(type_: str, x: str) -> str:
    """Return a float or bool as one that the driver's compiler knows nothing of: see `zyx.render.seams`.

    Floats of 16 bits are not computed with, so there is nothing to hide.
    """
    if type_ == "bool":
        return f"(select(0u, 1u, {x}) | zero) != 0u"
    if type_ not in BITS:
        return x
    return f"bitcast<{type_}>(bitcast<{BITS[type_]}>({x}) ^ {BITS[type_]}(zero))"


def literal(value: Scalar, dtype: DType, dialect: Dialect) -> str:
    """Return `value` as an expression. WGSL has none for NaN and infinities: their bits are hidden from it."""
    type_ = dialect.type_name(dtype)
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_float and not math.isfinite(value):
        wide = "f32" if type_ == "f16" else type_
        text = f"bitcast<{wide}>({_float_bits(value, wide)} ^ {BITS[wide]}(zero))"
        return f"f16({text})" if type_ == "f16" else text
    if dtype.is_integer and value == dtype.min < 0:  # its digits do not fit, before the minus
        return f"({int(value) + 1}{SUFFIXES[type_]} - 1{SUFFIXES[type_]})"
    if type_ == "f16":  # Naga refuses some hexadecimal digits with the suffix h, 0x1.064p-10h among them
        return f"f16({digits(value)}f)"
    text = f"{digits(value) if dtype.is_float else int(value)}{SUFFIXES[type_]}"
    return f"({text})" if text.startswith("-") else text


def _float_bits(value: float, type_: str) -> str:
    """Return the bits of a number as an integer literal."""
    packed = struct.pack("<f" if type_ == "f32" else "<d", value)
    return f"0x{int.from_bytes(packed, 'little'):x}{SUFFIXES[BITS[type_]]}"


def is_nan(type_: str, x: str = "{x}") -> str:
    """Return a test for NaN that no compiler takes for always false."""
    magnitude = "0x7fffffffu" if type_ == "f32" else "0x7ffffffffffffffflu"
    return f"(bitcast<{BITS[type_]}>({x}) & {magnitude}) > {_float_bits(math.inf, type_)}"


def unary(op: UnaryOp, dtype: DType, dialect: Dialect) -> str | None:
    """Return the template of `op`, or None if there is none."""
    type_ = dialect.type_name(dtype)
    if dtype.is_bool:
        return "!{x}"
    if dtype.is_float:
        if type_ not in BITS:
            return None
        forms = {UnaryOp.NEG: "-{x}", UnaryOp.RECIPROCAL: f"1.0{SUFFIXES[type_]} / {{x}}"}
        return forms.get(op) or (f"{_FUNCTIONS[op]}({{x}})" if op in _FUNCTIONS else None)
    zero = f"0{SUFFIXES[type_]}"
    match op:
        case UnaryOp.NOT:
            return "~{x}"
        case UnaryOp.NEG:
            return f"{zero} - {{x}}"
        case UnaryOp.ABS:
            return "{x}" if dtype.is_unsigned else f"select({{x}}, {zero} - {{x}}, {{x}} < {zero})"
        case _:
            return None


def binary(op: BinaryOp, dtype: DType, dialect: Dialect) -> str | None:
    """Return the template of `op` on two operands of `dtype`, or None if there is none.

    Divisors are not 0, and not -1 where that overflows: `zyx.passes.guard_integer_division` sees to that.
    """
    type_ = dialect.type_name(dtype)
    if dtype.is_bool:
        return _OF_BOOLS.get(op)
    if op is BinaryOp.POW or (dtype.is_float and (type_ not in BITS or op is BinaryOp.MOD)):
        return None
    match op:
        case BinaryOp.MAX | BinaryOp.MIN if dtype.is_float:  # not with ||, which branches
            symbol = ">" if op is BinaryOp.MAX else "<"
            return f"select({{y}}, {{x}}, ({{x}} {symbol} {{y}}) | ({is_nan(type_)}))"
        case BinaryOp.MAX | BinaryOp.MIN:
            return f"{op.value}({{x}}, {{y}})"
        case BinaryOp.NE if dtype.is_float:
            return "!({x} == {y})"  # != is an ordered comparison, false for NaN, in the code that drivers are given
        case BinaryOp.SHL | BinaryOp.SHR:
            return _shift(op, dtype, type_)
        case BinaryOp.DIV if type_ == "f32":  # drivers multiply by the reciprocal, and flush that of large numbers to 0
            return "select({x} / {y}, ({x} * 0.25f) / ({y} * 0.25f), abs({y}) > 0x1p+126f)"
        case BinaryOp.MOD if not dtype.is_unsigned:  # Vulkan leaves open what % gives for negative numbers
            return "{x} - {x} / {y} * {y}"
        case _:
            return f"{{x}} {_INFIX[op]} {{y}}"


def _shift(op: BinaryOp, dtype: DType, type_: str) -> str:
    word = "u64" if dtype.bits == 64 else "u32"
    distance = f"{word}({{y}})"  # negative distances become large
    if op is BinaryOp.SHR and not dtype.is_unsigned:
        return f"{{x}} >> u32(min({distance}, {dtype.bits - 1}{SUFFIXES[word]}))"
    shifted = f"{{x}} {'<<' if op is BinaryOp.SHL else '>>'} (u32({{y}}) & {dtype.bits - 1}u)"
    return f"select(0{SUFFIXES[type_]}, {shifted}, {distance} < {dtype.bits}{SUFFIXES[word]})"


def shift_by(distance: int, op: BinaryOp, dtype: DType, dialect: Dialect) -> str:
    """Return the template of a shift by a constant, which WGSL does not convert as it does others."""
    if not 0 <= distance < dtype.bits:
        if op is BinaryOp.SHL or dtype.is_unsigned:
            return f"0{SUFFIXES[dialect.type_name(dtype)]}"
        distance = dtype.bits - 1
    return f"{{x}} {'<<' if op is BinaryOp.SHL else '>>'} {distance}u"


def shift_within(op: BinaryOp) -> str:
    """Return the template of a shift by fewer bits than there are."""
    return f"{{x}} {'<<' if op is BinaryOp.SHL else '>>'} u32({{y}})"


def multiply_add(dtype: DType, dialect: Dialect) -> str | None:
    """Return the template of ``x * y + z``, or None if there is none."""
    if dtype.is_float:
        return "fma({x}, {y}, {z})" if dialect.type_name(dtype) in BITS else None
    return None if dtype.is_bool else "{x} * {y} + {z}"


def cast(source: DType, target: DType, dialect: Dialect) -> str | None:
    """Return the template of a conversion, or None if there is none."""
    from_, to = dialect.type_name(source), dialect.type_name(target)
    if source.is_bool:
        zero, one = (literal(target.to_scalar(number), target, dialect) for number in (0, 1))
        return f"select({zero}, {one}, {{x}})"
    if target.is_bool:
        if from_ in BITS:  # also what a comparison would flush to zero
            return f"(bitcast<{BITS[from_]}>({{x}}) << 1u) != 0{SUFFIXES[BITS[from_]]}"
        return "!({x} == 0.0h)" if from_ == "f16" else f"{{x}} != 0{SUFFIXES[from_]}"
    if target.is_integer and source.is_float:
        return _saturate(source, target, dialect)
    if target.is_float:
        return f"{to}({{x}})"
    if target.bits == 64 and source.bits < 64:  # a conversion that changes both size and sign takes the target's sign
        return f"{to}({'u64' if source.is_unsigned else 'i64'}({{x}}))"
    return "{x}" if from_ == to else f"{to}({{x}})"


def _saturate(source: DType, target: DType, dialect: Dialect) -> str:
    """Float to integer. The bounds are powers of two, which float32 holds."""
    from_, to = dialect.type_name(source), dialect.type_name(target)
    low, end = (literal(float(bound), source, dialect) for bound in (int(target.min), int(target.max) + 1))
    top, bottom = literal(target.max, target, dialect), literal(target.min, target, dialect)
    inside = f"select(select({to}({{x}}), {bottom}, {{x}} < {low}), {top}, {{x}} >= {end})"
    return f"select({inside}, 0{SUFFIXES[to]}, {is_nan(from_)})"


def bitcast(source: DType, target: DType, dialect: Dialect) -> str | None:
    """Return the template that reads the bits of a `source` as a `target`, or None if there is none."""
    from_, to = dialect.type_name(source), dialect.type_name(target)
    if source.bits >= 32:
        return f"bitcast<{to}>({{x}})"
    if to == "f16":
        return "f16(unpack2x16float({x}).x)"
    return "pack2x16float(vec2<f32>(f32({x}), 0.0f))" if from_ == "f16" else None


def held_types(*, has_f16: bool, has_f64: bool, has_i64: bool) -> dict[DType, str]:
    """Return the types of values on a device with or without what WGSL leaves optional."""
    missing = {name for name, is_there in (("f64", has_f64), ("i64", has_i64), ("u64", has_i64)) if not is_there}
    types = {**TYPES, dtypes.float16: "f16" if has_f16 else "u32"}
    return {dtype: type_ for dtype, type_ in types.items() if type_ not in missing}
