"""Put numbers into blocks of few bits, as `zyx.quantize.layouts` defines them.

The scale of a block is chosen so that its range is covered: of Q4_0, Q5_0, Q8_0 and int8 that the number of greatest
magnitude is met, of Q4_1, Q5_1 and int4 that the smallest and the greatest are. For the first five these are the rules
of ggml, and the bytes are the same. Blocks of 256 have scales that are searched for, which is not done here; such
blocks are used and written as they were read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx.errors import DTypeError, FormatError, ShapeError
from zyx.functions.operands import is_tensor
from zyx.quantize.layouts import GGUF, INTERLEAVED, layout_for
from zyx.quantize.packed import QuantizedTensor
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from zyx.functions.operands import Array
    from zyx.quantize.layouts import Layout

MADE: Final = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "int8", "int8/n", "int4", "int4/n")


def quantize(x: Tensor, format: str) -> QuantizedTensor:  # the attribute of what is returned
    """Return a tensor packed in blocks along its last axis, on its device. It is computed now, on the host.

    A number differs by at most half a step from what it was, where a step is that of its block: 2 a / 254 of Q8_0 and
    int8, where a is the greatest magnitude in the block; a / 8 of Q4_0 and a / 16 of Q5_0, and a whole step for what is
    nearest to the end that has no code; w / 15 of Q4_1 and int4 and w / 31 of Q5_1, where w is the distance from the
    smallest to the greatest. float16 scales add 2**-11 a, and offsets the same. Of normally distributed numbers the
    norm of the difference, relative to theirs, is 0.09 for Q4_0, 0.08 for Q4_1, 0.043 for Q5_0, 0.038 for Q5_1, 0.0054
    for Q8_0, 0.006 for int8/64, 0.09 for int4/64; products of them differ by about as much. (Measured, of 2**19.)

    Args:
        x: Floats; the last axis is a whole number of blocks.
        format: Q4_0, Q4_1, Q5_0, Q5_1 or Q8_0, in blocks of 32 numbers; int8 or int4, in blocks of a row, which of
            weights is an output channel; or with the size of blocks, such as int4/64.

    Raises:
        FormatError: Another format, rows that are no whole number of blocks, or numbers that there is no scale for.
        DTypeError: No tensor, or none of floats.
        ShapeError: A format that has rows together, and another number of them.

    >>> zyx.quantize.quantize(zyx.ones(4, 32), "Q8_0").shape
    (4, 32)
    """
    if not is_tensor(x) or not x.dtype.is_float:
        raise DTypeError(f"quantize: floats are put into blocks, not {x.dtype if is_tensor(x) else type(x).__name__}")
    if format in GGUF and format not in MADE:
        raise FormatError(f"blocks of {format} are read and written, but not made; there are {', '.join(MADE)}")
    if format.endswith("+"):
        return quantize(x, format[:-1]).aligned()
    layout = layout_for(format, x.shape[-1] if x.ndim else 1)
    if layout.rows > 1:
        found = quantize(x, format.removesuffix(INTERLEAVED)).interleaved()
        if found.format != format:
            raise ShapeError(f"quantize: {format} is of (n, width) where {layout.rows} divides n, not of {x.shape}")
        return found
    values = x.numpy().astype(np.float32).reshape(-1, layout.count)
    bits = layout.low.bits + (layout.high.bits if layout.high else 0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        header, codes = _symmetric(values, bits, layout) if layout.offset is None else _with_offset(values, bits)
    if not np.isfinite(header).all():
        raise FormatError(f"quantize: a block of {format} has numbers that are not finite, or too large for its scale")
    parts = [header.view(np.uint8), *_packed(codes, bits)]
    data = np.concatenate(parts, axis=1).reshape((*x.shape[:-1], -1 if values.size else 0))
    return QuantizedTensor(Tensor(data, device=x.device), format)


def _symmetric(values: Array, bits: int, layout: Layout) -> tuple[Array, Array]:
    """Return scales and codes from 0 on; of 8 bits, the bits of codes that have a sign."""
    at = np.abs(values).argmax(axis=1, keepdims=True)
    extreme = np.take_along_axis(values, at, axis=1)
    middle = 1 << (bits - 1)
    scale = np.abs(extreme) / np.float32(127) if bits == 8 else extreme / np.float32(-middle)
    scaled = values * _inverse(scale)
    if bits == 8:  # halves away from zero
        codes = (np.sign(scaled) * np.floor(np.abs(scaled) + np.float32(0.5))).astype(np.int8).view(np.uint8)
    else:
        codes = np.minimum(np.trunc(scaled + np.float32(middle + 0.5)), 2 * middle - 1).astype(np.uint8)
    return scale.astype(np.float32 if layout.wide_scale else np.float16), codes


def _with_offset(values: Array, bits: int) -> tuple[Array, Array]:
    """Return pairs of scale and offset, float16, and codes from 0 on."""
    most = (1 << bits) - 1
    low, high = values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True)
    scale = (high - low) / np.float32(most)
    codes = np.minimum(np.trunc((values - low) * _inverse(scale) + np.float32(0.5)), most).astype(np.uint8)
    return np.concatenate([scale, low], axis=1).astype(np.float16), codes


def _inverse(scale: Array) -> Array:
    inverse: Array = np.where(scale == 0, np.float32(0), np.float32(1) / scale)
    return inverse


def _packed(codes: Array, bits: int) -> list[Any]:
    """Return the bytes of codes: the fifth bits of all, if there are, then the lower four of two numbers in each."""
    if bits == 8:
        return [codes]
    half = codes.shape[1] // 2
    low = (codes[:, :half] & 15) | (codes[:, half:] & 15) << 4
    return [low] if bits == 4 else [np.packbits(codes >> 4, axis=1, bitorder="little"), low]
