"""Keep params of small types in words of 32 bits, for languages whose memory has no others.

    %0 = global u8[19]                 %0 = global u32[5]
    %2 = load %0[%1] : u8         =>   %2 = shr %1, 2            the word
                                       %3 = load %0[%2] : u32
                                       %4 = and %1, 3            the element's place in it, from the lowest bits on
                                       %5 = shl %4, 3
                                       %6 = shr %3, %5
                                       %7 = cast %6 : u8

A thread that writes a part of a word must leave the rest to others, who may write at the same time: so it clears its
bits and sets its bits, each indivisibly.

    store %0[%1] = %2             =>   atomic and %0[word] with ~(255 << place)
                                       atomic or %0[word] with %2 << place

Threads that write whole words need not, and lanes of whole words are loaded and stored at once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.rewrite import DROPPED, Rewriter
from zyx.ops import BinaryOp, ReduceOp, UnaryOp
from zyx.render.divisors import divisors

if TYPE_CHECKING:
    from collections.abc import Collection

    from zyx.dtype import DType
    from zyx.kernel.data import Kernel, Op, ValueId

#: Bits of a word.
_WORD: Final = 32


def in_words(kernel: Kernel, small: Collection[DType]) -> Kernel:
    """Return `kernel` with its buffers of `small` types as buffers of uint32, the last word filled up.

    Args:
        kernel: What to change; without such buffers it stays as it is. Other arrays do in any case.
        small: Types of 8 and 16 bits.

    Raises:
        UnsupportedError: An `Atomic` on such a buffer.
    """
    return _Packer(kernel, small).packed()


class _Packer:
    """Writes one kernel anew."""

    def __init__(self, kernel: Kernel, small: Collection[DType]) -> None:
        self.kernel = kernel
        self.writer = Rewriter()
        # Params come first and stay where they are, so their numbers are those of the old kernel and of the new.
        self.dtypes = {
            i: op.dtype
            for i, op in enumerate(kernel.ops)
            if isinstance(op, k.Define) and op.memory is k.Memory.GLOBAL and op.dtype in small
        }
        self.multiples: list[int] = []

    def packed(self) -> Kernel:
        """Return the kernel."""
        if not self.dtypes:
            return self.kernel
        self.multiples = divisors(self.kernel)
        return self.writer.rewrite(self.kernel, self.rule)

    def rule(self, op: Op) -> ValueId | None:
        """Write what an operation becomes; None if it stays."""
        number = len(self.writer.renamed)
        match op:
            case k.Define() if number in self.dtypes:
                words = -(-op.length * op.dtype.bits // _WORD)
                return self.writer.append(k.Define(op.memory, dtypes.uint32, words, op.mutable, is_front=op.is_front))
            case k.Load() if op.source in self.dtypes:
                old = self.kernel.ops[number]
                assert isinstance(old, k.Load)
                return self.load(op, self.wide(op.index), self.multiples[old.index])
            case k.Store() if op.target in self.dtypes:
                old = self.kernel.ops[number]
                assert isinstance(old, k.Store)
                self.store(op, self.wide(op.index), self.multiples[old.index])
                return DROPPED
            case k.Atomic() if op.target in self.dtypes:
                raise UnsupportedError(
                    f"kernel {self.kernel.name}, operation %{number}: there is no atomic {op.op.value} of "
                    f"{self.dtypes[op.target]} where memory has words"
                )
            case _:
                return None

    # ---- loads

    def load(self, op: k.Load, index: ValueId, multiple: int) -> ValueId:
        """Write a load of elements from `index` on, which `multiple` divides."""
        b, dtype = self.writer, self.dtypes[op.source]
        count = _WORD // dtype.bits
        items = []
        if op.mask is None and _is_whole(op.type.lanes, multiple, count):
            words = b.load(op.source, self.word(index, count), op.type.lanes // count)
            for lane in range(op.type.lanes):
                word = self.lane(words, lane // count)
                items.append(self.element(word, self.shift(lane % count * dtype.bits), dtype))
        else:
            for lane in range(op.type.lanes):
                at, shift = self.place(index, lane, multiple, dtype)
                mask = None if op.mask is None else self.lane(op.mask, lane)
                items.append(self.element(b.load(op.source, at, 1, mask), shift, dtype))
        return items[0] if len(items) == 1 else b.vectorize(tuple(items))

    def element(self, word: ValueId, shift: ValueId | None, dtype: DType) -> ValueId:
        """Take an element out of a word."""
        b = self.writer
        bits = word if shift is None else b.binary(BinaryOp.SHR, word, shift)
        if dtype.is_bool:
            return b.cast(b.binary(BinaryOp.AND, bits, b.like(255, bits)), dtype)
        return b.bitcast(b.cast(bits, dtypes.uint16), dtype) if dtype.is_float else b.cast(bits, dtype)

    # ---- stores

    def store(self, op: k.Store, index: ValueId, multiple: int) -> None:
        """Write a store of elements from `index` on, which `multiple` divides."""
        b, dtype = self.writer, self.dtypes[op.target]
        lanes, count = b.type_of(op.value).lanes, _WORD // dtype.bits
        if op.mask is None and _is_whole(lanes, multiple, count):
            parts = [self.part(op.value, lane, self.shift(lane % count * dtype.bits), dtype) for lane in range(lanes)]
            words = [self.joined(parts[first : first + count]) for first in range(0, lanes, count)]
            value = words[0] if len(words) == 1 else b.vectorize(tuple(words))
            b.store(op.target, self.word(index, count), value, streaming=op.streaming)
            return
        for lane in range(lanes):
            at, shift = self.place(index, lane, multiple, dtype)
            mask = None if op.mask is None else self.lane(op.mask, lane)
            own = self.shifted(b.const((1 << dtype.bits) - 1, dtypes.uint32), shift)
            b.atomic(ReduceOp.AND, op.target, at, b.unary(UnaryOp.NOT, own), mask)
            b.atomic(ReduceOp.OR, op.target, at, self.part(op.value, lane, shift, dtype), mask)

    def part(self, value: ValueId, lane: int, shift: ValueId | None, dtype: DType) -> ValueId:
        """Return a lane of a value at its place in a word, with zeros around."""
        b = self.writer
        bits = self.lane(value, lane)
        if not dtype.is_bool:
            bits = b.bitcast(bits, dtypes.uint8 if dtype.bits == 8 else dtypes.uint16)
        return self.shifted(b.cast(bits, dtypes.uint32), shift)

    def joined(self, parts: list[ValueId]) -> ValueId:
        """Return a word made of its parts."""
        word = parts[0]
        for part in parts[1:]:
            word = self.writer.binary(BinaryOp.OR, word, part)
        return word

    # ---- places

    def wide(self, index: ValueId) -> ValueId:
        """Return a position as a type that also holds those of the lanes behind it."""
        return self.writer.cast(index, dtypes.int32) if self.writer.type_of(index).dtype.bits < _WORD else index

    def place(self, index: ValueId, lane: int, multiple: int, dtype: DType) -> tuple[ValueId, ValueId | None]:
        """Return the position of the word with element `index` + `lane`, and how far that is shifted in it."""
        b, count = self.writer, _WORD // dtype.bits
        if multiple % count == 0:
            word = self.word(index, count)
            at = word if lane < count else b.binary(BinaryOp.ADD, word, b.like(lane // count, word))
            return at, self.shift(lane % count * dtype.bits)
        position = index if lane == 0 else b.binary(BinaryOp.ADD, index, b.like(lane, index))
        within = b.binary(BinaryOp.AND, position, b.like(count - 1, position))
        bits = b.binary(BinaryOp.SHL, within, b.like(int(math.log2(dtype.bits)), within))
        return self.word(position, count), b.cast(bits, dtypes.uint32)

    def word(self, index: ValueId, count: int) -> ValueId:
        """Return the position of the word with an element; there are `count` in each."""
        return self.writer.binary(BinaryOp.SHR, index, self.writer.like(int(math.log2(count)), index))

    def shift(self, bits: int) -> ValueId | None:
        """Return a distance; None if it is 0."""
        return self.writer.const(bits, dtypes.uint32) if bits else None

    def shifted(self, value: ValueId, shift: ValueId | None) -> ValueId:
        """Return a uint32 moved up."""
        return value if shift is None else self.writer.binary(BinaryOp.SHL, value, shift)

    def lane(self, value: ValueId, lane: int) -> ValueId:
        """Return a lane of a value, which is the value itself if it has one."""
        return value if self.writer.type_of(value).lanes == 1 else self.writer.devectorize(value, lane)


def _is_whole(lanes: int, multiple: int, count: int) -> bool:
    """Whether elements fill words of `count`."""
    return lanes % count == 0 and multiple % count == 0
