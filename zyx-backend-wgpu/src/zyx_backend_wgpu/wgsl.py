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
    from zyx.dtype import DType, Scalar
    from zyx.render.dialect import Dialect

#: Types of values; float16 may be there or not.
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
    if dtype.is_float and type_ == "u32":
        packed = struct.pack("<e", value) if dtype is dtypes.float16 else struct.pack("<f", value)[2:]
        return f"{int.from_bytes(packed, 'little')}u"
    number = value if dtype.is_float else int(value)
    if not math.isfinite(number):
        wide = "f32" if type_ == "f16" else type_
        text = f"bitcast<{wide}>({_float_bits(number, wide)} ^ {BITS[wide]}(zero))"
        return f"f16({text})" if type_ == "f16" else text
    if isinstance(number, int):
        if number == dtype.min and number < 0 and dtype.bits >= 32:  # its digits do not fit, before the minus
            return f"({number + 1}{SUFFIXES[type_]} - 1{SUFFIXES[type_]})"
        text = f"{number}"
    else:
        text = repr(number)
        if len(text) > 8 or not text.replace(".", "", 1).replace("-", "", 1).isdecimal():
            text = number.hex()
    text += SUFFIXES[type_]
    return f"({text})" if text.startswith("-") else text


def _float_bits(value: float, type_: str) -> str:
    """Return the bits of a number as an integer literal."""
    packed = struct.pack("<f" if type_ == "f32" else "<d", value)
    return f"0x{int.from_bytes(packed, 'little'):x}{SUFFIXES[BITS[type_]]}"


def is_nan(type_: str, x: str = "{x}") -> str:
    """Return a test for NaN that no compiler takes for always false."""
    magnitude = "0x7fffffffu" if type_ == "f32" else "0x7ffffffffffffffflu"
    return f"(bitcast<{BITS[type_]}>({x}) & {magnitude}) > {_float_bits(math.inf, type_)}"


def wrapped(text: str, dtype: DType) -> str:
    """Return `text`, an ``i32`` or ``u32``, as a value of `dtype`, held in the same type; of floats, as their bits."""
    if dtype.bits >= 32:
        return text
    if dtype.is_unsigned or dtype.is_float:
        return f"({text}) & {(1 << dtype.bits) - 1}u"
    return f"(({text}) << {32 - dtype.bits}u) >> {32 - dtype.bits}u"


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
            return wrapped("~{x}", dtype)
        case UnaryOp.NEG:
            return wrapped(f"{zero} - {{x}}", dtype)
        case UnaryOp.ABS:
            return "{x}" if dtype.is_unsigned else wrapped(f"select({{x}}, {zero} - {{x}}, {{x}} < {zero})", dtype)
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
        case BinaryOp.ADD | BinaryOp.SUB | BinaryOp.MUL if dtype.is_integer:
            return wrapped(f"{{x}} {_INFIX[op]} {{y}}", dtype)
        case _:
            return f"{{x}} {_INFIX[op]} {{y}}"


def _shift(op: BinaryOp, dtype: DType, type_: str) -> str:
    width = max(dtype.bits, 32)
    word = "u64" if width == 64 else "u32"
    distance = f"{word}({{y}})"  # negative distances become large
    if op is BinaryOp.SHR and not dtype.is_unsigned:
        return f"{{x}} >> u32(min({distance}, {width - 1}{SUFFIXES[word]}))"
    shifted = f"{{x}} {'<<' if op is BinaryOp.SHL else '>>'} (u32({{y}}) & {width - 1}u)"
    shifted = wrapped(shifted, dtype) if op is BinaryOp.SHL else shifted
    return f"select(0{SUFFIXES[type_]}, {shifted}, {distance} < {dtype.bits}{SUFFIXES[word]})"


def shift_within(op: BinaryOp, dtype: DType) -> str:
    """Return the template of a shift by fewer bits than there are."""
    return wrapped("{x} << u32({y})", dtype) if op is BinaryOp.SHL else "{x} >> u32({y})"


def shift_by(distance: int, op: BinaryOp, dtype: DType, dialect: Dialect) -> str:
    """Return the template of a shift by a constant, which WGSL does not convert as it does others."""
    if not 0 <= distance < dtype.bits:
        if op is BinaryOp.SHL or dtype.is_unsigned:
            return f"0{SUFFIXES[dialect.type_name(dtype)]}"
        distance = dtype.bits - 1
    return wrapped(f"{{x}} << {distance}u", dtype) if op is BinaryOp.SHL else f"{{x}} >> {distance}u"


def multiply_add(dtype: DType, dialect: Dialect) -> str | None:
    """Return the template of ``x * y + z``, or None if there is none."""
    if dtype.is_float:
        return "fma({x}, {y}, {z})" if dialect.type_name(dtype) in BITS else None
    return None if dtype.is_bool else wrapped("{x} * {y} + {z}", dtype)


def cast(source: DType, target: DType, dialect: Dialect) -> str | None:
    """Return the template of a conversion, or None if there is none."""
    from_, to = dialect.type_name(source), dialect.type_name(target)
    if source.is_bool:
        zero, one = (literal(target.to_scalar(number), target, dialect) for number in (0, 1))
        return f"select({zero}, {one}, {{x}})"
    if target.is_bool:
        if from_ in BITS:  # also what a comparison would flush to zero
            return f"(bitcast<{BITS[from_]}>({{x}}) << 1u) != 0{SUFFIXES[BITS[from_]]}"
        if source.is_float:
            return "({x} & 0x7fffu) != 0u" if from_ == "u32" else "!({x} == 0.0h)"
        return f"{{x}} != 0{SUFFIXES[from_]}"
    for half, other, type_, function in (
        (source, target, from_, f"zyx_from_{source.short}"),
        (target, source, to, f"zyx_to_{target.short}"),
    ):
        if half.is_float and half.bits == 16:
            if other is dtypes.float32:
                return f"{to}({{x}})" if type_ == "f16" else f"{function}({{x}})"
            # float32 holds the integers of 16 bits; what it does not hold comes rounded already.
            return _through_f32(source, target, dialect) if half is source or other.bits <= 16 else None
    if target.is_integer and source.is_float:
        return _saturate(source, target, dialect)
    if target.is_float:
        return f"{to}({{x}})"
    if target.bits == 64 and source.bits < 64:  # a conversion that changes both size and sign takes the target's sign
        return f"{to}({'u64' if source.is_unsigned else 'i64'}({{x}}))"
    if from_ == to:
        return "{x}" if target.bits >= source.bits else wrapped("{x}", target)
    return wrapped(f"{to}({{x}})", target)


def _through_f32(source: DType, target: DType, dialect: Dialect) -> str | None:
    first, second = cast(source, dtypes.float32, dialect), cast(dtypes.float32, target, dialect)
    return None if first is None or second is None else second.replace("{x}", f"({first})")


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
    if source.is_bool or target.is_bool:
        return "{x}" if source is target else None
    if to == "f16":
        return "f16(unpack2x16float(bitcast<u32>({x}) & 0xffffu).x)"
    text = "pack2x16float(vec2<f32>(f32({x}), 0.0f))" if from_ == "f16" else "{x}"
    return wrapped(text if to == from_ or (from_, to) == ("f16", "u32") else f"bitcast<{to}>({text})", target)


def held_types(*, has_f16: bool, has_f64: bool, has_i64: bool) -> dict[DType, str]:
    """Return the types of values on a device with or without what WGSL leaves optional."""
    missing = {name for name, is_there in (("f64", has_f64), ("i64", has_i64), ("u64", has_i64)) if not is_there}
    types = {**TYPES, dtypes.float16: "f16" if has_f16 else "u32"}
    return {dtype: type_ for dtype, type_ in types.items() if type_ not in missing}
