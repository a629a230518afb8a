"""Bits read as elements of another size: more of fewer bits, or fewer of more, along the last axis.

The first of several lies lowest, as in the memory of all our devices. It is done by shifts of unsigned integers, so it
is lazy and the same everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.errors import DTypeError, ShapeError
from zyx.functions.joining import join_terms
from zyx.functions.operands import require, wrap
from zyx.functions.term import Term
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.functions import Tensor

__all__ = ["bits_as"]

_WORDS = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}


def bits_as(x: Tensor, dtype: DType) -> Tensor:
    """Return the bits of `x` as elements of `dtype`, of another size: the last axis grows, or shrinks, as that does.

    Raises:
        DTypeError: One of both is bool or complex.
        ShapeError: There is no axis, or the last one has no whole number of the larger elements.
    """
    base = require(x, "bitcast")
    own = base.node.dtype
    if own.is_bool or dtype.is_bool or own.is_complex or dtype.is_complex:
        raise DTypeError(f"cannot read the bits of {own} as {dtype}: bool has none, and complex numbers are two floats")
    shape = base.node.shape
    if not shape:
        raise ShapeError(f"the bits of {own} are another number of {dtype}: there must be an axis for them")
    words = Term(base.runtime.graph, base.node).bitcast(_WORDS[own.bits])
    target = _WORDS[dtype.bits]
    if own.bits > dtype.bits:
        ratio = own.bits // dtype.bits
        parts = [words.binary(BinaryOp.SHR, i * dtype.bits) if i else words for i in range(ratio)]
        mask = (1 << dtype.bits) - 1
        columns = [(part & mask).cast(target).reshape((*shape, 1)) for part in parts]
        found = join_terms(columns, len(shape)).reshape((*shape[:-1], shape[-1] * ratio))
    else:
        ratio = dtype.bits // own.bits
        if shape[-1] % ratio:
            raise ShapeError(
                f"{shape[-1]} elements of {own} along the last axis of {shape} are no whole number of {dtype}"
            )
        apart = words.reshape((*shape[:-1], shape[-1] // ratio, ratio)).cast(target)
        rest = (*shape[:-1], shape[-1] // ratio)
        found = apart.narrow(len(shape), 0, 1).reshape(rest)
        for i in range(1, ratio):
            part = apart.narrow(len(shape), i, i + 1).reshape(rest)
            found = found + part.binary(BinaryOp.SHL, i * own.bits)
    return wrap(found.bitcast(dtype).node, base)
