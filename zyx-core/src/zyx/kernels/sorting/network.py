"""Sort very short rows by a network, in registers: a thread a row.

The network is Batcher's odd-even merge sort (K. E. Batcher, "Sorting networks and their applications", AFIPS 1968). It
lies fixed in the code, so nothing waits for comparisons; and rows may lie across memory, where neighbouring threads
read neighbouring elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.kernel import data as k
from zyx.kernels.code import Immediate
from zyx.kernels.custom import CustomKernel
from zyx.kernels.sorting.code import RecordCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.dtype import DType

#: Rows that a thread sorts one after the other, where threads are processors.
_ROWS_IN_TURN: Final = 1024


def comparators(size: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs of a network for `size` elements: after each, the lesser element is at the first place.

    It is that of the next power of two: what is not there counts as greater than all, and never moves.
    """
    step = 1
    while step < size:
        distance = step
        while distance:
            for start in range(distance % step, size - distance, 2 * distance):
                for i in range(start, min(start + distance, size - distance)):
                    if i // (2 * step) == (i + distance) // (2 * step):
                        yield i, i + distance
            distance //= 2
        step *= 2


def network_kernel(outer: int, size: int, inner: int, words: tuple[DType, ...], threads: int) -> CustomKernel:
    """Return the kernel that sorts records ``(outer, size, inner)`` along the axis in the middle."""
    rows = outer * inner
    code = RecordCode(outer * size * inner)
    results = code.params(words, outer * size * inner, mutable=True)
    sources = code.params(words, outer * size * inner, mutable=False)
    together = threads if threads > 1 else min(_ROWS_IN_TURN, rows)
    group = code.index(k.Axis.GROUP, 0, -(-rows // together), code.position)
    is_shared = threads > 1
    thread = code.index(k.Axis.LOCAL, 0, threads, code.position) if is_shared else code.loop(together, code.position)
    row = code.plus(code.times(group, Immediate(together)), thread)
    code.open_if(code.less(row, Immediate(rows)))
    first = row
    if inner > 1:
        first = code.plus(
            code.times(code.over(row, Immediate(inner)), Immediate(size * inner)), code.rest(row, Immediate(inner))
        )
    else:
        first = code.times(row, Immediate(size))
    places = [code.plus(first, Immediate(i * inner)) for i in range(size)]
    held = [code.read(sources, place) for place in places]
    for i, j in comparators(size):
        held[i], held[j] = code.exchange(held[i], held[j])
    for place, record in zip(places, held, strict=True):
        code.write(results, place, record)
    code.end_if()
    if not is_shared:
        code.end_loop()
    shape = (outer, size, inner)
    return CustomKernel(code.finish(f"sort_network_{size}"), tuple((shape, word) for word in words))
