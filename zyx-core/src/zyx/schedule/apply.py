"""From a spec to moves: the ranges are cut, the loops ordered, and the outer ones shared out over groups."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx.arithmetic.parts import divisor_among
from zyx.errors import ScheduleError
from zyx.nest.accesses import below, combined_ranges, serial_ranges
from zyx.nest.data import Compute, Kind, Store
from zyx.schedule.facts import operations
from zyx.schedule.moves import Apart, Nested, Reorder, Stage
from zyx.schedule.moves.ranges import find_statement, statement_labels
from zyx.schedule.moves.values import reads_of_value
from zyx.schedule.plan import work_of
from zyx.schedule.streaming import stream_stores
from zyx.schedule.swaps import swap_along

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.nest.data import Nest, Statement
    from zyx.nest.expr import Range
    from zyx.schedule.plan import Plan
    from zyx.schedule.spec import Part, Place, Spec, Staged


#: Fewer points than this are not worth a second group: waking a thread costs as much as tens of thousands of
#: operations.
GROUP_WORK: Final = 1 << 13
#: Operations on results that are written out, from which on they are a loop: such as a function of each of eight.
_LONG_EPILOGUE: Final = 768
#: Groups for each unit: enough to even out what they are given.
_GROUPS_OF_A_UNIT: Final = 8


def apply(plan: Plan, spec: Spec, info: DeviceInfo) -> None:
    """Schedule the nest of `plan`, whose ranges are simplified, as a spec says.

    Raises:
        ScheduleError: The spec does not fit the nest.
    """
    for move in spec.first:
        plan.do(move)
    meet = _groups_that_meet(plan.nest, spec)
    parts = {c.range: _cut(plan, plan.range(c.range), c.parts, is_masked=c.range in meet) for c in spec.cuts}

    def at(places: Sequence[Place]) -> list[Range]:
        found = [
            parts[place.range][place.part] if place.range in parts else plan.range(place.range) for place in places
        ]
        return [range_ for range_ in found if range_ is not None]

    for value, first in spec.nested:
        if len(at(first)) < len(first) or parts[first[0].range][0] is not None:
            plan.do(Nested(value, tuple(range_.label for range_ in at(first))))
    plan.order(at(spec.order))
    if spec.groups is None:
        share_out(plan, info, at(spec.kept))
    else:
        for range_ in at(spec.groups):
            plan.mark(range_, Kind.GROUP)
    for staged in spec.staged:
        _stage(plan, staged, at(staged.tile), None if staged.turned is None else at((staged.turned,)))
    threads = [range_ for range_ in plan.nest.ranges if plan.nest.kind(range_) is Kind.LOCAL]
    _combine_threads_last(plan)
    for range_ in threads:
        if _are_neighbours(plan.nest, range_):  # threads that swap become neighbours, and others then read far apart
            swap_along(plan, range_, info)
    if threads:
        _read_first(plan)
    _set_results_apart(plan)
    # Other parts of a line that a tile of results stores in parts come with the next tile, too late.
    stream_stores(plan, info, by_lines=spec.groups is not None)


def _are_neighbours(nest: Nest, threads: Range) -> bool:
    """Whether neighbouring threads stand along a range wherever they do."""
    orders = [[r for r in s.order if nest.kind(r) is Kind.LOCAL] for s in nest.statements if threads in s.order]
    return all(local[-1] is threads for local in orders)


def _combine_threads_last(plan: Plan) -> None:
    """Make loops that combine innermost, where the partial results of threads are combined after them."""
    for statement, label in statement_labels(plan.nest).items():
        combined = combined_ranges(statement) if isinstance(statement, Compute) else ()
        if any(plan.nest.kind(range_) is Kind.LOCAL for range_ in combined):
            groups = [r for r in statement.order if plan.nest.kind(r) is Kind.GROUP]
            loops = [r for r in statement.order if plan.nest.kind(r) is Kind.LOOP]
            others = [r for r in statement.order if r not in groups and r not in loops]
            wanted = [*groups, *sorted(loops, key=combined.__contains__), *others]
            if tuple(wanted) != statement.order:
                plan.do(Reorder(label, tuple(range_.label for range_ in wanted)))


def _set_results_apart(plan: Plan) -> None:
    """Compute a long epilogue of unrolled results in a loop over them, and not once for each.

    Each then passes through memory, which costs little beside them, and the code of all took long to compile.
    """
    labels = statement_labels(plan.nest)
    sums = [number for number, statement in enumerate(plan.nest.statements) if combined_ranges(statement)]
    after = [statement for statement in plan.nest.statements[max(sums) + 1 :]] if sums else []
    several = [r for statement in after for r in statement.order if plan.nest.kind(r) is Kind.UNROLL]
    points = math.prod(range_.size for range_ in dict.fromkeys(several))
    if several and points * sum(map(operations, after)) >= _LONG_EPILOGUE:
        chosen = [labels[statement] for statement in after if several[0] in statement.order]
        plan.do(Apart(several[0].label, tuple(chosen)))


def _stage(plan: Plan, staged: Staged, tile: Sequence[Range], turned: Sequence[Range] | None) -> None:
    """Copy what is read, and run the copy as its reader is run, or turned over."""
    statements = statement_labels(plan.nest)
    value = next(label for label in (staged.value, *_later(statements, staged)) if _reads(statements, label, staged))
    plan.do(Stage(value, staged.param, tuple(range_.label for range_ in tile), staged.place))
    user = find_statement(plan.nest, value)
    copy = plan.nest.statements[plan.nest.statements.index(user) - 1]
    assert isinstance(copy, Compute)
    own = {range_: plan.range(f"{range_.label}@{copy.value}") for range_ in tile}
    vector = tile[-1]
    if not turned or turned[0] not in own or turned[0].size < vector.size:
        for range_, mine in own.items():
            if plan.nest.kind(range_) is not Kind.LOOP:
                plan.mark(mine, plan.nest.kind(range_))
        return
    plan.mark(own[vector], Kind.VECTOR)
    outer, block = plan.split(own[turned[0]], vector.size)
    plan.mark(block, Kind.UNROLL)
    plan.order([*(mine for old, mine in own.items() if old not in (vector, turned[0])), outer, block])


def _later(statements: Mapping[Statement, str], staged: Staged) -> list[str]:
    """Return the labels of all values: a sum over parts first has a new one."""
    return [label for label in statements.values() if label.startswith("v") and label != staged.value]


def _reads(statements: Mapping[Statement, str], label: str, staged: Staged) -> bool:
    statement = next(s for s, name in statements.items() if name == label)
    return isinstance(statement, Compute) and any(r.param.number == staged.param for r in reads_of_value(statement))


def _groups_that_meet(nest: Nest, spec: Spec) -> set[str]:
    """Return the ranges of groups whose threads meet at barriers, which must not be inside of branches."""
    combined = {range_.label for statement in nest.statements for range_ in combined_ranges(statement)}
    local = {cut.range for cut in spec.cuts if any(part.kind is Kind.LOCAL for part in cut.parts)}
    return {place.range for place in spec.groups or ()} if combined & local else set()


def _read_first(plan: Plan) -> None:
    """Let a thread read what it needs for all points that it stores before it stores the first.

    Compilers leave a load behind a store that is written in front of it, as both might be of one place.
    """
    (first, *others) = plan.nest.statements
    several = [range_ for range_ in first.order if plan.nest.kind(range_) is Kind.UNROLL]
    if others or not isinstance(first, Store) or first.combine is not None or first.serial or len(several) != 1:
        return
    while reads := [r for r in reads_of_value(plan.nest.statements[-1]) if r.free & several[0].bit]:
        known = set(reads)
        read = next(r for r in reads if known.isdisjoint(below(r.index)))
        same = [other for other in reads_of_value(plan.nest.statements[-1]) if other.param is read.param]
        plan.do(Stage("s0", read.param.number, (), same.index(read)))


def _cut(plan: Plan, range_: Range, parts: Sequence[Part], *, is_masked: bool) -> list[Range | None]:
    """Cut a range, and return the loop that is left, if there is one, and its parts; None for parts of one point.

    What is written out is cut off first, and the loops around it then: so masks stay in the last point of all, which
    is written apart but where all points are to be masked.
    """
    outside = max((number + 1 for number, part in enumerate(parts) if part.kind is Kind.LOOP), default=0)
    points = math.prod(part.points for part in parts[outside:])
    if len(parts) == 1 and parts[0].kind in (Kind.UNROLL, Kind.REPEAT) and points >= 2 * range_.size > 2:
        raise ScheduleError(f"{range_.label} has {range_.size} points: of {points} that are written out, half are none")
    loop: Range | None = range_
    found: list[Range | None] = []
    # Steps of threads that are more than there is are as many as there is.
    takes_rest = range_.size < points and parts[outside].points > 1 and _are_steps_of_threads(parts[outside:])
    if range_.size == points or takes_rest:
        loop, block = None, range_
    elif points > 1:
        loop, block = (plan.split_masked if is_masked else plan.split)(range_, points)
    for part in parts[outside:]:
        points //= part.points
        if part.points == 1:
            found.append(None)
            continue
        piece = block
        if points > 1:
            piece, block = plan.split(block, points)
        if part.kind is not Kind.LOOP:
            plan.mark(piece, part.kind)
        found.append(piece)
    for part in reversed(parts[:outside]):
        inner = None
        if loop is not None and loop.size <= part.points:
            loop, inner = None, loop
        elif loop is not None and part.points > 1:
            loop, inner = plan.split(loop, part.points)
        found.insert(0, inner)
    return [loop, *found]


def _are_steps_of_threads(parts: Sequence[Part]) -> bool:
    return len(parts) > 1 and parts[0].kind is Kind.REPEAT and parts[1].kind is Kind.LOCAL


# ---- groups


def share_out(plan: Plan, info: DeviceInfo, kept: Sequence[Range] = ()) -> None:
    """Turn outer ranges into groups until there are enough for the device; `kept` are none, nor what is inside."""
    nest = plan.nest
    work = sum(work_of(statement) for statement in nest.statements)
    if work < 2 * GROUP_WORK:
        return
    wanted = info.units * _GROUPS_OF_A_UNIT
    count = 1
    for range_ in parallel_ranges(nest.statements):
        if nest.kind(range_) is not Kind.LOOP or count >= wanted or range_ in kept:
            break
        per_point = work // (count * range_.size)
        if per_point >= GROUP_WORK or range_.size <= 2:
            plan.mark(range_, Kind.GROUP)
            count *= range_.size
            continue
        block = min(-(-GROUP_WORK // max(per_point, 1)), -(-range_.size // 2))
        near = range(block, min(2 * block, range_.size) + 1)
        outer, _ = plan.split(range_, divisor_among(range_.size, near) or block)
        plan.mark(outer, Kind.GROUP)
        count *= outer.size
        break


def parallel_ranges(statements: tuple[Statement, ...]) -> list[Range]:
    """Return the leading ranges that all statements have and none combines over."""
    serial = {range_ for statement in statements for range_ in serial_ranges(statement)}
    shared = [r for r in statements[-1].order if r not in serial and all(r in s.order for s in statements)]
    lead: list[Range] = []
    for range_ in shared:
        if any(range_ not in s.order[: len(lead) + 1] for s in statements if isinstance(s, Store)):
            continue
        lead.append(range_)
    return lead
