"""Write kernels by hand: a builder with short words, and records, which are what sorting moves around.

A record is a key with its place. Where one word has room for both, the key lies above the place: one comparison then
decides, and no two records are equal. Else they are two words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from zyx import dtype as dtypes
from zyx.ir import kernel as k
from zyx.ir.builder import Builder
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.dtype import DType
    from zyx.graph import Graph
    from zyx.graph.node import Node

#: A value, or a number that takes the type of the value it meets.
Operand: TypeAlias = "k.ValueId | Number"
#: The words of one record, or the arrays that have them.
Words: TypeAlias = "tuple[k.ValueId, ...]"


@dataclass(frozen=True, slots=True)
class Number:
    """A literal, told apart from the number of a value."""

    value: int


class Code(Builder):
    """A builder that knows the type of positions.

    Args:
        elements: Positions up to so many, and a few times as many, have to be counted.
    """

    def __init__(self, elements: int) -> None:
        super().__init__()
        self.position: DType = dtypes.int32 if elements < 1 << 29 else dtypes.int64

    def at(self, value: int) -> k.ValueId:
        """Return a literal position."""
        return self.const(value, self.position)

    def _apply(self, op: BinaryOp, x: k.ValueId, y: Operand) -> k.ValueId:
        return self.binary(op, x, self.like(y.value, x) if isinstance(y, Number) else y)

    def plus(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return the sum."""
        return self._apply(BinaryOp.ADD, x, y)

    def minus(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return the difference."""
        return self._apply(BinaryOp.SUB, x, y)

    def times(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return the product."""
        return self._apply(BinaryOp.MUL, x, y)

    def over(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return the quotient."""
        return self._apply(BinaryOp.DIV, x, y)

    def rest(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return the remainder."""
        return self._apply(BinaryOp.MOD, x, y)

    def least(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return the lesser one."""
        return self._apply(BinaryOp.MIN, x, y)

    def most(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return the greater one."""
        return self._apply(BinaryOp.MAX, x, y)

    def both(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return the bits, or the truth, that both have."""
        return self._apply(BinaryOp.AND, x, y)

    def either(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return the bits, or the truth, that one of them has."""
        return self._apply(BinaryOp.OR, x, y)

    def differing(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return the bits that they do not share."""
        return self._apply(BinaryOp.XOR, x, y)

    def up(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return `x` shifted to higher bits."""
        return self._apply(BinaryOp.SHL, x, y)

    def down(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return `x` shifted to lower bits."""
        return self._apply(BinaryOp.SHR, x, y)

    def less(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return whether `x` is less than `y`."""
        return self._apply(BinaryOp.LT, x, y)

    def at_most(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return whether `x` is at most `y`."""
        return self._apply(BinaryOp.LE, x, y)

    def equal(self, x: k.ValueId, y: Operand) -> k.ValueId:
        """Return whether `x` is `y`."""
        return self._apply(BinaryOp.EQ, x, y)

    def within(self, x: k.ValueId, size: int) -> k.ValueId:
        """Return the position nearest to `x` that an array of that size has."""
        return self.least(self.most(x, Number(0)), Number(size - 1))

    # ---- arrays of words

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
