"""Conversions as LLVM IR, in templates as in `zyx.render.llvm.math`.

Conversions round once, also from types that hold more than float32 to float16 and bfloat16: those go through a float32
that was rounded to odd (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
rounding to odd", 2008). Conversions of floats to integers saturate; LLVM's own intrinsic for that is taken apart into
scalars when it works on vectors, so vectors are clamped by comparisons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.kernel.data import Type
from zyx.render.llvm.types import SUFFIX, VALUE, literal, vector

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.render.llvm.machine import Machine


def cast(source: Type, target: DType, machine: Machine) -> str:
    """Return the template that converts a value of `source` to `target`, another dtype."""
    lanes, given = source.lanes, source.dtype
    result = Type(target, lanes)
    single = Type(dtypes.float32, lanes)
    if given.is_float and given.bits == 16:
        if target.is_bool:  # any bit but the sign
            t = VALUE[source]
            return f"$n.m = and {t} $x, {_bits(32767, 16, lanes)}\n$n = icmp ne {t} $n.m, {_bits(0, 16, lanes)}"
        decoded = _decode(given, lanes, machine)
        return decoded if target is dtypes.float32 else _then(decoded, cast(single, target, machine))
    if target.is_float and target.bits == 16:
        return _to_half(source, target, machine)
    t, r = VALUE[source], VALUE[result]
    if target.is_bool:
        return (
            f"$n = fcmp une {t} $x, {literal(0.0, source)}"
            if given.is_float
            else f"$n = icmp ne {t} $x, {literal(0, source)}"
        )
    if given.is_float:
        if target.is_float:
            return f"$n = {'fpext' if target.bits > given.bits else 'fptrunc'} {t} $x to {r}"
        return _saturate(source, result)
    unsigned = given.is_unsigned or given.is_bool
    if target.is_float:
        return f"$n = {'u' if unsigned else 's'}itofp {t} $x to {r}"
    if given.is_bool or target.bits > given.bits:
        return f"$n = {'z' if unsigned else 's'}ext {t} $x to {r}"
    if target.bits == given.bits:
        return f"$n = or {t} $x, {literal(0, source)}"
    return f"$n = trunc {t} $x to {r}"


def bitcast(source: Type, target: DType) -> str:
    """Return the template that reads the bits of a value of `source` as `target`, of the same size."""
    t, r = VALUE[source], VALUE[Type(target, source.lanes)]
    if target.is_bool:
        return f"$n = icmp ne {t} $x, {literal(0, source)}"
    if source.dtype.is_bool:
        return f"$n = zext {t} $x to {r}"
    return f"$n = bitcast {t} $x to {r}"


def _bits(value: int, bits: int, lanes: int) -> str:
    """Return an integer constant of `bits` bits in all lanes, without its type."""
    return str(value) if lanes == 1 else f"splat (i{bits} {value})"


def _then(first: str, second: str) -> str:
    """Return the template that applies `first` and then `second`."""
    return first.replace("$n", "$n.w") + "\n" + second.replace("$x", "$n.w")


def _saturate(source: Type, result: Type) -> str:
    """Float to integer."""
    t, r, target = VALUE[source], VALUE[result], result.dtype
    sign = "u" if target.is_unsigned else "s"
    if source.lanes == 1:
        return f"$n = call {r} @llvm.fpto{sign}i.sat.{SUFFIX[result]}.{SUFFIX[source]}({t} $x)"
    flag = vector("i1", source.lanes)
    low, end = literal(float(target.min), source), literal(float(int(target.max) + 1), source)  # powers of two: exact
    # Types of up to 16 bits go through 32, to which all processors have an instruction.
    wide = r if target.bits >= 32 else vector("i32", source.lanes)
    name = f"fpto{sign}i" if target.bits >= 32 else "fptosi"
    lines = [
        f"$n.a = fcmp oge {t} $x, {low}",
        f"$n.b = fcmp olt {t} $x, {end}",
        f"$n.c = and {flag} $n.a, $n.b",
        f"$n.d = select {flag} $n.c, {t} $x, {t} {literal(0.0, source)}",
        f"$n.e = {name} {t} $n.d to {wide}",
        f"$n.f = fcmp oge {t} $x, {end}",
    ]
    if wide != r:
        lines.append(f"$n.t = trunc {wide} $n.e to {r}")
    inside, top = "$n.e" if wide == r else "$n.t", f"{r} {literal(target.max, result)}"
    if target.is_unsigned:
        lines.append(f"$n = select {flag} $n.f, {top}, {r} {inside}")
    else:
        lines += [
            f"$n.g = select {flag} $n.f, {top}, {r} {inside}",
            f"$n.h = fcmp olt {t} $x, {low}",
            f"$n = select {flag} $n.h, {r} {literal(target.min, result)}, {r} $n.g",
        ]
    return "\n".join(lines)


# ---- half floats


def _decode(dtype: DType, lanes: int, machine: Machine) -> str:
    """float16 or bfloat16 to float32, which holds both exactly."""
    h, i, f = vector("i16", lanes), vector("i32", lanes), vector("float", lanes)

    def bits(value: int) -> str:
        return _bits(value, 32, lanes)

    if dtype is dtypes.bfloat16:
        return f"$n.a = zext {h} $x to {i}\n$n.b = shl {i} $n.a, {bits(16)}\n$n = bitcast {i} $n.b to {f}"
    if machine.has_half_conversion:
        half = vector("half", lanes)
        return f"$n.a = bitcast {h} $x to {half}\n$n = fpext {half} $n.a to {f}"
    flag = vector("i1", lanes)
    return "\n".join(
        [
            # The exponent and digits, moved to their place, are too small by 2**112; multiplying is exact, also for
            # denormals. Infinity and NaN get the exponent of their kind after that.
            f"$n.a = zext {h} $x to {i}",
            f"$n.b = and {i} $n.a, {bits(0x7FFF)}",
            f"$n.c = shl {i} $n.b, {bits(13)}",
            f"$n.d = bitcast {i} $n.c to {f}",
            f"$n.e = fmul {f} $n.d, {literal(2.0**112, Type(dtypes.float32, lanes))}",
            f"$n.f = bitcast {f} $n.e to {i}",
            f"$n.g = icmp uge {i} $n.b, {bits(0x7C00)}",
            f"$n.h = or {i} $n.f, {bits(0x7F800000)}",
            f"$n.i = select {flag} $n.g, {i} $n.h, {i} $n.f",
            f"$n.j = and {i} $n.a, {bits(0x8000)}",
            f"$n.k = shl {i} $n.j, {bits(16)}",
            f"$n.l = or {i} $n.i, $n.k",
            f"$n = bitcast {i} $n.l to {f}",
        ]
    )


def _to_half(source: Type, target: DType, machine: Machine) -> str:
    given, lanes = source.dtype, source.lanes
    encoded = _encode(target, lanes, machine)
    if given is dtypes.float32:
        return encoded
    if given is dtypes.float64:
        return _then(_round_to_odd(lanes), encoded)
    # float32 holds integers of up to 24 bits; larger ones are infinite in float16, however they are rounded.
    if given.bits <= 16 or target is dtypes.float16:
        return _then(cast(source, dtypes.float32, machine), encoded)
    to_double = cast(source, dtypes.float64, machine)
    if given.bits == 64:
        to_double = _then(_shorten(source), to_double)
    return _then(_then(to_double, _round_to_odd(lanes)), encoded)


def _encode(dtype: DType, lanes: int, machine: Machine) -> str:
    """float32 to float16 or bfloat16, rounding to nearest, ties to even."""
    h, i, f, flag = vector("i16", lanes), vector("i32", lanes), vector("float", lanes), vector("i1", lanes)

    def bits(value: int) -> str:
        return _bits(value, 32, lanes)

    if dtype is dtypes.bfloat16:
        return "\n".join(
            [
                f"$n.a = bitcast {f} $x to {i}",
                f"$n.b = lshr {i} $n.a, {bits(16)}",
                f"$n.c = and {i} $n.b, {bits(1)}",
                f"$n.d = add {i} $n.c, {bits(0x7FFF)}",
                f"$n.e = add {i} $n.a, $n.d",
                f"$n.f = lshr {i} $n.e, {bits(16)}",
                f"$n.g = fcmp uno {f} $x, $x",
                f"$n.h = or {i} $n.b, {bits(64)}",  # a quiet NaN
                f"$n.i = select {flag} $n.g, {i} $n.h, {i} $n.f",
                f"$n = trunc {i} $n.i to {h}",
            ]
        )
    if machine.has_half_conversion:
        half = vector("half", lanes)
        return f"$n.a = fptrunc {f} $x to {half}\n$n = bitcast {half} $n.a to {h}"
    return "\n".join(
        [
            f"$n.a = bitcast {f} $x to {i}",
            f"$n.b = and {i} $n.a, {bits(0x7FFFFFFF)}",
            # Normal results: exponent less 112, then round off 13 digits.
            f"$n.c = lshr {i} $n.b, {bits(13)}",
            f"$n.d = and {i} $n.c, {bits(1)}",
            f"$n.e = add {i} $n.b, {bits(0xFFF - (112 << 23))}",
            f"$n.f = add {i} $n.e, $n.d",
            f"$n.g = lshr {i} $n.f, {bits(13)}",
            # Denormal results: adding 1/2 lets the adder round to multiples of 2**-24.
            f"$n.h = bitcast {i} $n.b to {f}",
            f"$n.i = fadd {f} $n.h, {literal(0.5, Type(dtypes.float32, lanes))}",
            f"$n.j = bitcast {f} $n.i to {i}",
            f"$n.k = sub {i} $n.j, {bits(126 << 23)}",
            f"$n.l = icmp ult {i} $n.b, {bits(113 << 23)}",
            f"$n.m = select {flag} $n.l, {i} $n.k, {i} $n.g",
            # From 65536 on: infinity; NaN stays one.
            f"$n.o = icmp uge {i} $n.b, {bits(143 << 23)}",
            f"$n.p = select {flag} $n.o, {i} {bits(0x7C00)}, {i} $n.m",
            f"$n.q = fcmp uno {f} $x, $x",
            f"$n.r = select {flag} $n.q, {i} {bits(0x7E00)}, {i} $n.p",
            f"$n.s = lshr {i} $n.a, {bits(16)}",
            f"$n.t = and {i} $n.s, {bits(0x8000)}",
            f"$n.u = or {i} $n.r, $n.t",
            f"$n = trunc {i} $n.u to {h}",
        ]
    )


def _round_to_odd(lanes: int) -> str:
    """float64 to the float32 next to it whose last bit is odd; exact ones as they are."""
    d, f, i, flag = vector("double", lanes), vector("float", lanes), vector("i32", lanes), vector("i1", lanes)
    fabs = SUFFIX[Type(dtypes.float64, lanes)]
    return "\n".join(
        [
            f"$n.a = fptrunc {d} $x to {f}",
            f"$n.b = fpext {f} $n.a to {d}",
            f"$n.c = bitcast {f} $n.a to {i}",
            f"$n.d = call {d} @llvm.fabs.{fabs}({d} $n.b)",
            f"$n.e = call {d} @llvm.fabs.{fabs}({d} $x)",
            f"$n.f = fcmp ogt {d} $n.d, $n.e",
            f"$n.g = sub {i} $n.c, {_bits(1, 32, lanes)}",  # sign and magnitude: toward zero
            f"$n.h = select {flag} $n.f, {i} $n.g, {i} $n.c",
            f"$n.i = or {i} $n.h, {_bits(1, 32, lanes)}",
            f"$n.j = fcmp one {d} $n.b, $x",
            f"$n.k = select {flag} $n.j, {i} $n.i, {i} $n.h",
            f"$n = bitcast {i} $n.k to {f}",
        ]
    )


def _shorten(source: Type) -> str:
    """A 64-bit integer to one that float64 holds: beyond 53 digits, the last 11 are cut off and noted in an odd one."""
    t, lanes = VALUE[source], source.lanes
    flag = vector("i1", lanes)

    def number(value: int) -> str:
        return _bits(value, 64, lanes)

    small = (
        f"$n.a = icmp ult {t} $x, {number(1 << 53)}"
        if source.dtype.is_unsigned
        else f"$n.s = add {t} $x, {number(1 << 53)}\n$n.a = icmp ult {t} $n.s, {number(1 << 54)}"
    )
    return "\n".join(
        [
            small,
            f"$n.b = and {t} $x, {number(2047)}",
            f"$n.c = icmp ne {t} $n.b, {number(0)}",
            f"$n.d = and {t} $x, {number(-2048)}",
            f"$n.e = or {t} $n.d, {number(2048)}",
            f"$n.f = select {flag} $n.c, {t} $n.e, {t} $n.d",
            f"$n = select {flag} $n.a, {t} $x, {t} $n.f",
        ]
    )
