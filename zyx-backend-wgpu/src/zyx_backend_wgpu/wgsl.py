"""Operations on one element as WGSL expressions, exactly as `zyx.ops` pins them.

Templates have ``{x}``, ``{y}`` and ``{z}``, which are names or literals. Values of 8 and 16 bits are held as ``i32``
and ``u32``, always in their range; bfloat16, and float16 where there is no ``f16``, as the ``u32`` of its bits.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.ops import BinaryOp, UnaryOp

if TYPE_CHECKING:
    from collections.abc import Collection

    from zyx.dtype import DType, Scalar

#: Types of values; float16 may be there or not.
TYPES: Final = {
    dtypes.bool_: "bool", dtypes.uint8: "u32", dtypes.int8: "i32", dtypes.uint16: "u32", dtypes.int16: "i32",
    dtypes.uint32: "u32", dtypes.int32: "i32", dtypes.uint64: "u64", dtypes.int64: "i64", dtypes.bfloat16: "u32",
    dtypes.float32: "f32", dtypes.float64: "f64",
}  # fmt: skip
_SUFFIXES: Final = {"u32": "u", "i32": "i", "u64": "lu", "i64": "li", "f32": "f", "f64": "lf", "f16": "h"}
_BITS: Final = {"f32": "u32", "f64": "u64"}
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

#: Functions that kernels use where they are named. They round to nearest, ties to even, and keep what is below the
#: normal range of the smaller type, also where the device flushes that of float32 to zero.
FUNCTIONS: Final = {
    "zyx_from_bf16": """fn zyx_from_bf16(x: u32) -> f32 {
    return bitcast<f32>(x << 16u);
}""",
    "zyx_to_bf16": """fn zyx_to_bf16(x: f32) -> u32 {
    let b = bitcast<u32>(x);
    let is_nan = (b & 0x7fffffffu) > 0x7f800000u;
    return select((b + 0x7fffu + ((b >> 16u) & 1u)) >> 16u, (b >> 16u) | 64u, is_nan);
}""",
    "zyx_from_f16": """fn zyx_from_f16(x: u32) -> f32 {
    let size = x & 0x7fffu;
    let small = bitcast<u32>(f32(size) * 0x1p-24f);
    let normal = (size << 13u) + select(112u << 23u, 224u << 23u, size >= 0x7c00u);
    return bitcast<f32>(select(normal, small, size < 0x400u) | ((x & 0x8000u) << 16u));
}""",
    "zyx_to_f16": """fn zyx_to_f16(x: f32) -> u32 {
    let b = bitcast<u32>(x);
    let size = b & 0x7fffffffu;
    let normal = (size - (112u << 23u) + 0xfffu + ((size >> 13u) & 1u)) >> 13u;
    let small = bitcast<u32>(bitcast<f32>(size) + 0.5f) - (126u << 23u);
    let finite = select(normal, small, size < (113u << 23u));
    let large = select(0x7c00u, 0x7e00u, size > 0x7f800000u);
    return select(finite, large, size >= (143u << 23u)) | ((b >> 16u) & 0x8000u);
}""",
}


def literal(value: Scalar, dtype: DType, type_: str) -> str | None:
    """Return `value` as an expression of `type_`; None for NaN and infinities, which WGSL has no literals for."""
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_float and type_ == "u32":
        packed = struct.pack("<e", value) if dtype is dtypes.float16 else struct.pack("<f", value)[2:]
        return f"{int.from_bytes(packed, 'little')}u"
    if dtype.is_float:
        number = float(value)
        if not math.isfinite(number):
            return None
        text = repr(number)
        is_short = len(text) <= 8 and text.replace(".", "", 1).replace("-", "", 1).isdecimal()
        text = (text if is_short else number.hex()) + _SUFFIXES[type_]
        return f"({text})" if math.copysign(1.0, number) < 0 else text
    number = int(value)
    if number == dtype.min and number < 0 and dtype.bits >= 32:  # its digits do not fit, before the minus is applied
        return f"({number + 1}{_SUFFIXES[type_]} - 1{_SUFFIXES[type_]})"
    return f"({number}{_SUFFIXES[type_]})" if number < 0 else f"{number}{_SUFFIXES[type_]}"


def float_bits(value: float, type_: str) -> str:
    """Return the bits of a number of `type_` as an integer literal."""
    packed = struct.pack("<f" if type_ == "f32" else "<d", value)
    return f"0x{int.from_bytes(packed, 'little'):x}{_SUFFIXES[_BITS[type_]]}"


def is_nan(type_: str, x: str) -> str:
    """Return a test for NaN that no compiler takes for always false."""
    word = _BITS[type_]
    magnitude = "0x7fffffffu" if word == "u32" else "0x7ffffffffffffffflu"
    return f"(bitcast<{word}>({x}) & {magnitude}) > {float_bits(math.inf, type_)}"


def wrapped(text: str, dtype: DType) -> str:
    """Return `text`, an ``i32`` or ``u32``, as a value of `dtype`, an integer, held in the same type."""
    if dtype.bits >= 32:
        return text
    if dtype.is_unsigned:
        return f"({text}) & {(1 << dtype.bits) - 1}u"
    return f"(({text}) << {32 - dtype.bits}u) >> {32 - dtype.bits}u"


def unary(op: UnaryOp, dtype: DType, type_: str) -> str | None:
    """Return the template of `op`, or None if there is none."""
    if dtype.is_bool:
        return "!{x}"
    if dtype.is_float:
        if type_ not in _BITS:
            return None
        if op is UnaryOp.NEG:
            return "-{x}"
        if op is UnaryOp.RECIPROCAL:
            return f"1.0{_SUFFIXES[type_]} / {{x}}"
        return f"{_FUNCTIONS[op]}({{x}})" if op in _FUNCTIONS else None
    zero = f"0{_SUFFIXES[type_]}"
    match op:
        case UnaryOp.NOT:
            return wrapped("~{x}", dtype)
        case UnaryOp.NEG:
            return wrapped(f"{zero} - {{x}}", dtype)
        case UnaryOp.ABS:
            return "{x}" if dtype.is_unsigned else wrapped(f"select({{x}}, {zero} - {{x}}, {{x}} < {zero})", dtype)
        case _:
            return None


def binary(op: BinaryOp, dtype: DType, type_: str, constant: int | None = None) -> str | None:
    """Return the template of `op` on two operands of `dtype`, held as `type_`, or None if there is none.

    `constant` is the second operand, if it is a literal integer.

    Divisors are not 0, and not -1 where that overflows: `zyx.passes.guard_integer_division` sees to that.
    """
    if dtype.is_bool:
        return _OF_BOOLS.get(op)
    if dtype.is_float:
        if type_ not in _BITS or op in (BinaryOp.MOD, BinaryOp.POW):
            return None
        if op in (BinaryOp.MAX, BinaryOp.MIN):
            # Not with ||, which branches.
            return (
                f"select({{y}}, {{x}}, ({{x}} {'>' if op is BinaryOp.MAX else '<'} {{y}}) | ({is_nan(type_, '{x}')}))"
            )
        if op is BinaryOp.NE:
            return "!({x} == {y})"  # != is an ordered comparison, false for NaN, in the code that drivers are given
        return f"{{x}} {_INFIX[op]} {{y}}"
    match op:
        case BinaryOp.MAX | BinaryOp.MIN:
            return f"{op.value}({{x}}, {{y}})"
        case BinaryOp.SHL | BinaryOp.SHR:
            return _shift(op, dtype, type_) if constant is None else _shift_by(constant, op, dtype, type_)
        case BinaryOp.ADD | BinaryOp.SUB | BinaryOp.MUL:
            return wrapped(f"{{x}} {_INFIX[op]} {{y}}", dtype)
        case _:
            return f"{{x}} {_INFIX[op]} {{y}}" if op in _INFIX else None


def _shift(op: BinaryOp, dtype: DType, type_: str) -> str:
    width = max(dtype.bits, 32)
    word = "u64" if width == 64 else "u32"
    distance = f"{word}({{y}})"  # negative distances become large
    if op is BinaryOp.SHR and not dtype.is_unsigned:
        return f"{{x}} >> u32(min({distance}, {width - 1}{_SUFFIXES[word]}))"
    symbol = "<<" if op is BinaryOp.SHL else ">>"
    shifted = f"{{x}} {symbol} (u32({{y}}) & {width - 1}u)"
    shifted = wrapped(shifted, dtype) if op is BinaryOp.SHL else shifted
    return f"select(0{_SUFFIXES[type_]}, {shifted}, {distance} < {dtype.bits}{_SUFFIXES[word]})"


def _shift_by(distance: int, op: BinaryOp, dtype: DType, type_: str) -> str:
    if not 0 <= distance < dtype.bits:
        if op is BinaryOp.SHL or dtype.is_unsigned:
            return f"0{_SUFFIXES[type_]}"
        distance = dtype.bits - 1
    if op is BinaryOp.SHL:
        return wrapped(f"{{x}} << {distance}u", dtype)
    return f"{{x}} >> {distance}u"


def multiply_add(dtype: DType, type_: str) -> str | None:
    """Return the template of ``x * y + z``, or None if there is none."""
    if dtype.is_float:
        return "fma({x}, {y}, {z})" if type_ in _BITS else None
    return None if dtype.is_bool else wrapped("{x} * {y} + {z}", dtype)


def cast(source: DType, target: DType, from_: str, to: str) -> str | None:
    """Return the template of a conversion between types held as `from_` and `to`, or None if there is none."""
    if source.is_bool:
        zero, one = (literal(target.to_scalar(number), target, to) for number in (0, 1))
        return f"select({zero}, {one}, {{x}})"
    if target.is_bool:
        if not source.is_float:
            return f"{{x}} != 0{_SUFFIXES[from_]}"
        if from_ in _BITS:  # also what a comparison would flush to zero
            word = _BITS[from_]
            return f"(bitcast<{word}>({{x}}) << 1u) != 0{_SUFFIXES[word]}"
        return "({x} & 0x7fffu) != 0u" if from_ == "u32" else "!({x} == 0.0h)"
    if source.is_float and source.bits == 16:
        if target is not dtypes.float32:
            return _through_f32(source, target, from_, to)
        return "f32({x})" if from_ == "f16" else f"zyx_from_{source.short}({{x}})"
    if target.is_float and target.bits == 16:
        if source is not dtypes.float32:  # which holds the integers of 16 bits; others come rounded already
            return _through_f32(source, target, from_, to) if source.bits <= 16 else None
        return "f16({x})" if to == "f16" else f"zyx_to_{target.short}({{x}})"
    if source.is_float and target.is_integer:
        return _saturate(source, target, from_, to)
    if target.is_float:
        return f"{to}({{x}})"
    if source.bits == 64 and target.bits < 64:
        return wrapped(f"{to}({{x}})", target)
    if target.bits == 64 and source.bits < 64:  # a conversion that changes both size and sign takes the target's sign
        return f"{to}({'u64' if source.is_unsigned else 'i64'}({{x}}))"
    if from_ == to:
        return "{x}" if target.bits >= source.bits else wrapped("{x}", target)
    return wrapped(f"{to}({{x}})", target)


def _through_f32(source: DType, target: DType, from_: str, to: str) -> str | None:
    first, second = cast(source, dtypes.float32, from_, "f32"), cast(dtypes.float32, target, "f32", to)
    return None if first is None or second is None else second.replace("{x}", f"({first})")


def _saturate(source: DType, target: DType, from_: str, to: str) -> str:
    """Float to integer. The bounds are powers of two, which float32 holds."""
    low, end = (literal(float(bound), source, from_) for bound in (int(target.min), int(target.max) + 1))
    top, bottom = literal(target.max, target, to), literal(target.min, target, to)
    inside = f"select(select({to}({{x}}), {bottom}, {{x}} < {low}), {top}, {{x}} >= {end})"
    return f"select({inside}, 0{_SUFFIXES[to]}, {is_nan(from_, '{x}')})"


def bitcast(source: DType, target: DType, from_: str, to: str) -> str | None:
    """Return the template that reads the bits of a `source` as a `target`, or None if there is none."""
    if source.bits >= 32:
        return f"bitcast<{to}>({{x}})"
    if source.is_bool or target.is_bool:
        return "{x}" if source is target else None
    if from_ == "f16":
        packed = "pack2x16float(vec2<f32>(f32({x}), 0.0f))"
        return wrapped(
            packed if to == "u32" else f"bitcast<i32>({packed})", target if target.is_integer else dtypes.uint16
        )
    if to == "f16":
        return "f16(unpack2x16float(bitcast<u32>({x}) & 0xffffu).x)"
    text = "{x}" if from_ == to else f"bitcast<{to}>({{x}})"
    return wrapped(text, target) if target.is_integer else wrapped(text, dtypes.uint16)


def held_types(*, has_f16: bool, has_f64: bool, has_i64: bool) -> dict[DType, str]:
    """Return the types of values on a device with or without what WGSL leaves optional."""
    missing: Collection[DType] = (() if has_f64 else (dtypes.float64,)) + (
        () if has_i64 else (dtypes.int64, dtypes.uint64)
    )
    types = {**TYPES, dtypes.float16: "f16" if has_f16 else "u32"}
    return {dtype: type_ for dtype, type_ in types.items() if dtype not in missing}
