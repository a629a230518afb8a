"""Put numbers into blocks of few bits, as `zyx.io.gguf_blocks` defines them.

The scale of a block is chosen so that its range is covered: of Q4_0, Q5_0 and Q8_0 that the number of greatest
magnitude is met, of Q4_1 and Q5_1 that the smallest and the greatest are. These are the rules of ggml, and the bytes
are the same. Blocks of 256 have scales that are searched for, which is not done here; such blocks are written as they
were read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx.errors import DTypeError, FormatError
from zyx.functions.operands import is_tensor
from zyx.io.gguf_blocks import BLOCK_TYPES, Blocks, row_bytes
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from zyx.functions.operands import Array

#: Bits of a number, and whether a block has an offset.
_KINDS: Final = {"Q4_0": (4, False), "Q4_1": (4, True), "Q5_0": (5, False), "Q5_1": (5, True), "Q8_0": (8, False)}


def quantize(x: Tensor, kind: str) -> Blocks:
    """Return a tensor in blocks along its last axis, on its device. The values are computed now, on the host.

    Args:
        x: Floats; the last axis is a whole number of blocks of 32.
        kind: Q4_0, Q4_1, Q5_0, Q5_1 or Q8_0.

    Raises:
        FormatError: Another kind, rows that are no whole number of blocks, or numbers that float16 has no scale for.
        DTypeError: No tensor, or none of floats.
    """
    if not is_tensor(x) or not x.dtype.is_float:
        raise DTypeError(f"quantize: floats are put into blocks, not {x.dtype if is_tensor(x) else type(x).__name__}")
    if kind in BLOCK_TYPES and kind not in _KINDS:
        raise FormatError(f"blocks of {kind} are read and written, but not made; there are {', '.join(_KINDS)}")
    row = row_bytes(kind, x.shape)
    values = x.numpy().astype(np.float32).reshape(-1, BLOCK_TYPES[kind].count)
    bits, has_offset = _KINDS[kind]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        header, codes = _with_offset(values, bits) if has_offset else _symmetric(values, bits)
    if not np.isfinite(header).all():
        raise FormatError(f"quantize: a block of {kind} has numbers that are not finite, or too large for its float16")
    parts = [header.view(np.uint8), *_packed(codes, bits)]
    data = np.concatenate(parts, axis=1).reshape((*x.shape[:-1], row))
    return Blocks(Tensor(data, device=x.device), kind, tuple(x.shape))


def _symmetric(values: Array, bits: int) -> tuple[Array, Array]:
    """Return scales, float16, and codes from 0 on; of 8 bits, the bits of codes that have a sign."""
    at = np.abs(values).argmax(axis=1, keepdims=True)
    extreme = np.take_along_axis(values, at, axis=1)
    middle = 1 << (bits - 1)
    scale = np.abs(extreme) / np.float32(127) if bits == 8 else extreme / np.float32(-middle)
    scaled = values * _inverse(scale)
    if bits == 8:  # halves away from zero
        codes = (np.sign(scaled) * np.floor(np.abs(scaled) + np.float32(0.5))).astype(np.int8).view(np.uint8)
    else:
        codes = np.minimum(np.trunc(scaled + np.float32(middle + 0.5)), 2 * middle - 1).astype(np.uint8)
    return scale.astype(np.float16), codes


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
