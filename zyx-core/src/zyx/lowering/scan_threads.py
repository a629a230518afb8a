"""Let the threads of a group scan together: what each has in front of it, and what all of them have.

    thread       0    1    2    3    4    5    6    7
    has          a    b    c    d    e    f    g    h
    distance 1   -    a    -    c    -    e    -    g         swap with the thread at that distance; what comes from a
    distance 2   -    a    ab   abc  -    e    ef   efg       lower one is in front, and both add it to what they have
    distance 4   -    a    ab   abc  abcd ..                  together: all of them end with abcdefgh

Threads that run in step swap what they have (`zyx.kernel.data.Swap`). What each such subgroup has as a whole, or each
thread where threads cannot swap, goes through local memory.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx.kernel import data as k
from zyx.kernel.data import Memory, Type, ValueId
from zyx.lowering.combine_threads import swapped_as
from zyx.lowering.thread_axes import axes_without
from zyx.ops import identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.lowering.writer import LoweringState
    from zyx.nest import expr as e
    from zyx.nest.data import Scan


class ThreadScan:
    """Writes how the threads of a group scan what they have."""

    def __init__(self, writer: LoweringState) -> None:
        self._writer = writer
        self._builder = writer.builder
        self._emitter = writer.emitter
        self._pool = writer.pool
        self._arrays: dict[tuple[Scan, int], ValueId] = {}

    def scan(self, statement: Scan, items: Sequence[ValueId], over: e.Range) -> list[tuple[ValueId, ValueId]]:
        """Return for each item (that of all lower threads along `over` combined, that of all threads combined).

        The items are separate scans of one type; the threads meet once for all of them together where they can.
        """
        together = math.gcd(self._writer.nest.swapping.get(over, 1), over.size)
        if over not in self._writer.thread_axes[0]:
            together = 1
        if together == 1:
            return self._in_memory(statement, items, over)
        pairs = [self._by_swaps(statement, item, over, together) for item in items]
        return pairs if together == over.size else self._of_subgroups(statement, pairs, over, together)

    def _combine(self, statement: Scan, x: ValueId, y: ValueId) -> ValueId:
        return self._builder.add(k.Binary(statement.op.binary, x, y, self._builder.type_of(x)))

    def _neutral(self, statement: Scan, like: ValueId) -> ValueId:
        type_ = self._builder.type_of(like)
        constant = self._emitter.constant(identity(statement.op, type_.dtype), type_.dtype)
        return self._emitter.widen_to(constant, type_.lanes)

    def _choose(self, condition: e.Expr, x: ValueId, y: ValueId) -> ValueId:
        """Return `x` in the threads where `condition` holds, else `y`."""
        type_ = self._builder.type_of(x)
        allowed = self._emitter.widen_to(self._emitter.emit(condition), type_.lanes)
        return self._builder.add(k.Where(allowed, x, y, type_))

    def _by_swaps(self, statement: Scan, item: ValueId, over: e.Range, threads: int) -> tuple[ValueId, ValueId]:
        """Scan over aligned groups of `threads` threads."""
        pool, builder = self._pool, self._builder
        type_ = builder.type_of(item)
        wide = Type(swapped_as(type_.dtype), type_.lanes)
        before, total = self._neutral(statement, item), item
        distance = 1
        while distance < threads:
            mine = total if wide == type_ else builder.add(k.Cast(total, wide))
            other = builder.add(k.Swap(mine, distance, wide))
            if wide != type_:
                other = builder.add(k.Cast(other, type_))
            is_upper = pool.non_negative(pool.shift(pool.modulo(pool.divide(pool.ref(over), distance), 2), -1))
            before = self._choose(is_upper, self._combine(statement, other, before), before)
            total = self._combine(statement, total, other)
            distance *= 2
        return before, total

    def _of_subgroups(
        self, statement: Scan, pairs: Sequence[tuple[ValueId, ValueId]], over: e.Range, together: int
    ) -> list[tuple[ValueId, ValueId]]:
        """Scan what groups of `together` threads have: the first of each stores it, and all load all of it."""
        pool, builder, emitter = self._pool, self._builder, self._emitter
        count = over.size // together
        array, start, type_ = self._array(statement, pairs[0][1], over, len(pairs) * count)

        def at(index: e.Expr) -> ValueId:
            return emitter.emit(pool.add(start, pool.scale(index, type_.lanes)))

        subgroup = pool.divide(pool.ref(over), together)
        is_first = emitter.emit(pool.is_zero(pool.modulo(pool.ref(over), together)))
        for number, (_, whole) in enumerate(pairs):
            place = at(pool.shift(subgroup, number * count))
            builder.add(k.Store(array, place, whole, emitter.widen_to(is_first, type_.lanes)))
        builder.add(k.Barrier())
        result = []
        for number, (inside, _) in enumerate(pairs):
            before: ValueId | None = None
            total: ValueId | None = None
            for lower in range(count):
                loaded = builder.add(k.Load(array, at(pool.index(number * count + lower)), type_))
                if lower < count - 1:
                    old = self._neutral(statement, loaded) if before is None else before
                    reached = loaded if total is None else self._combine(statement, total, loaded)
                    before = self._choose(pool.less(subgroup, lower + 1), old, reached)
                    total = reached
                else:
                    total = loaded if total is None else self._combine(statement, total, loaded)
            assert before is not None and total is not None
            result.append((self._combine(statement, before, inside), total))
        self._meet_again()
        return result

    def _in_memory(self, statement: Scan, items: Sequence[ValueId], over: e.Range) -> list[tuple[ValueId, ValueId]]:
        """Scan through local memory: in each step every thread adds what another has, twice as far away as before.

        What is written in one step lies apart from what is still read of the one before, so that threads meet once a
        step.
        """
        pool, builder, emitter = self._pool, self._builder, self._emitter
        count = over.size
        thread = pool.ref(over)
        array, start, type_ = self._array(statement, items[0], over, 2 * len(items) * count)
        current = list(items)
        half = 0

        def load(number: int, index: e.Expr, allowed: ValueId | None = None) -> ValueId:
            return builder.add(k.Load(array, at(number, index), type_, allowed))

        def at(number: int, index: e.Expr) -> ValueId:
            offset = (half * len(items) + number) * count
            return emitter.emit(pool.add(start, pool.scale(pool.shift(index, offset), type_.lanes)))

        def exchange() -> None:
            for number, item in enumerate(current):
                builder.add(k.Store(array, at(number, thread), item))
            builder.add(k.Barrier())

        distance = 1
        while distance < count:
            exchange()
            below = pool.shift(thread, -distance)
            is_there = pool.non_negative(below)
            allowed = emitter.widen_to(emitter.emit(is_there), type_.lanes)
            for number, item in enumerate(current):
                other = load(number, below, allowed)
                current[number] = self._choose(is_there, self._combine(statement, other, item), item)
            distance *= 2
            half = 1 - half
        exchange()
        result = []
        below = pool.shift(thread, -1)
        is_there = pool.non_negative(below)
        for number, item in enumerate(current):
            neutral = self._neutral(statement, item)
            if count == 1:
                result.append((neutral, item))
                continue
            other = load(number, below, emitter.widen_to(emitter.emit(is_there), type_.lanes))
            result.append((self._choose(is_there, other, neutral), load(number, pool.index(count - 1))))
        self._meet_again()
        return result

    def _array(self, statement: Scan, item: ValueId, over: e.Range, count: int) -> tuple[ValueId, e.Expr, Type]:
        """Return local memory for `count` values a scan, where that of this thread starts, and the type.

        It is the same wherever the statement is written.
        """
        pool, builder = self._pool, self._builder
        others = axes_without(self._writer.thread_axes, [over])
        type_ = builder.type_of(item)
        scans = math.prod(range_.size for range_ in others)
        length = count * scans * type_.lanes
        array = self._arrays.get((statement, length))
        if array is None:
            array = self._arrays[statement, length] = builder.array(k.Define(Memory.LOCAL, type_.dtype, length))
        row = pool.flatten([pool.ref(range_) for range_ in others], [range_.size for range_ in others])
        return array, pool.scale(row, count * type_.lanes), type_

    def _meet_again(self) -> None:
        """Keep the next round from writing the array before all have read it, if there is one."""
        if self._writer.loop_depths:
            self._builder.add(k.Barrier())
