"""Packed numbers as float32, by the operations that tensors have: the kernel that needs the numbers makes them.

Everything is shifts, masks and bits read as floats. All numbers together are made by shifts that are counted along
axes; what one `ChunkPlace` has, by shifts that are constants: a sum over all places then reads the bytes that they
share once, and what belongs to a whole block, its scale, is outside of the loop over the numbers.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from zyx import dtype as dtypes
from zyx.functions.info import bitcast
from zyx.functions.joining import concat
from zyx.quantize.layouts import WORD
from zyx.tensor.creation import arange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.quantize.layouts import Bits, Layout
    from zyx.tensor.tensor import Tensor


class ChunkPlace(NamedTuple):
    """One chunk of each block; see `zyx.quantize.layouts`."""

    section: int
    part: int

    def chunk(self, layout: Layout) -> int:
        """Return the number of the chunk."""
        return self.section * layout.parts + self.part


def places(layout: Layout) -> Iterator[ChunkPlace]:
    """Yield the places of a block, first numbers first."""
    return map(ChunkPlace._make, itertools.product(range(layout.sections), range(layout.parts)))


class Decoded(NamedTuple):
    """The numbers of rows, ``integers * scale + offset``.

    Attributes:
        integers: ``(..., blocks, sections, parts, groups, numbers of a group)``; float32 if times their factors, and
            else of any dtype of integers.
        scale: Of a shape that broadcasts to that; without an offset, one number for a block.
        offset: Of a shape that broadcasts, too; None is 0.
    """

    integers: Tensor
    scale: Tensor
    offset: Tensor | None

    @property
    def numbers(self) -> Tensor:
        """What they are."""
        scaled = self.integers.astype(dtypes.float32) * self.scale
        return scaled if self.offset is None else scaled + self.offset


class PackedBlocks:
    """The bytes of blocks, wherever they lie.

    Attributes:
        lead: The axes in front of the bytes of a block: those of the rows, the last of which is two axes where rows are
            together, and that of the blocks.
        device: Where they are.
    """

    def __init__(self, layout: Layout, data: Tensor) -> None:
        self._layout = layout
        self.device = data.device
        self._data = data.reshape((*data.shape[:-1], -1, layout.nbytes * layout.rows))
        rows = (layout.rows,) if layout.rows > 1 else ()
        self.lead = (*data.shape[:-1], *rows, self._data.shape[-2])

    def bytes(self, at: int, count: int) -> Tensor:
        """Return so many bytes of each block from one on, ``(*lead, count)``: codes, or what is not."""
        rows, low = self._layout.rows, self._layout.low
        found = self._data[..., at * rows : (at + count) * rows]
        if rows == 1:
            return found
        word = WORD if low.at <= at < low.at + self._layout.count * low.bits // 8 else 1
        found = found.reshape((*found.shape[:-1], count // word, rows, word))
        front = tuple(range(found.ndim - 4))
        blocks, words, row, byte = range(found.ndim - 4, found.ndim)
        return found.permute_dims((*front, row, blocks, words, byte)).reshape((*self.lead, count))


def interleave(layout: Layout, data: Tensor, rows: int) -> Tensor:
    """Return ``(n / rows, rows * bytes)`` of the bytes ``(n, bytes)`` of rows, as `PackedBlocks` finds them."""
    blocks = data.reshape((data.shape[0] // rows, rows, -1, layout.nbytes))
    start = layout.low.at
    end = start + layout.count * layout.low.bits // 8
    parts = []
    for first, last, word in ((0, start, 1), (start, end, WORD), (end, layout.nbytes, 1)):
        if first < last:
            part = blocks[..., first:last]
            part = part.reshape((*part.shape[:-1], (last - first) // word, word))
            parts.append(part.permute_dims((0, 2, 3, 1, 4)).reshape((part.shape[0], part.shape[2], -1)))
    return concat(parts, axis=-1).reshape((blocks.shape[0], -1))


def decode(layout: Layout, data: Tensor, place: ChunkPlace | None = None) -> Decoded:
    """Return the numbers of rows, or those at one place of their blocks, for which there is one section and one part.

    Args:
        layout: How they lie.
        data: uint8, ``(..., bytes of a row)``.
        place: None means all.
    """
    blocks = PackedBlocks(layout, data)
    scale = _float(blocks, layout.scale, 4 if layout.wide_scale else 2)
    offset = None if layout.offset is None else _float(blocks, layout.offset, 2)
    integers = _integers(layout, blocks, place)
    integers = integers.reshape((*integers.shape[:-1], *layout.groups))
    if layout.factors is not None:
        factors = bitcast(blocks.bytes(layout.factors, layout.count // 16), "int8")
        factors = factors.reshape((*blocks.lead, *_axes(layout), layout.groups[0], 1))
        integers = integers.astype(dtypes.float32) * _at(factors, place, 2).astype(dtypes.float32)
    if layout.pairs is not None and offset is not None:
        first, second = _pairs(layout, layout.pairs, blocks, place)
        scale, offset = scale * first, -(offset * second)
    return Decoded(integers, scale, offset)


def _axes(layout: Layout, place: ChunkPlace | None = None) -> tuple[int, int]:
    return (layout.sections, layout.parts) if place is None else (1, 1)


def _at(x: Tensor, place: ChunkPlace | None, behind: int) -> Tensor:
    """Return what lies at a place, of what has axes for sections and parts, and so many `behind` these."""
    if place is None:
        return x
    section, part = (slice(i, i + 1) for i in place)
    return x[(..., section, part, *(slice(None),) * behind)]


def _float(blocks: PackedBlocks, at: int, nbytes: int) -> Tensor:
    """Return the float at a byte of each block as float32, with axes for sections, parts, groups and numbers."""
    value = bitcast(blocks.bytes(at, nbytes), "float32" if nbytes == 4 else "float16").astype(dtypes.float32)
    return value.reshape((*value.shape[:-1], 1, 1, 1, 1))


def _pairs(layout: Layout, at: int, blocks: PackedBlocks, place: ChunkPlace | None) -> tuple[Tensor, Tensor]:
    """Return the s and t of chunks, of 6 bits; upper bits of those from the fourth on lie above the first ones."""
    first, second, third = (blocks.bytes(at + i, 4) for i in (0, 4, 8))
    if place is not None:
        chunk = place.chunk(layout)
        first, second, third = (x[..., chunk % 4 : chunk % 4 + 1] for x in (first, second, third))
    early = (first & 63, second & 63)
    late = ((third & 15) | ((first >> 6) << 4), (third >> 4) | ((second >> 6) << 4))
    if place is None:
        found = tuple(concat(each, axis=-1) for each in zip(early, late, strict=True))
    else:
        found = early if chunk < 4 else late
    own, other = (x.astype(dtypes.float32).reshape((*blocks.lead, *_axes(layout, place), 1, 1)) for x in found)
    return own, other


def _integers(layout: Layout, blocks: PackedBlocks, place: ChunkPlace | None) -> Tensor:
    """Return the integers less the middle, ``(..., sections, parts, width)``, of which dtype does not matter."""
    low, width, lead = layout.low, layout.width, blocks.lead
    shape = (*lead, *_axes(layout, place), width)
    stored = blocks.bytes(low.at, layout.count * low.bits // 8)
    if low.bits == 8:
        return bitcast(stored, "int8").reshape(shape)
    shared = layout.parts * low.bits // 8  # the bytes that the parts take, for one number of each
    stored = stored.reshape((*lead, layout.sections, 1, shared, width))
    if place is not None:
        own = place.part % shared
        stored = stored[..., place.section : place.section + 1, :, own : own + 1, :]
    codes = _shifted(stored, low.bits, -3, None if place is None else place.part // shared).reshape(shape)
    if layout.high is None:
        codes = bitcast(codes, "int8")
    elif layout.high.side_by_side:
        word = bitcast(blocks.bytes(layout.high.at, layout.count // 8), "int32").reshape((*lead, 1, 1, 1))
        numbers = arange(layout.count, dtype=dtypes.int32, device=blocks.device).reshape((*_axes(layout), width))
        codes = codes.astype(dtypes.int32) | (((word >> _at(numbers, place, 1)) & 1) << low.bits)
    else:
        codes = bitcast(codes | (_high(layout, layout.high, blocks, place).reshape(shape) << low.bits), "int8")
    return codes - layout.middle if layout.middle else codes


def _high(layout: Layout, high: Bits, blocks: PackedBlocks, place: ChunkPlace | None) -> Tensor:
    """Return the high bits: those of chunk c lie in row ``c // n`` of the bytes, where n is how many share one."""
    stored = blocks.bytes(high.at, layout.count * high.bits // 8)
    stored = stored.reshape((*blocks.lead, -1, 1, layout.width))
    if place is None:
        return _shifted(stored, high.bits, -2)
    row, shift = divmod(place.chunk(layout), 8 // high.bits)
    return _shifted(stored[..., row : row + 1, :, :], high.bits, -2, shift)


def _shifted(stored: Tensor, bits: int, axis: int, which: int | None = None) -> Tensor:
    """Return `bits` of each byte after the other, lowest first, along an axis that has size 1; or `which` of them."""
    if which is None:
        shape = [1] * -axis
        shape[0] = 8 // bits
        stored = stored >> arange(0, 8, bits, dtype=dtypes.uint8, device=stored.device).reshape(tuple(shape))
    elif which:
        stored = stored >> which * bits
    return stored & ((1 << bits) - 1)
