"""Combine what the threads of a group have: through local memory, or by swapping values as far as threads run in step.

    256 threads        store, meet;  128 add what the others have, meet;  64 add, meet;  32, 16, 8, 4, 2, 1
    .. of which 32     swap with the thread at distance 16, 8, 4, 2, 1 and add;  one in 32 stores, all meet;
       run in step     load one of 8 results;  swap at distance 4, 2, 1 and add

All threads get the result, and the same one: those that swap combine the same operands, in the one or the other order.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.arithmetic.powers import next_power
from zyx.kernel import data as k
from zyx.kernel.data import Memory, Type, ValueId
from zyx.lowering.thread_axes import axes_without
from zyx.ops import identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType
    from zyx.lowering.writer import LoweringState
    from zyx.nest import expr as e
    from zyx.nest.data import Compute


def swapped_as(dtype: DType) -> DType:
    """Return the dtype in which threads exchange values of `dtype`: itself, or a wider one of 32 bits."""
    if dtype.bits in (32, 64):
        return dtype
    return dtypes.float32 if dtype.is_float else dtypes.uint32 if dtype.is_unsigned else dtypes.int32


class ThreadCombination:
    """Writes how threads of a group combine what they have."""

    def __init__(self, writer: LoweringState) -> None:
        self._writer = writer
        self._builder = writer.builder
        self._emitter = writer.emitter
        self._pool = writer.pool

    def combine(self, statement: Compute, item: ValueId, over: Sequence[e.Range]) -> ValueId:
        """Return what all threads along the ranges `over` have as `item`, combined."""
        first = self._writer.thread_axes[0]
        lane = next((range_ for range_ in over if range_ in first), None)
        together = 1 if lane is None else math.gcd(self._writer.nest.swapping.get(lane, 1), lane.size)
        if lane is None or together == 1:
            return self._in_memory(statement, item, over)
        item = self._by_swaps(statement, item, together)
        if math.prod(range_.size for range_ in over) == together:
            return item
        return self._of_subgroups(statement, item, over, lane, together)

    def _combine(self, statement: Compute, x: ValueId, y: ValueId) -> ValueId:
        assert statement.op is not None
        return self._builder.add(k.Binary(statement.op.binary, x, y, self._builder.type_of(x)))

    def _by_swaps(self, statement: Compute, item: ValueId, threads: int) -> ValueId:
        """Combine over aligned groups of `threads` threads."""
        type_ = self._builder.type_of(item)
        wide = Type(swapped_as(type_.dtype), type_.lanes)
        while threads > 1:
            threads //= 2
            mine = item if wide == type_ else self._builder.add(k.Cast(item, wide))
            other = self._builder.add(k.Swap(mine, threads, wide))
            if wide != type_:
                other = self._builder.add(k.Cast(other, type_))
            item = self._combine(statement, item, other)
        return item

    def _of_subgroups(
        self, statement: Compute, item: ValueId, over: Sequence[e.Range], lane: e.Range, together: int
    ) -> ValueId:
        """Combine what groups of `together` threads along `lane` have: each stores it once, and each loads all of it.

        The threads of a group share the loads, and swap what they have.
        """
        pool, builder, emitter = self._pool, self._builder, self._emitter
        parts = [(pool.ref(r), r.size) for r in over if r is not lane]
        parts.append((pool.divide(pool.ref(lane), together), lane.size // together))
        count = math.prod(size for _, size in parts)
        position = pool.flatten([index for index, _ in parts], [size for _, size in parts])
        array, start, type_ = self._array(item, over, count)

        def at(index: e.Expr) -> ValueId:
            return emitter.emit(pool.add(start, pool.scale(index, type_.lanes)))

        is_first = emitter.emit(pool.is_zero(pool.modulo(pool.ref(lane), together)))
        builder.add(k.Store(array, at(position), item, emitter.widen_to(is_first, type_.lanes)))
        builder.add(k.Barrier())
        share = min(together, next_power(count))
        number = pool.modulo(pool.ref(lane), share)
        result = None
        for first in range(0, count, share):
            index = pool.shift(number, first)
            if first + share <= count:
                loaded = builder.add(k.Load(array, at(index), type_))
            else:
                assert statement.op is not None
                is_there = emitter.widen_to(emitter.emit(pool.less(index, count)), type_.lanes)
                loaded = builder.add(k.Load(array, at(index), type_, is_there))
                neutral = emitter.constant(identity(statement.op, type_.dtype), type_.dtype)
                loaded = builder.add(k.Where(is_there, loaded, emitter.widen_to(neutral, type_.lanes), type_))
            result = loaded if result is None else self._combine(statement, result, loaded)
        assert result is not None
        result = self._by_swaps(statement, result, share)
        self._meet_again()
        return result

    def _in_memory(self, statement: Compute, item: ValueId, over: Sequence[e.Range]) -> ValueId:
        """Combine through local memory, halving the number of threads that take part."""
        pool, builder, emitter = self._pool, self._builder, self._emitter
        count = math.prod(range_.size for range_ in over)
        array, start, type_ = self._array(item, over, count)
        thread = pool.flatten([pool.ref(range_) for range_ in over], [range_.size for range_ in over])

        def at(offset: int) -> ValueId:
            return emitter.emit(pool.add(start, pool.scale(pool.shift(thread, offset), type_.lanes)))

        builder.add(k.Store(array, at(0), item))
        builder.add(k.Barrier())
        while count > 1:
            half = (count + 1) // 2
            active = pool.less(thread, count - half)
            allowed = None if active is pool.true else emitter.widen_to(emitter.emit(active), type_.lanes)
            mine = builder.add(k.Load(array, at(0), type_, allowed))
            other = builder.add(k.Load(array, at(half), type_, allowed))
            builder.add(k.Store(array, at(0), self._combine(statement, mine, other), allowed))
            builder.add(k.Barrier())
            count = half
        result = builder.add(k.Load(array, emitter.emit(start), type_))
        self._meet_again()
        return result

    def _array(self, item: ValueId, over: Sequence[e.Range], count: int) -> tuple[ValueId, e.Expr, Type]:
        """Return local memory for `count` values a combination, where that of this thread starts, and the type."""
        pool, builder = self._pool, self._builder
        others = axes_without(self._writer.thread_axes, over)
        type_ = builder.type_of(item)
        combinations = math.prod(range_.size for range_ in others)
        array = builder.array(k.Define(Memory.LOCAL, type_.dtype, count * combinations * type_.lanes))
        row = pool.flatten([pool.ref(range_) for range_ in others], [range_.size for range_ in others])
        return array, pool.scale(row, count * type_.lanes), type_

    def _meet_again(self) -> None:
        """Keep the next round from writing the array before all have read it, if there is one."""
        if self._writer.loop_depths:
            self._builder.add(k.Barrier())
