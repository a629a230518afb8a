"""Replace functions that a device lacks by sequences of operations that it has.

    %4 = exp %3 : f32x8     =>     %4 = const 89.0 : f32x8
                                   ... two dozen operations: multiply-adds, shifts, choices
                                   %41 = mul %39, %40 : f32x8

What is native is said by `DeviceInfo.capabilities`, dtype by dtype; native functions stay. float16 and bfloat16 are
computed in float32, by its native function where there is one. Powers by some constants are products. The formulas and
how far off they are stand in `zyx.passes.math`.

Sines and cosines use register memory: the kernel then begins with an array of its own for each type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.ir import kernel as k
from zyx.ir.rewriter import Rewriter
from zyx.ops import TRANSCENDENTAL, BinaryOp, UnaryOp
from zyx.passes.math.arctangent import atan
from zyx.passes.math.error_function import erf
from zyx.passes.math.exponential import exp, exp2, expm1
from zyx.passes.math.hyperbolic import tanh
from zyx.passes.math.logarithm import log, log1p, log2
from zyx.passes.math.power import power, power_of_constant
from zyx.passes.math.trigonometric import cos, sin

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.backend.info import DeviceInfo
    from zyx.dtype import DType, Scalar
    from zyx.ir.builder import Builder
    from zyx.ir.kernel import Kernel, Op, Type, ValueId

_UNARY: Final[dict[UnaryOp, Callable[[Builder, ValueId], ValueId]]] = {
    UnaryOp.EXP: exp,
    UnaryOp.EXP2: exp2,
    UnaryOp.EXPM1: expm1,
    UnaryOp.LOG: log,
    UnaryOp.LOG2: log2,
    UnaryOp.LOG1P: log1p,
    UnaryOp.TANH: tanh,
    UnaryOp.ATAN: atan,
    UnaryOp.ERF: erf,
}
_PERIODIC: Final = {UnaryOp.SIN: sin, UnaryOp.COS: cos}


def decompose_transcendentals(kernel: Kernel, info: DeviceInfo) -> Kernel:
    """Return `kernel` without the transcendental functions and powers of floats that the device of `info` lacks.

    From `info` come the operations that are left to the device, whether `Mad` rounds once, and whether there is uint64.
    """
    if not any(_is_missing(op, info) for op in kernel.ops):
        return kernel
    rewriter = Rewriter()
    scratch: dict[Type, ValueId] = {}

    def define_scratch() -> None:
        for op in kernel.ops:
            if isinstance(op, k.Unary) and op.op in _PERIODIC and _is_missing(op, info):
                type_ = _computed(op.type)
                if type_ not in scratch:
                    scratch[type_] = rewriter.define(k.Memory.REGISTER, type_.dtype, 1, lanes=type_.lanes)

    def rule(op: Op) -> ValueId | None:
        if not _is_missing(op, info):
            return None
        assert isinstance(op, k.Unary | k.Binary)
        dtype = _computed(op.type).dtype
        has_wide = dtype is not op.type.dtype and _is_native(op.op, dtype, info)
        x = rewriter.cast(op.x, dtype)
        if isinstance(op, k.Binary):
            exponent = _literal(rewriter, op.y)
            result = None if exponent is None else power_of_constant(rewriter, x, exponent)
            if result is None:
                y = rewriter.cast(op.y, dtype)
                result = rewriter.binary(op.op, x, y) if has_wide else power(rewriter, x, y, has_fma=info.has_fma)
        elif has_wide:
            result = rewriter.unary(op.op, x)
        elif op.op in _PERIODIC:
            has_uint64 = info.can_compute(dtypes.uint64)
            array = scratch[_computed(op.type)]
            result = _PERIODIC[op.op](rewriter, x, array, has_fma=info.has_fma, has_uint64=has_uint64)
        else:
            result = _UNARY[op.op](rewriter, x)
        return rewriter.cast(result, op.type.dtype)

    return rewriter.rewrite(kernel, rule, define_scratch)


def _is_missing(op: Op, info: DeviceInfo) -> bool:
    if isinstance(op, k.Unary):
        return op.op in TRANSCENDENTAL and not _is_native(op.op, op.type.dtype, info)
    if isinstance(op, k.Binary) and op.op is BinaryOp.POW:
        return op.type.dtype.is_float and not _is_native(op.op, op.type.dtype, info)
    return False


def _is_native(function: UnaryOp | BinaryOp, dtype: DType, info: DeviceInfo) -> bool:
    capability = info.capabilities.get(dtype)
    if capability is None:
        return False
    return function in (capability.unary if isinstance(function, UnaryOp) else capability.binary)


def _computed(type_: Type) -> Type:
    """Return the type in which a function of `type_` is computed."""
    return type_._replace(dtype=dtypes.accumulator(type_.dtype))


def _literal(b: Builder, value: ValueId) -> Scalar | None:
    """Return the number that `value` is known to be, in all lanes."""
    op = b.ops[value]
    if isinstance(op, k.Vectorize) and len(set(op.items)) == 1:
        op = b.ops[op.items[0]]
    return op.value if isinstance(op, k.Const) else None
