"""Schedules next to one: lists of moves with one of them changed, left out or added.

    Split("r0", 8)         Split("r0", 16), Split("r0", 4)
    Mark("r0.1", UNROLL)   Mark("r0.1", VECTOR), no mark
    Stage(...)             without it
    Reorder(s0, a b c)     a c b

Any list of moves that applies keeps the values, so nothing else is asked of one: what does not apply is left out, and
so is what would be written out too far, or takes more than a group has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zyx.errors import ScheduleError
from zyx.nest.data import Kind
from zyx.schedule.facts import operations
from zyx.schedule.moves import Apart, GroupReduce, Inline, Mark, Nested, Peel, Reorder, Split, Stage, Stream, SwapReduce
from zyx.schedule.plan import Plan
from zyx.schedule.private_arrays import keep_arrays_small
from zyx.schedule.search import has_room

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.nest.data import Nest
    from zyx.schedule.moves import Move

#: Kinds that take each other's place.
_KINDS: Final = (Kind.UNROLL, Kind.VECTOR, Kind.REPEAT)
#: Moves without which the others may still apply.
_OPTIONAL: Final = (Stage, Peel, Stream, Apart, Inline, Nested)
#: Operations that the statements of a kernel are written out as, at most: compilers take seconds for more.
MOST_OPERATIONS: Final = 4096


def neighbours(moves: Sequence[Move]) -> Iterator[list[Move]]:
    """Yield the lists next to one, whether they apply or not."""
    for number, move in enumerate(moves):
        for other in _instead(move):
            yield [*moves[:number], *other, *moves[number + 1 :]]


def _instead(move: Move) -> Iterator[list[Move]]:
    match move:
        case Split(factor=factor):
            yield [replace(move, factor=2 * factor)]
            if factor > 1:
                yield [replace(move, factor=factor // 2)]
        case Mark(kind=kind) if kind in _KINDS:
            for other in _KINDS:
                if other is not kind:
                    yield [replace(move, kind=other)]
            yield []
        case GroupReduce(threads=threads) | SwapReduce(threads=threads):
            yield [replace(move, threads=2 * threads)]
            if threads > 2:
                yield [replace(move, threads=threads // 2)]
        case Reorder(ranges=ranges):
            for place in range(len(ranges) - 1):
                swapped = (*ranges[:place], ranges[place + 1], ranges[place], *ranges[place + 2 :])
                yield [replace(move, ranges=swapped)]
        case _:
            pass
    if isinstance(move, _OPTIONAL):
        yield []


def scheduled(nest: Nest, moves: Sequence[Move], info: DeviceInfo, most_threads: int = 0) -> Plan:
    """Return the plan of a list of moves.

    Raises:
        ScheduleError: One does not apply, or the whole is more than the device has, or than compilers bear. Vectors of
            threads have a power of two of lanes.
    """
    plan = Plan(nest)
    for move in moves:
        plan.do(move)
    if written_out(plan.nest) > MOST_OPERATIONS:
        raise ScheduleError(f"{written_out(plan.nest)} operations are written out, of at most {MOST_OPERATIONS}")
    keep_arrays_small(plan, info)
    if not has_room(plan.nest, info, most_threads):
        raise ScheduleError("this takes more threads, or local memory, than a group has")
    for range_ in plan.nest.ranges if info.max_group_threads > 1 else ():
        if plan.nest.kind(range_) is Kind.VECTOR and range_.size & (range_.size - 1):
            raise ScheduleError(f"threads have no vectors of {range_.size} lanes: they lie at multiples of their size")
    return plan


def written_out(nest: Nest) -> int:
    """Return the operations that the statements of a scheduled nest are written out as."""
    count = 0
    for statement in nest.statements:
        times = operations(statement)
        for range_ in statement.order:
            if nest.kind(range_) in (Kind.UNROLL, Kind.REPEAT):
                times *= range_.size
            if range_ in nest.peeled:
                times *= 2
        count += times
    return count
