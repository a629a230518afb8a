"""Constants as source text."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

from zyx import dtype as dtypes

if TYPE_CHECKING:
    from zyx.dtype import DType, Scalar
    from zyx.render.dialect import Dialect


def literal(value: Scalar, dtype: DType, dialect: Dialect) -> str:
    """Return `value`, which is representable in `dtype`, as an expression of the dtype's type."""
    suffix = dialect.suffixes.get(dtype, "")
    if dtype.is_bool:
        return "1" if value else "0"
    if dtype.is_float and dtype.bits == 16:
        return _half(float(value), dtype, dialect)
    if dtype.is_float:
        number = float(value)
        if math.isnan(number):
            return dialect.nan[dtype]
        if math.isinf(number):
            return f"({'-' if number < 0 else ''}{dialect.infinity[dtype]})"
        return digits(number) + suffix
    integer = int(value)
    if integer == dtype.min and integer < 0:  # its digits do not fit the type, before the minus is applied
        return f"({dialect.type_name(dtype)})({integer + 1}{suffix} - 1{suffix})"
    if dtype.bits < 32:
        return f"({dialect.type_name(dtype)}){integer}"
    return f"{integer}{suffix}"


def _half(number: float, dtype: DType, dialect: Dialect) -> str:
    name = dialect.type_name(dtype)
    if (dtypes.float32, dtype) in dialect.casts and name not in (dialect.types.get(dtypes.uint16),):
        return dialect.casts[dtypes.float32, dtype].format(x=literal(number, dtypes.float32, dialect))
    packed = struct.pack("<e", number) if dtype is dtypes.float16 else struct.pack("<f", number)[2:]
    return f"({name}){int.from_bytes(packed, 'little')}"


def digits(number: float) -> str:
    """Return the text of a finite number: decimal digits if few are exact, else hexadecimal ones, which always are."""
    text = repr(number)
    return text if len(text) <= 8 and text.replace(".", "", 1).replace("-", "", 1).isdecimal() else number.hex()
