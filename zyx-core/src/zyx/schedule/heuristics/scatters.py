"""Schedules of updates that are scattered, a nest with one store whose points may hit one position; and of rows that
are gathered from at the same positions.

    atomic, f32[n, 3] into f32[m, 3]      r0, r1 as one range: r0+r1.0 groups, r0+r1.1 threads of a group
    in order, f32[n, 512] into            r1 = r1.0 groups, each with some columns of its own;  r0 loop;
    f32[m, 512], no threads               r1.1.0 loop, r1.1.1 vectors

    gathered, f32[m, n] from f32[m, k]    r0 = r0.0, r0.1 < 4 written out;  r1 = r1.0 loop, r1.1 vectors of positions,
    at i32[n], no threads                 each computed for 4 rows at a time

1. Where updates are combined indivisibly, each has a thread, and neighbouring threads have neighbouring updates.
2. Where they are made in order, on machines without threads, the columns beside the indexed axis are shared out over
   groups, as few as there are processors, since each goes over all indices; within a group a row of updates is
   finished before the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.errors import ScheduleError
from zyx.ir.accesses import reads_in, stride_along
from zyx.ir.nest import Kind, Store
from zyx.schedule.heuristics.loops import GROUP_WORK, share_out
from zyx.schedule.heuristics.plan import work_of
from zyx.schedule.heuristics.streaming import stream_stores
from zyx.schedule.heuristics.vectors import choose_vector_ranges, lanes_of
from zyx.schedule.moves import Merge, Split

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.ir.expr import Range
    from zyx.schedule.heuristics.plan import Plan

#: Threads of a group, if the device allows as many.
_THREADS: Final = 256
#: Columns that a group has at least: less than a line of memory would be read by two.
_COLUMNS: Final = 16
#: Rows that share positions.
_ROWS_AT_A_TIME: Final = 4
#: Vectors of a row that are written out.
_VECTORS_AT_A_TIME: Final = 4


def schedule_scatter(plan: Plan, info: DeviceInfo) -> bool:
    """Schedule the nest of `plan` if it is one of these; return whether it is."""
    (store, *others) = plan.nest.statements
    if others or not isinstance(store, Store):
        return False
    if store.atomic and info.max_group_threads > 1:
        _one_thread_each(plan, info)
        return True
    if store.serial and info.max_group_threads == 1:
        return _columns_each(plan, store, info)
    return store.combine is None and info.max_group_threads == 1 and _rows_together(plan, store, info)


def _one_thread_each(plan: Plan, info: DeviceInfo) -> None:
    """Number all points of the store, and give each a thread."""
    while len(order := plan.nest.statements[0].order) > 1:
        try:
            plan.do(Merge(order[-2].label, order[-1].label))
        except ScheduleError:
            break
    *outer, inner = plan.nest.statements[0].order
    for range_ in outer:
        plan.mark(range_, Kind.GROUP)
    threads = min(_THREADS, info.max_group_threads, info.max_group_shape[0])
    if inner.size <= threads:
        plan.mark(inner, Kind.LOCAL)
        return
    plan.do(Split(inner.label, threads))  # a comparison for each thread costs less than a body for the last group
    plan.mark(plan.range(f"{inner.label}.0"), Kind.GROUP)
    plan.mark(plan.range(f"{inner.label}.1"), Kind.LOCAL)


def _columns_each(plan: Plan, store: Store, info: DeviceInfo) -> bool:
    """Share the columns out, if there are enough of them, and nothing else to share."""
    columns = _columns(store)
    if columns is None:
        return False
    # Where each element has an index of its own, what it says may lie anywhere.
    lanes = lanes_of(store, info) if stride_along(store.index, columns) == 1 else 1
    if columns.size < max(lanes, 2):
        return False
    outer = [range_ for range_ in store.order if range_ not in store.serial and range_ is not columns]
    groups = 1
    for range_ in outer:
        groups *= range_.size
    is_large = work_of(store) >= 2 * GROUP_WORK
    wanted = -(-info.units // groups) if is_large else 1
    block = max(-(-columns.size // wanted), _COLUMNS)
    block = -(-block // lanes) * lanes
    first: list[Range] = []
    if wanted > 1 and block < columns.size:
        group, columns = plan.split(columns, block)
        plan.mark(group, Kind.GROUP)
        first = [group]
    inner = _as_vectors(plan, columns, lanes)
    serial = _store(plan).serial
    plan.order([*first, *serial, *inner])
    if is_large:
        for range_ in outer:
            plan.mark(range_, Kind.GROUP)
    return True


def _columns(store: Store) -> Range | None:
    """Return the range beside the indexed axis along which updates, or their indices, lie side by side."""
    indices = [store.index, *(read.index for read in reads_in(store))]
    beside = [range_ for range_ in store.order if range_ not in store.serial]
    return next((r for r in beside if any(stride_along(index, r) == 1 for index in indices)), None)


def _as_vectors(plan: Plan, columns: Range, lanes: int) -> list[Range]:
    """Return the loop over vectors, those that are written out, and the lanes, as far as there are such."""
    if lanes == 1:
        return [columns]
    if columns.size == lanes:
        plan.mark(columns, Kind.VECTOR)
        return [columns]
    loop, vector = plan.split(columns, lanes)
    plan.mark(vector, Kind.VECTOR)
    if columns.size % lanes == 0 and loop.size % _VECTORS_AT_A_TIME == 0:
        loop, several = plan.split(loop, _VECTORS_AT_A_TIME)
        plan.mark(several, Kind.UNROLL)
        return [loop, several, vector]
    return [loop, vector]


def _store(plan: Plan) -> Store:
    (store,) = plan.nest.statements
    assert isinstance(store, Store)
    return store


def _rows_together(plan: Plan, store: Store, info: DeviceInfo) -> bool:
    """Let several rows share the positions that they are gathered from, if these are read along the other axis."""
    reads = reads_in(store)
    if not any(stride_along(read.index, range_) is None for read in reads for range_ in store.order):
        return False
    vectors = choose_vector_ranges(plan.nest, info)
    if len(vectors) != 1 or stride_along(store.index, *vectors) != 1:
        return False
    ((along, lanes),) = vectors.items()
    gathered = [read for read in reads if stride_along(read.index, along) is None]
    positions = [read for read in reads if read not in gathered]
    rows = [
        range_
        for range_ in store.order
        if range_.size >= _ROWS_AT_A_TIME
        and all(stride_along(read.index, range_) for read in gathered)
        and not any(read.index.free & range_.bit for read in positions)
    ]
    if len(gathered) != 1 or not rows or along.size < lanes:
        return False
    _, several = plan.split(rows[-1], _ROWS_AT_A_TIME)
    plan.mark(several, Kind.UNROLL)
    _, vector = plan.split(along, lanes)
    plan.mark(vector, Kind.VECTOR)
    plan.order([several, vector])
    share_out(plan, info)
    stream_stores(plan, info)
    return True
