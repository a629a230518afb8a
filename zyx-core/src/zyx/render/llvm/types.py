"""How values and memory are spelled in LLVM IR.

    dtype            in memory     as a value
    bool             i8            i1          loads test for nonzero, stores write 0 or 1
    u8 i8 .. i64     i8 .. i64     the same    LLVM's integers have no sign; operations have
    f16 bf16         i16           i16         moved and selected as bits; only casts look inside
    f32 f64          float double  the same

A vector of n lanes is ``<n x element>`` of these. Half floats are kept as integers since LLVM's own types call library
functions, or fall back to scalars, on processors without the instructions.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.kernel.data import Type

if TYPE_CHECKING:
    from zyx.dtype import DType, Scalar

#: Lane counts that values may have.
LANES: Final = (1, 2, 4, 8, 16, 32, 64)


def _element(dtype: DType, *, in_memory: bool) -> str:
    if dtype.is_bool:
        return "i8" if in_memory else "i1"
    if dtype is dtypes.float32:
        return "float"
    if dtype is dtypes.float64:
        return "double"
    return f"i{dtype.bits}"


def vector(element: str, lanes: int) -> str:
    """Return the type of `lanes` elements; one lane is the element itself."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def suffix(element: str, lanes: int) -> str:
    """Return the part of an intrinsic's name that stands for a type, such as ``v16f32``."""
    name = {"float": "f32", "double": "f64", "half": "f16"}.get(element, element)
    return name if lanes == 1 else f"v{lanes}{name}"


#: Spelling of one element.
ELEMENT: Final = {dtype: _element(dtype, in_memory=False) for dtype in dtypes.ALL}
MEMORY_ELEMENT: Final = {dtype: _element(dtype, in_memory=True) for dtype in dtypes.ALL}

#: Spelling of every type as a value, in memory, and in the names of intrinsics.
VALUE: Final = {Type(d, n): vector(ELEMENT[d], n) for d in dtypes.ALL for n in LANES}
MEMORY: Final = {Type(d, n): vector(MEMORY_ELEMENT[d], n) for d in dtypes.ALL for n in LANES}
SUFFIX: Final = {Type(d, n): suffix(ELEMENT[d], n) for d in dtypes.ALL for n in LANES}
MEMORY_SUFFIX: Final = {Type(d, n): suffix(MEMORY_ELEMENT[d], n) for d in dtypes.ALL for n in LANES}


def literal(value: Scalar, type_: Type) -> str:
    """Return a constant in all lanes, without its type."""
    text = _scalar(value, type_.dtype)
    return text if type_.lanes == 1 else f"splat ({ELEMENT[type_.dtype]} {text})"


def _scalar(value: Scalar, dtype: DType) -> str:
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_float:
        if dtype.bits == 16:
            return str(int.from_bytes(half_bytes(float(value), dtype), "little"))
        text = repr(float(value))
        # LLVM takes decimals that are exact in the type, as repr of a float that is; other forms go in hexadecimal.
        return text if text.lstrip("-").replace(".", "", 1).isdecimal() else double_bits(float(value))
    return str(int(value))


def double_bits(value: float) -> str:
    """Return a float or double constant by the bits of the double it equals."""
    return f"0x{int.from_bytes(struct.pack('>d', value), 'big'):016X}"


def half_bytes(value: float, dtype: DType) -> bytes:
    """Return the two bytes, little-endian, of a float16 or bfloat16 that `value` is exactly."""
    if dtype is dtypes.float16:
        return struct.pack("<e", value)
    return struct.pack("<f", value)[2:]  # a bfloat16 is the upper half of a float32
