"""Arithmetic as LLVM IR: a template an operation and operand type.

A template is a few lines of IR in which ``$n`` stands for the result, ``$x`` and ``$y`` for the operands; what it needs
in between is called ``$n.a``, ``$n.b`` and so on::

    max of f32x16    $n = call nsz <16 x float> @llvm.maximum.v16f32(<16 x float> $x, <16 x float> $y)

Operations that LLVM leaves undefined for some operands (shifts by the width, division by zero, the least integer by
-1) are guarded as `zyx.ops` pins them, unless the second operand is a constant for which nothing can go wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.ops import COMPARISONS, BinaryOp, UnaryOp
from zyx.render.llvm.types import SUFFIX, VALUE, literal, vector

if TYPE_CHECKING:
    from zyx.dtype import Scalar
    from zyx.kernel.data import Type
    from zyx.render.llvm.machine import Machine

_FLOAT_ARITHMETIC: Final = {
    BinaryOp.ADD: "fadd",
    BinaryOp.SUB: "fsub",
    BinaryOp.MUL: "fmul",
    BinaryOp.DIV: "fdiv",
    BinaryOp.MOD: "frem",
}
_FLOAT_COMPARISON: Final = {BinaryOp.LT: "olt", BinaryOp.LE: "ole", BinaryOp.EQ: "oeq", BinaryOp.NE: "une"}
_INTEGER_ARITHMETIC: Final = {
    BinaryOp.ADD: "add",
    BinaryOp.SUB: "sub",
    BinaryOp.MUL: "mul",
    BinaryOp.AND: "and",
    BinaryOp.OR: "or",
    BinaryOp.XOR: "xor",
}
_BOOL_ARITHMETIC: Final = {
    BinaryOp.AND: "and",
    BinaryOp.MIN: "and",
    BinaryOp.OR: "or",
    BinaryOp.MAX: "or",
    BinaryOp.XOR: "xor",
}
_FLOAT_UNARY: Final = {UnaryOp.FLOOR: "floor", UnaryOp.TRUNC: "trunc", UnaryOp.SQRT: "sqrt", UnaryOp.ABS: "fabs"}


def unary(op: UnaryOp, type_: Type) -> str | None:
    """Return the template of `op` on `type_`, or None if there is none."""
    t, dtype = VALUE[type_], type_.dtype
    if dtype.is_float:
        if dtype.bits == 16:
            return None
        if op in _FLOAT_UNARY:
            return f"$n = call {t} @llvm.{_FLOAT_UNARY[op]}.{SUFFIX[type_]}({t} $x)"
        if op is UnaryOp.NEG:
            return f"$n = fneg {t} $x"
        return f"$n = fdiv {t} {literal(1.0, type_)}, $x" if op is UnaryOp.RECIPROCAL else None
    if op is UnaryOp.NOT:
        return f"$n = xor {t} $x, {literal(True if dtype.is_bool else -1, type_)}"
    if dtype.is_bool:
        return None
    if op is UnaryOp.NEG:
        return f"$n = sub {t} zeroinitializer, $x" if type_.lanes > 1 else f"$n = sub {t} 0, $x"
    if op is not UnaryOp.ABS:
        return None
    if dtype.is_unsigned:
        return f"$n = or {t} $x, {literal(0, type_)}"
    return f"$n = call {t} @llvm.abs.{SUFFIX[type_]}({t} $x, i1 false)"


def binary(op: BinaryOp, type_: Type, y: Scalar | None = None) -> str | None:
    """Return the template of `op` on two operands of `type_`, or None if there is none.

    `y` is the second operand where it is known to be that constant, in all lanes.
    """
    dtype = type_.dtype
    if dtype.is_float:
        return _float(op, type_) if dtype.bits > 16 else None
    t = VALUE[type_]
    if op in COMPARISONS:
        prefix = "" if op in (BinaryOp.EQ, BinaryOp.NE) else "u" if dtype.is_unsigned or dtype.is_bool else "s"
        return f"$n = icmp {prefix}{op.value} {t} $x, $y"
    if dtype.is_bool:
        return f"$n = {_BOOL_ARITHMETIC[op]} {t} $x, $y" if op in _BOOL_ARITHMETIC else None
    if op in _INTEGER_ARITHMETIC:
        return f"$n = {_INTEGER_ARITHMETIC[op]} {t} $x, $y"
    if op in (BinaryOp.MAX, BinaryOp.MIN):
        return f"$n = call {t} @llvm.{'u' if dtype.is_unsigned else 's'}{op.value}.{SUFFIX[type_]}({t} $x, {t} $y)"
    if op in (BinaryOp.SHL, BinaryOp.SHR):
        return _shift(op, type_, y)
    return _divide(op, type_, y) if op in (BinaryOp.DIV, BinaryOp.MOD) else None


def _float(op: BinaryOp, type_: Type) -> str | None:
    t = VALUE[type_]
    if op in _FLOAT_ARITHMETIC:
        return f"$n = {_FLOAT_ARITHMETIC[op]} {t} $x, $y"
    if op in _FLOAT_COMPARISON:
        return f"$n = fcmp {_FLOAT_COMPARISON[op]} {t} $x, $y"
    if op in (BinaryOp.MAX, BinaryOp.MIN):
        # nsz: which zero comes out is not fixed, and asking for a fixed one doubles the instructions.
        name = "maximum" if op is BinaryOp.MAX else "minimum"
        return f"$n = call nsz {t} @llvm.{name}.{SUFFIX[type_]}({t} $x, {t} $y)"
    return None


def _shift(op: BinaryOp, type_: Type, y: Scalar | None) -> str:
    t, bits = VALUE[type_], type_.dtype.bits
    arithmetic = op is BinaryOp.SHR and not type_.dtype.is_unsigned
    name = "shl" if op is BinaryOp.SHL else "ashr" if arithmetic else "lshr"
    if y is not None and 0 <= y < bits:
        return f"$n = {name} {t} $x, $y"
    if arithmetic:  # as unsigned numbers, negative distances are large ones
        return (
            f"$n.a = call {t} @llvm.umin.{SUFFIX[type_]}({t} $y, {t} {literal(bits - 1, type_)})\n"
            f"$n = ashr {t} $x, $n.a"
        )
    flag = vector("i1", type_.lanes)
    return (
        f"$n.a = icmp ult {t} $y, {literal(bits, type_)}\n"
        f"$n.b = {name} {t} $x, $y\n"
        f"$n = select {flag} $n.a, {t} $n.b, {t} {literal(0, type_)}"
    )


def _divide(op: BinaryOp, type_: Type, y: Scalar | None) -> str:
    t, dtype = VALUE[type_], type_.dtype
    flag = vector("i1", type_.lanes)
    name = ("u" if dtype.is_unsigned else "s") + ("div" if op is BinaryOp.DIV else "rem")
    if y is not None and y not in (0, -1):
        return f"$n = {name} {t} $x, $y"
    zero, one = literal(0, type_), literal(1, type_)
    lines = [f"$n.z = icmp eq {t} $y, {zero}"]
    bad = "$n.z"
    if not dtype.is_unsigned:  # the least integer by -1: by 1 instead, which gives the pinned results
        lines += [
            f"$n.m = icmp eq {t} $y, {literal(-1, type_)}",
            f"$n.l = icmp eq {t} $x, {literal(dtype.min, type_)}",
            f"$n.o = and {flag} $n.m, $n.l",
            f"$n.b = or {flag} $n.z, $n.o",
        ]
        bad = "$n.b"
    lines.append(f"$n.d = select {flag} {bad}, {t} {one}, {t} $y")
    if op is BinaryOp.MOD:  # by 0: by 1 instead, which leaves 0
        lines.append(f"$n = {name} {t} $x, $n.d")
    else:
        lines += [f"$n.q = {name} {t} $x, $n.d", f"$n = select {flag} $n.z, {t} {zero}, {t} $n.q"]
    return "\n".join(lines)


def multiply_add(type_: Type, machine: Machine) -> str | None:
    """Return the template of ``$x * $y + $z``, or None if there is none."""
    t, dtype = VALUE[type_], type_.dtype
    if dtype.is_bool or (dtype.is_float and dtype.bits == 16):
        return None
    if not dtype.is_float:
        return f"$n.p = mul {t} $x, $y\n$n = add {t} $n.p, $z"
    if machine.has_fma:
        return f"$n = call {t} @llvm.fma.{SUFFIX[type_]}({t} $x, {t} $y, {t} $z)"
    return f"$n.p = fmul {t} $x, $y\n$n = fadd {t} $n.p, $z"
