"""Packed numbers as float32, by the operations that tensors have: the kernel that needs the numbers makes them.

Everything is shifts, masks and bits read as floats, on the bytes of a block and with the scales of a block outside of
the loop over its numbers. Nothing is kept: a product reads the bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.functions.info import bitcast
from zyx.functions.joining import concat, stack
from zyx.tensor.creation import arange

if TYPE_CHECKING:
    from zyx.quantize.layouts import Bits, Layout
    from zyx.tensor.tensor import Tensor


def parts_of(layout: Layout, data: Tensor) -> list[Tensor]:
    """Return the numbers of each of the parts of the rows of chunks; see `zyx.quantize.layouts`.

    Args:
        layout: How they lie.
        data: uint8, ``(..., bytes of a row)``.

    Returns:
        Of each part ``(..., blocks, rows, groups, numbers of a group)``, float32.
    """
    blocks = data.reshape((*data.shape[:-1], -1, layout.nbytes))
    scales, offsets = _scales(layout, blocks)
    found = []
    for part in range(layout.parts):
        numbers = _integers(layout, blocks, part).astype(dtypes.float32)
        if layout.middle:
            numbers = numbers - float(layout.middle)
        numbers = numbers.reshape((*numbers.shape[:-1], *layout.groups)) * scales[part]
        found.append(numbers + offsets[part] if offsets else numbers)
    return found


def decode(layout: Layout, data: Tensor) -> Tensor:
    """Return the numbers of rows, ``(..., numbers)`` of float32, of uint8 ``(..., bytes)``."""
    parts = parts_of(layout, data)
    numbers = stack(parts, axis=-3) if len(parts) > 1 else parts[0]
    blocks = data.shape[-1] // layout.nbytes
    return numbers.reshape((*data.shape[:-1], blocks * layout.count))


def _float(blocks: Tensor, at: int, nbytes: int) -> Tensor:
    """Return the float at a byte of each block as float32 with axes for rows, groups and numbers of groups."""
    value = bitcast(blocks[..., at : at + nbytes], "float32" if nbytes == 4 else "float16").astype(dtypes.float32)
    return value.reshape((*value.shape[:-1], 1, 1, 1))


def _scales(layout: Layout, blocks: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Return what the numbers of each part are multiplied with, and what is added then; of that, none if it is 0."""
    scale = _float(blocks, layout.scale, 4 if layout.wide_scale else 2)
    lead, shape = blocks.shape[:-1], (layout.rows, layout.parts)
    if layout.factors is not None:
        most = layout.factors + layout.count // 16
        own = bitcast(blocks[..., layout.factors : most], "int8").astype(dtypes.float32)
        own = own.reshape((*lead, *shape, layout.groups[0], 1))
        return [scale * own[..., part, :, :] for part in range(layout.parts)], []
    if layout.offset is None:
        return [scale] * layout.parts, []
    offset = _float(blocks, layout.offset, 2)
    if layout.pairs is None:
        return [scale] * layout.parts, [offset] * layout.parts
    own, other = (each.reshape((*lead, *shape, 1, 1)) for each in _pairs(blocks, layout.pairs))
    scales = [scale * own[..., part, :, :] for part in range(layout.parts)]
    return scales, [-(offset * other[..., part, :, :]) for part in range(layout.parts)]


def _pairs(blocks: Tensor, at: int) -> tuple[Tensor, Tensor]:
    """Return eight s and eight t of 6 bits each; the upper bits of the last four lie in the bytes of the first."""
    first, second, third = (blocks[..., start : start + 4] for start in (at, at + 4, at + 8))
    own = concat([first & 63, (third & 15) | ((first >> 6) << 4)], axis=-1)
    other = concat([second & 63, (third >> 4) | ((second >> 6) << 4)], axis=-1)
    return own.astype(dtypes.float32), other.astype(dtypes.float32)


def _integers(layout: Layout, blocks: Tensor, part: int) -> Tensor:
    """Return the integers of a part, ``(..., rows, width)``."""
    low, rows, width = layout.low, layout.rows, layout.width
    if low.bits == 8:
        codes = bitcast(blocks[..., low.at : low.at + width], "int8")
        return codes.reshape((*codes.shape[:-1], rows, width))
    shared = layout.parts * low.bits // 8  # of the parts, how many bytes they take
    stored = blocks[..., low.at : low.at + rows * shared * width]
    stored = stored.reshape((*stored.shape[:-1], rows, shared, width))[..., part % shared, :]
    shift = part // shared * low.bits
    numbers = stored >> shift if shift + low.bits == 8 else (stored >> shift if shift else stored) & 15
    return numbers if layout.high is None else numbers | (_high(layout, layout.high, blocks, part) << low.bits)


def _high(layout: Layout, high: Bits, blocks: Tensor, part: int) -> Tensor:
    rows, parts, width = layout.rows, layout.parts, layout.width
    stored = blocks[..., high.at : high.at + layout.count * high.bits // 8]
    lead, mask, fit = stored.shape[:-1], (1 << high.bits) - 1, 8 // high.bits
    if high.side_by_side:
        own = stored.reshape((*lead, rows, parts, width // fit, 1))[..., part, :, :]
        shifts = arange(0, 8, high.bits, dtype=dtypes.uint8, device=blocks.device)
        return ((own >> shifts) & mask).reshape((*lead, rows, width))
    # Chunk c is in row c // fit of the bytes; rows of chunks that share one differ by their shift.
    stored = stored.reshape((*lead, rows * parts // fit, width))
    if parts == fit:
        return (stored >> part * high.bits if part else stored) & mask
    shifts = arange(part, rows * parts, parts, dtype=dtypes.uint8, device=blocks.device) * high.bits
    return (stored >> shifts.reshape((rows, 1))) & mask
