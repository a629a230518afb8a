"""Find sums of pairs of products of bytes, which x86 has one instruction for and LLVM does not find by itself.

    %3 = cast %a : i16x32                     a: u8x32
    %4 = cast %b : i16x32                     b: i8x32
    %5 = mul %3, %4 : i16x32                                  =>  call <16 x i16> @llvm.x86.avx2.pmadd.ub.sw(%a, %b)
    %6 = shuffle %5, %5, (0, 2, .. 30) : i16x16
    %7 = shuffle %5, %5, (1, 3, .. 31) : i16x16
    %8 = add %6, %7 : i16x16

The instruction saturates where the sum wraps, so both have to fit: that is known of bytes such as those of 4 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.ops import BinaryOp
from zyx.render.llvm import values
from zyx.render.llvm.types import VALUE

if TYPE_CHECKING:
    from zyx.kernel.data import ValueId
    from zyx.render.llvm.writer import Writer
    from zyx_backend_c.llvm_cpu import CpuWriter

#: By lanes of the sums: the name of the instruction, and what the processor has to have.
_INSTRUCTIONS: Final = {
    8: ("ssse3.pmadd.ub.sw.128", "ssse3"),
    16: ("avx2.pmadd.ub.sw", "avx2"),
    32: ("avx512.pmaddubs.w.512", "avx512bw"),
}


def binary(w: CpuWriter, i: int, op: k.Binary) -> None:
    """Apply a binary operation; a sum of pairs of products of bytes as one instruction."""
    if op.op is BinaryOp.ADD and op.type.dtype is dtypes.int16 and op.type.lanes in _INSTRUCTIONS:
        name, feature = _INSTRUCTIONS[op.type.lanes]
        factors = _factors(w, op) if feature in w.target.features else None
        if factors is not None:
            x, y = map(w.typed, factors)
            w.lines.append(f"  %v{i} = call {VALUE[op.type]} @llvm.x86.{name}({x}, {y})")
            w.names[i] = f"%v{i}"
            return
    values.binary(w, i, op)


def _factors(w: Writer, op: k.Binary) -> tuple[ValueId, ValueId] | None:
    """Return the bytes without a sign, and those with one, whose products `op` adds in pairs; None if it does not."""
    even, odd = w.ops[op.x], w.ops[op.y]
    if not isinstance(even, k.Shuffle) or not isinstance(odd, k.Shuffle) or {even.x, odd.x} != {even.x}:
        return None
    product, lanes = w.ops[even.x], 2 * op.type.lanes
    picked = [tuple(range(first, lanes, 2)) for first in (0, 1)]
    if not isinstance(product, k.Binary) or product.op is not BinaryOp.MUL or product.type.lanes != lanes:
        return None
    if sorted((even.lanes, odd.lanes)) != picked:
        return None
    casts = (w.ops[product.x], w.ops[product.y])
    sources = {w.type_of(cast.x).dtype: cast.x for cast in casts if isinstance(cast, k.Cast)}
    if sources.keys() != {dtypes.uint8, dtypes.int8}:
        return None
    x, y = sources[dtypes.uint8], sources[dtypes.int8]
    most = 2 * w.range_of(x)[1] * max(map(abs, w.range_of(y)))
    return (x, y) if most <= int(dtypes.int16.max) else None
