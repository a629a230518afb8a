"""Records, which are what sorting moves around, and kernels that are written by hand with them.

A record is a key with its place. Where one word has room for both, the key lies above the place: one comparison then
decides, and no two records are equal. Else they are two words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernels.code import Code
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.dtype import DType
    from zyx.graph import Graph
    from zyx.graph.node import Node

#: The words of one record, or the arrays that have them.
Words: TypeAlias = "tuple[k.ValueId, ...]"


class RecordCode(Code):
    """A builder that knows words of records."""

    def params(self, words: Sequence[DType], length: int, *, mutable: bool) -> Words:
        """Define params, one a word."""
        return tuple(self.define(k.Memory.GLOBAL, word, length, mutable=mutable) for word in words)

    def arrays(self, memory: k.Memory, words: Sequence[DType], length: int) -> Words:
        """Define arrays, one a word."""
        return tuple(self.define(memory, word, length) for word in words)

    def read(self, arrays: Words, index: k.ValueId, mask: k.ValueId | None = None, lanes: int = 1) -> Words:
        """Return the words at `index`, each of so many lanes."""
        return tuple(self.load(array, index, lanes, mask) for array in arrays)

    def write(self, arrays: Words, index: k.ValueId, record: Words, mask: k.ValueId | None = None) -> None:
        """Store the words at `index`."""
        for array, word in zip(arrays, record, strict=True):
            self.store(array, index, word, mask)

    def choose(self, condition: k.ValueId, x: Words, y: Words) -> Words:
        """Return `x` where the condition holds, else `y`."""
        return tuple(self.where(condition, a, b) for a, b in zip(x, y, strict=True))

    def last_record(self, words: Sequence[DType], lanes: int = 1) -> Words:
        """Return what comes behind every record: all bits are set."""
        return tuple(self.const(int(word.max), word, lanes) for word in words)

    def comes_before(self, x: Words, y: Words) -> k.ValueId:
        """Return whether record `x` comes before `y`: word by word, the first one decides."""
        if len(x) == 1:
            return self.less(x[0], y[0])
        tied = self.both(self.equal(x[0], y[0]), self.less(x[1], y[1]))
        return self.either(self.less(x[0], y[0]), tied)

    def exchange(self, x: Words, y: Words) -> tuple[Words, Words]:
        """Return the two records in order."""
        if len(x) == 1:
            return (self.least(x[0], y[0]),), (self.most(x[0], y[0]),)
        is_wrong = self.comes_before(y, x)
        return self.choose(is_wrong, y, x), self.choose(is_wrong, x, y)


@dataclass(frozen=True, slots=True)
class Records:
    """What the records of rows look like.

    Attributes:
        words: Types of the words.
        place_bits: Low bits of the only word that are the place; 0 if there is a word for it.
        bits: How many bits of the key matter.
    """

    words: tuple[DType, ...]
    place_bits: int
    bits: int

    @property
    def nbytes(self) -> int:
        """Size of a record."""
        return sum(word.itemsize for word in self.words)

    @property
    def first_bit(self) -> int:
        """Lowest bit of the key in the first word."""
        return self.place_bits


def records_for(key: DType, bits: int, size: int, info: DeviceInfo) -> Records:
    """Return the records of rows of `size` keys of `bits` bits."""
    place_bits = max(1, (size - 1).bit_length())
    for word in (dtypes.uint32, dtypes.uint64):
        if bits + place_bits <= word.bits and info.can_compute(word):
            return Records((word,), place_bits, bits)
    return Records((key, dtypes.uint32), 0, bits)


def make_records(graph: Graph, keys: Node, axis: int, records: Records) -> list[Node]:
    """Return nodes with the words of the records of `keys`; places count along `axis`."""
    shape = tuple(size if i == axis else 1 for i, size in enumerate(keys.shape))
    place_dtype = records.words[-1]
    places = graph.expand(graph.iota(shape, axis, place_dtype, keys.device), keys.shape)
    if not records.place_bits:
        return [keys, graph.contiguous(places)]
    wide = graph.cast(keys, place_dtype)
    distance = graph.const(records.place_bits, place_dtype, keys.device, keys.shape)
    return [graph.binary(BinaryOp.OR, graph.binary(BinaryOp.SHL, wide, distance), places)]


def places_of(graph: Graph, words: Sequence[Node], records: Records) -> Node:
    """Return the places, int32, of records."""
    last = words[-1]
    if records.place_bits:
        mask = graph.const((1 << records.place_bits) - 1, last.dtype, last.device, last.shape)
        last = graph.binary(BinaryOp.AND, last, mask)
    return graph.cast(last, dtypes.int32)
