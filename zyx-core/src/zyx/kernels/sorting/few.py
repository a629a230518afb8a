"""Find the first few records of long rows, where groups have one thread.

Each group goes through a chunk of a row with the best records so far at hand, in order. Of most records one comparison,
with the last of these, says that they are not among them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.kernel import data as k
from zyx.kernels.code import Immediate
from zyx.kernels.custom import CustomKernel
from zyx.kernels.sorting.code import RecordCode

if TYPE_CHECKING:
    from zyx.dtype import DType

#: As many are put in their place in less time than all are sorted, in the worst of orders.
MOST_KEPT: Final = 64


def few_kernel(rows: int, size: int, chunk: int, count: int, words: tuple[DType, ...]) -> CustomKernel:
    """Return the kernel from records ``(rows, size)`` to the first ones of each chunk, ``(rows, chunks * count)``.

    A chunk that has fewer is filled up with records that come last.
    """
    chunks = -(-size // chunk)
    code = RecordCode(rows * max(size, chunks * count))
    results = code.params(words, rows * chunks * count, mutable=True)
    sources = code.params(words, rows * size, mutable=False)
    best = code.arrays(k.Memory.REGISTER, words, count)
    carried = code.arrays(k.Memory.REGISTER, words, 1)
    group = code.index(k.Axis.GROUP, 0, rows * chunks, code.position)
    first, end = code.at(0), code.at(count - 1)
    row, number = code.over(group, Immediate(chunks)), code.rest(group, Immediate(chunks))
    code.write(best, code.loop(count, code.position), code.last_record(words))
    code.end_loop()
    place = code.plus(code.times(number, Immediate(chunk)), code.loop(chunk, code.position))
    code.open_if(code.less(place, Immediate(size)))
    record = code.read(sources, code.plus(code.times(row, Immediate(size)), place))
    code.open_if(code.comes_before(record, code.read(best, end)))
    code.write(carried, first, record)
    turn = code.loop(count, code.position)
    lesser, greater = code.exchange(code.read(best, turn), code.read(carried, first))
    code.write(best, turn, lesser)
    code.write(carried, first, greater)
    code.end_loop()
    code.end_if()
    code.end_if()
    code.end_loop()
    turn = code.loop(count, code.position)
    code.write(results, code.plus(code.times(group, Immediate(count)), turn), code.read(best, turn))
    code.end_loop()
    shape = (rows, chunks * count)
    return CustomKernel(code.finish(f"first_{count}_of_{size}"), tuple((shape, word) for word in words))
