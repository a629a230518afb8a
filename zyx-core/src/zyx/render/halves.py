"""float16 and bfloat16 by integer arithmetic, for languages and devices without them: values are 16-bit integers.

Conversions round once, to nearest, ties to even. What float32 does not hold exactly goes through the float32 next to it
whose last bit is odd; rounding that again gives what rounding the value itself would (Boldo and Melquiond, "Emulation
of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.dtype import DType

#: ``{f}`` introduces a function; the others are types, and functions that read bits as another type.
_SINGLE: Final = """
{f} {f32} zyx_from_bf16({u16} x) {{
    return {as_f32}(({u32})x << 16);
}}
{f} {f32} zyx_from_f16({u16} x) {{
    // Moved to their place, exponent and digits are too small by 2**112; multiplying is exact, also for denormals.
    const {u32} size = x & 0x7fffu;
    const {u32} bits = {as_u32}({as_f32}(size << 13) * 0x1p112f);
    return {as_f32}((size >= 0x7c00u ? bits | 0x7f800000u : bits) | ({u32})(x & 0x8000u) << 16);
}}
{f} {u16} zyx_to_bf16({f32} x) {{
    const {u32} bits = {as_u32}(x);
    return ({u16})(x != x ? bits >> 16 | 64u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}}
{f} {u16} zyx_to_f16({f32} x) {{
    const {u32} bits = {as_u32}(x);
    const {u32} size = bits & 0x7fffffffu;
    // Normal results: exponent less 112, round off 13 digits. Denormal ones: adding 1/2 rounds to multiples of 2**-24.
    const {u32} normal = (size - (112u << 23) + 0xfffu + (size >> 13 & 1u)) >> 13;
    const {u32} denormal = {as_u32}({as_f32}(size) + 0.5f) - (126u << 23);
    const {u32} finite = size < 113u << 23 ? denormal : normal;
    return ({u16})((x != x ? 0x7e00u : size >= 143u << 23 ? 0x7c00u : finite) | (bits >> 16 & 0x8000u));
}}
"""
_DOUBLE: Final = """
{f} {f32} zyx_to_odd({f64} x) {{
    const {f32} nearest = ({f32})x;
    const {f64} back = ({f64})nearest;
    {u32} bits = {as_u32}(nearest);
    if ((back < 0 ? -back : back) > (x < 0 ? -x : x)) bits -= 1;
    return {as_f32}(back != x && x == x ? bits | 1u : bits);
}}
{f} {f64} zyx_from_i64({i64} x) {{
    const {i64} odd = (x & ~({i64})2047) | ((x & 2047) != 0 ? 2048 : 0);
    const int small = x < ({i64})1 << 53 && x > -(({i64})1 << 53);
    return ({f64})(small ? x : odd);
}}
{f} {f64} zyx_from_u64({u64} x) {{
    const {u64} odd = (x & ~({u64})2047) | ((x & 2047) != 0 ? 2048 : 0);
    return ({f64})(x < ({u64})1 << 53 ? x : odd);
}}
"""


def half_functions(types: Mapping[DType, str], function: str, as_f32: str, as_u32: str) -> str:
    """Return the functions that `half_casts` uses.

    Args:
        types: Types of the language; without float64, conversions from it are left out.
        function: What stands before a function's type, such as ``static inline``.
        as_f32: Function that reads the bits of a uint32 as float32.
        as_u32: Function that reads the bits of a float32 as uint32.
    """
    names = {dtype.short: name for dtype, name in types.items()}
    text = _SINGLE + (_DOUBLE if dtypes.float64 in types else "")
    return text.format(f=function, as_f32=as_f32, as_u32=as_u32, **names)


def half_casts(types: Mapping[DType, str]) -> dict[tuple[DType, DType], str]:
    """Return the conversions, for `zyx.render.dialect.Dialect.casts`."""
    f32, f64 = dtypes.float32, dtypes.float64
    result: dict[tuple[DType, DType], str] = {}
    for half in (dtypes.float16, dtypes.bfloat16):
        result[half, f32] = f"zyx_from_{half.short}({{x}})"
        result[f32, half] = f"zyx_to_{half.short}({{x}})"
        if f64 in types:
            result[f64, half] = f"zyx_to_{half.short}(zyx_to_odd({{x}}))"
    if f64 in types:
        result[dtypes.int64, dtypes.bfloat16] = "zyx_to_bf16(zyx_to_odd(zyx_from_i64({x})))"
        result[dtypes.uint64, dtypes.bfloat16] = "zyx_to_bf16(zyx_to_odd(zyx_from_u64({x})))"
    return result
