"""Packed numbers as float32, by the operations that tensors have: the kernel that needs the numbers makes them.

Everything is shifts, masks and bits read as floats. The numbers of a block come in parts, each an expression over the
bytes that it shares with others, so that a sum over all parts reads a byte once; what belongs to a whole block, its
scale, is outside of the loop over the numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zyx import dtype as dtypes
from zyx.functions.info import bitcast
from zyx.functions.joining import stack
from zyx.tensor.creation import arange

if TYPE_CHECKING:
    from zyx.quantize.layouts import Bits, Layout
    from zyx.tensor.tensor import Tensor


class Part(NamedTuple):
    """The numbers of one part of the rows of chunks, ``integers * scale + offset``.

    Attributes:
        integers: ``(..., blocks, rows, groups, numbers of a group)``, float32.
        scale: Of a shape that broadcasts to that. Parts that have the same one share the tensor.
        offset: Likewise; None is 0.
    """

    integers: Tensor
    scale: Tensor
    offset: Tensor | None

    @property
    def numbers(self) -> Tensor:
        """What they are."""
        scaled = self.integers * self.scale
        return scaled if self.offset is None else scaled + self.offset


def parts_of(layout: Layout, data: Tensor) -> list[Part]:
    """Return the parts of all sections, one after the other; see `zyx.quantize.layouts`.

    Args:
        layout: How they lie.
        data: uint8, ``(..., bytes of a row)``.
    """
    blocks = data.reshape((*data.shape[:-1], -1, layout.nbytes))
    scale = _float(blocks, layout.scale, 4 if layout.wide_scale else 2)
    offset = None if layout.offset is None else _float(blocks, layout.offset, 2)
    found = []
    for section in range(layout.sections):
        for part in range(layout.parts):
            own, shift = scale, offset
            if layout.factors is not None:
                own = scale * _factors(layout, layout.factors, blocks, part)
            elif layout.pairs is not None and offset is not None:
                first, second = _pair(layout, layout.pairs, blocks, section, part)
                own, shift = scale * first, -(offset * second)
            integers = _integers(layout, blocks, section, part)
            found.append(Part(integers.reshape((*integers.shape[:-1], *layout.groups)), own, shift))
    return found


def decode(layout: Layout, data: Tensor) -> Tensor:
    """Return the numbers of rows, ``(..., numbers)`` of float32, of uint8 ``(..., bytes)``."""
    parts = [part.numbers for part in parts_of(layout, data)]
    numbers = parts[0]
    if len(parts) > 1:
        each = [stack(parts[i : i + layout.parts], axis=-3) for i in range(0, len(parts), layout.parts)]
        numbers = stack(each, axis=-5) if len(each) > 1 else each[0]
    return numbers.reshape((*data.shape[:-1], data.shape[-1] // layout.nbytes * layout.count))


def _float(blocks: Tensor, at: int, nbytes: int) -> Tensor:
    """Return the float at a byte of each block as float32, with axes for rows, groups and numbers of groups."""
    value = bitcast(blocks[..., at : at + nbytes], "float32" if nbytes == 4 else "float16").astype(dtypes.float32)
    return value.reshape((*value.shape[:-1], 1, 1, 1))


def _factors(layout: Layout, at: int, blocks: Tensor, part: int) -> Tensor:
    own = bitcast(blocks[..., at : at + layout.count // 16], "int8").astype(dtypes.float32)
    return own.reshape((*own.shape[:-1], layout.rows, layout.parts, layout.groups[0], 1))[..., part, :, :]


def _pair(layout: Layout, at: int, blocks: Tensor, section: int, part: int) -> tuple[Tensor, Tensor]:
    """Return the s and t of each row, of 6 bits; upper bits of chunks from 4 on lie above the first ones'."""
    chunk, step = section * layout.rows * layout.parts + part, layout.parts
    first, second, third = (
        blocks[..., start : start + layout.rows * step : step] for start in (at + chunk % 4 + i for i in (0, 4, 8))
    )
    found = (first & 63, second & 63)
    if chunk >= 4:
        found = ((third & 15) | ((first >> 6) << 4), (third >> 4) | ((second >> 6) << 4))
    own, other = (each.astype(dtypes.float32).reshape((*each.shape, 1, 1)) for each in found)
    return own, other


def _integers(layout: Layout, blocks: Tensor, section: int, part: int) -> Tensor:
    """Return the integers of a part less the middle, ``(..., rows, width)`` of float32."""
    low, rows, width = layout.low, layout.rows, layout.width
    if low.bits == 8:
        codes = bitcast(blocks[..., low.at : low.at + width], "int8").astype(dtypes.float32)
        return codes.reshape((*codes.shape[:-1], rows, width))
    shared = layout.parts * low.bits // 8  # the bytes that the parts take, for one number of each
    nbytes = rows * shared * width
    start = low.at + section * nbytes
    stored = blocks[..., start : start + nbytes]
    stored = stored.reshape((*stored.shape[:-1], rows, shared, width))[..., part % shared, :]
    codes = stored >> low.bits if part >= shared else stored & 15
    if layout.high is None:
        codes = bitcast(codes, "int8")
    elif layout.high.side_by_side:
        codes = codes.astype(dtypes.int32) | _high_in_word(layout, layout.high, blocks, part)
    else:
        codes = bitcast(codes | (_high(layout, layout.high, blocks, section, part) << low.bits), "int8")
    return (codes - layout.middle if layout.middle else codes).astype(dtypes.float32)


def _high_in_word(layout: Layout, high: Bits, blocks: Tensor, part: int) -> Tensor:
    """Return a bit of each number in the place that it has in it; those of a block are one word."""
    word = bitcast(blocks[..., high.at : high.at + layout.count // 8], "int32")
    shifts = arange(layout.width, dtype=dtypes.int32, device=blocks.device) + part * layout.width
    return ((word.expand_dims(-1) >> shifts) & 1) << layout.low.bits


def _high(layout: Layout, high: Bits, blocks: Tensor, section: int, part: int) -> Tensor:
    rows, parts, width, fit = layout.rows, layout.parts, layout.width, 8 // high.bits
    stored = blocks[..., high.at : high.at + layout.count * high.bits // 8]
    # Chunk c is in row c // fit of the bytes; rows of chunks that share one differ by their shift.
    stored = stored.reshape((*stored.shape[:-1], layout.count // width // fit, width))
    mask = (1 << high.bits) - 1
    if parts == fit:
        return (stored >> part * high.bits if part else stored) & mask
    chunk, step = section * rows * parts + part, parts * high.bits
    if rows == 1:
        return (stored[..., chunk // fit : chunk // fit + 1, :] >> chunk % fit * high.bits) & mask
    first = chunk * high.bits
    shifts = arange(first, first + rows * step, step, dtype=dtypes.uint8, device=blocks.device)
    return (stored >> shifts.reshape((rows, 1))) & mask
