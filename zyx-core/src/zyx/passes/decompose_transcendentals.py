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
from zyx.kernel import data as k
from zyx.ops import TRANSCENDENTAL, BinaryOp, UnaryOp
from zyx.passes.math.arctangent import atan
from zyx.passes.math.error_function import erf
from zyx.passes.math.exponential import exp, exp2, expm1
from zyx.passes.math.hyperbolic import tanh
from zyx.passes.math.logarithm import log, log1p, log2
from zyx.passes.math.power import power, power_of_constant
from zyx.passes.math.trigonometric import cos, sin
from zyx.passes.rules import Rules, applied

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.dtype import DType, Scalar
    from zyx.kernel.build import Builder
    from zyx.kernel.data import Kernel, Type, ValueId

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
    return applied(kernel, Functions(info))


class Functions(Rules):
    """Writes transcendental functions and powers of floats that the device of `info` lacks."""

    looks_at = frozenset({*TRANSCENDENTAL, BinaryOp.POW})

    def __init__(self, info: DeviceInfo) -> None:
        self._info = info
        self._scratch: dict[Type, ValueId] = {}

    def define(self, b: Builder, ops: Sequence[k.Unary | k.Binary]) -> None:
        """Define an array for each type of which there are sines or cosines."""
        for op in ops:
            if op.op in _PERIODIC and _is_missing(op, self._info):
                type_ = _computed(op.type)
                if type_ not in self._scratch:
                    self._scratch[type_] = b.define(k.Memory.REGISTER, type_.dtype, 1, lanes=type_.lanes)

    def write(self, b: Builder, op: k.Unary | k.Binary) -> ValueId | None:
        """Return the function's value."""
        info = self._info
        if not _is_missing(op, info):
            return None
        dtype = _computed(op.type).dtype
        has_wide = dtype is not op.type.dtype and _is_native(op.op, dtype, info)
        x = b.cast(op.x, dtype)
        if isinstance(op, k.Binary):
            exponent = _literal(b, op.y)
            result = None if exponent is None else power_of_constant(b, x, exponent)
            if result is None:
                y = b.cast(op.y, dtype)
                result = b.binary(op.op, x, y) if has_wide else power(b, x, y, has_fma=info.has_fma)
        elif has_wide:
            result = b.unary(op.op, x)
        elif op.op in _PERIODIC:
            has_uint64 = info.can_compute(dtypes.uint64)
            array = self._scratch[_computed(op.type)]
            result = _PERIODIC[op.op](b, x, array, has_fma=info.has_fma, has_uint64=has_uint64)
        else:
            result = _UNARY[op.op](b, x)
        return b.cast(result, op.type.dtype)


def _is_missing(op: k.Unary | k.Binary, info: DeviceInfo) -> bool:
    if op.op in TRANSCENDENTAL or (op.op is BinaryOp.POW and op.type.dtype.is_float):
        return not _is_native(op.op, op.type.dtype, info)
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
