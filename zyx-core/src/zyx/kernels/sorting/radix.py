"""Sort long rows by counting digits, least significant first, where groups have one thread.

A pass distributes the records by one digit. If there are rows enough for all processors, a group does all passes of a
row. Else rows are cut into chunks: one kernel counts the digits of each chunk, the next one moves the records to where
the chunk's and digit's begin, in order: equal digits keep theirs. What has one digit throughout is only copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernels.code import Immediate
from zyx.kernels.custom import CustomKernel
from zyx.kernels.sorting.code import RecordCode

if TYPE_CHECKING:
    from zyx.kernels.sorting.code import Records, Words


#: Bits of a digit, and how many digits there are: their counts stay in the nearest cache.
_WIDTH: Final = 8
_VALUES: Final = 1 << _WIDTH


def private_bytes(elements: int) -> int:
    """Return how much memory a thread needs to sort rows of so many elements together."""
    return RecordCode(elements).position.itemsize * (2 * _VALUES + 1)


@dataclass(frozen=True, slots=True)
class Digits:
    """Rows, and the digits that they are sorted by.

    Attributes:
        rows: How many there are.
        size: Elements of a row.
        chunk: Elements of a chunk.
        records: What they are like.
    """

    rows: int
    size: int
    chunk: int
    records: Records

    @property
    def chunks(self) -> int:
        """Chunks of a row."""
        return -(-self.size // self.chunk)

    @property
    def passes(self) -> int:
        """How often the records are distributed."""
        return -(-self.records.bits // _WIDTH)

    def digit(self, code: RecordCode, record: Words, number: int) -> k.ValueId:
        """Return the digit that pass `number` distributes a record by."""
        shift = self.records.first_bit + number * _WIDTH
        return code.cast(code.both(code.down(record[0], Immediate(shift)), Immediate(_VALUES - 1)), code.position)


def _add_one(code: RecordCode, array: k.ValueId, index: k.ValueId) -> k.ValueId:
    """Add one to an element; return what it was."""
    old = code.load(array, index)
    code.store(array, index, code.plus(old, Immediate(1)))
    return old


def _clear(code: RecordCode, array: k.ValueId, size: int) -> None:
    define = code.ops[array]
    assert isinstance(define, k.Define)
    code.store(array, code.loop(size, code.position), code.const(0, define.dtype))
    code.end_loop()


def _starts(code: RecordCode, counts: k.ValueId, size: int, running: k.ValueId) -> None:
    """Replace each count by the sum of those before it."""
    code.store(running, code.at(0), code.at(0))
    value = code.loop(size, code.position)
    count = code.load(counts, value)
    start = code.load(running, code.at(0))
    code.store(counts, value, start)
    code.store(running, code.at(0), code.plus(start, count))
    code.end_loop()


def rows_kernel(digits: Digits, *, in_local_memory: bool) -> CustomKernel:
    """Return the kernel in which each group sorts a row of records ``(rows, size)``.

    Where a record is in between lies in local memory, or else in a second output.
    """
    rows, size, words = digits.rows, digits.size, digits.records.words
    code = RecordCode(rows * size)
    results = code.params(words, rows * size, mutable=True)
    beside = () if in_local_memory else code.params(words, rows * size, mutable=True)
    sources = code.params(words, rows * size, mutable=False)
    if in_local_memory:
        beside = code.arrays(k.Memory.LOCAL, words, size)
    counts = [code.define(k.Memory.REGISTER, code.position, _VALUES) for _ in range(digits.passes)]
    running = code.define(k.Memory.REGISTER, code.position, 1)
    first = code.times(code.index(k.Axis.GROUP, 0, rows, code.position), Immediate(size))
    for array in counts:
        _clear(code, array, _VALUES)
    record = code.read(sources, code.plus(first, code.loop(size, code.position)))
    for number, array in enumerate(counts):
        _add_one(code, array, digits.digit(code, record, number))
    code.end_loop()
    current, offset = sources, first
    for number, array in enumerate(counts):
        is_last = (digits.passes - number) % 2 == 1
        target = results if is_last else beside
        start = first if is_last or not in_local_memory else code.at(0)
        some = code.load(array, digits.digit(code, code.read(current, offset), number))
        is_one_digit = code.equal(some, Immediate(size))
        code.open_if(is_one_digit)
        place = code.loop(size, code.position)
        code.write(target, code.plus(start, place), code.read(current, code.plus(offset, place)))
        code.end_loop()
        code.end_if()
        code.open_if(code.less(some, Immediate(size)))
        _starts(code, array, _VALUES, running)
        record = code.read(current, code.plus(offset, code.loop(size, code.position)))
        place = _add_one(code, array, digits.digit(code, record, number))
        code.write(target, code.plus(start, code.within(place, size)), record)
        code.end_loop()
        code.end_if()
        current, offset = target, start
    shape = (rows, size)
    outputs = tuple((shape, word) for word in words)
    return CustomKernel(code.finish(f"sort_rows_{size}"), outputs if in_local_memory else outputs * 2)


def count_kernel(digits: Digits, number: int) -> CustomKernel:
    """Return the kernel that counts the digits of pass `number`: uint32 ``(rows, chunks, _VALUES)``."""
    rows, size, chunks = digits.rows, digits.size, digits.chunks
    code = RecordCode(max(rows * size, rows * chunks * _VALUES))
    (table,) = code.params((dtypes.uint32,), rows * chunks * _VALUES, mutable=True)
    keys = code.params(digits.records.words[:1], rows * size, mutable=False)
    counts = code.define(k.Memory.REGISTER, dtypes.uint32, _VALUES)
    group = code.index(k.Axis.GROUP, 0, rows * chunks, code.position)
    _clear(code, counts, _VALUES)
    place, index = _walk(code, digits, group)
    code.open_if(code.less(place, Immediate(size)))
    _add_one(code, counts, digits.digit(code, code.read(keys, index), number))
    code.end_if()
    code.end_loop()
    value = code.loop(_VALUES, code.position)
    code.store(table, code.plus(code.times(group, Immediate(_VALUES)), value), code.load(counts, value))
    code.end_loop()
    return CustomKernel(code.finish(f"count_digits_{number}"), (((rows, chunks, _VALUES), dtypes.uint32),))


def _walk(code: RecordCode, digits: Digits, group: k.ValueId) -> tuple[k.ValueId, k.ValueId]:
    """Open a loop over the chunk of a group; return the place in the row and the index of the record."""
    row, chunk = code.over(group, Immediate(digits.chunks)), code.rest(group, Immediate(digits.chunks))
    place = code.plus(code.times(chunk, Immediate(digits.chunk)), code.loop(digits.chunk, code.position))
    return place, code.plus(code.times(row, Immediate(digits.size)), place)


def move_kernel(digits: Digits, number: int) -> CustomKernel:
    """Return the kernel that distributes records by the digits of pass `number`, given each chunk's counts."""
    rows, size, chunks = digits.rows, digits.size, digits.chunks
    words = digits.records.words
    code = RecordCode(max(rows * size, rows * chunks * _VALUES))
    results = code.params(words, rows * size, mutable=True)
    sources = code.params(words, rows * size, mutable=False)
    (table,) = code.params((dtypes.uint32,), rows * chunks * _VALUES, mutable=False)
    totals = code.define(k.Memory.REGISTER, code.position, _VALUES)
    before = code.define(k.Memory.REGISTER, code.position, _VALUES)
    running = code.define(k.Memory.REGISTER, code.position, 1)
    group = code.index(k.Axis.GROUP, 0, rows * chunks, code.position)
    row, chunk = code.over(group, Immediate(chunks)), code.rest(group, Immediate(chunks))
    _clear(code, totals, _VALUES)
    _clear(code, before, _VALUES)
    other = code.loop(chunks, code.position)
    is_before = code.less(other, chunk)
    value = code.loop(_VALUES, code.position)
    line = code.plus(code.times(row, Immediate(chunks)), other)
    count = code.cast(code.load(table, code.plus(code.times(line, Immediate(_VALUES)), value)), code.position)
    code.store(totals, value, code.plus(code.load(totals, value), count))
    earlier = code.where(is_before, count, code.at(0))
    code.store(before, value, code.plus(code.load(before, value), earlier))
    code.end_loop()
    code.end_loop()
    _starts(code, totals, _VALUES, running)
    value = code.loop(_VALUES, code.position)
    code.store(before, value, code.plus(code.load(before, value), code.load(totals, value)))
    code.end_loop()
    place, index = _walk(code, digits, group)
    code.open_if(code.less(place, Immediate(size)))
    record = code.read(sources, index)
    target = code.within(_add_one(code, before, digits.digit(code, record, number)), size)
    code.write(results, code.plus(code.times(row, Immediate(size)), target), record)
    code.end_if()
    code.end_loop()
    shape = (rows, size)
    return CustomKernel(code.finish(f"move_digits_{number}"), tuple((shape, word) for word in words))
