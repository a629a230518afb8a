"""Reductions along one range, with what is computed from their results: for each row, or along the same range again.

    softmax of rows that fit       load x;  m = max of x;  s = sum of exp(x - m);  put exp(x - m) / s
    softmax of longer rows         along columns: load x;  m max= x
                                   along columns: load x;  s += exp(x - m)
                                   along columns: load x;  put exp(x - m) / s

Reductions that do not need each other's results share a sweep. Behind the last element of a row its tiles have that
element again, so what is computed there is what some element is, too, and a maximum is not changed by it; what is
added up is made 0 there, where it is not 0 because everything that is read is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx.errors import UnsupportedError
from zyx.nest import expr as e
from zyx.nest.accesses import below, stride_along
from zyx.ops import ReduceOp
from zyx.tiles import data as t
from zyx.tiles.data import Pads, TileOp
from zyx.tiles.expressions import tile_dtype_of, value_in_pads
from zyx.tiles.views import Frame, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zyx.nest.data import Compute
    from zyx.nest.expr import Expr, Range
    from zyx.tiles.building import Building

#: How devices combine values, and whether these are negated for that, and the result.
_REDUCE = {
    ReduceOp.SUM: (TileOp.ADD, False), ReduceOp.MAX: (TileOp.MAX, False), ReduceOp.MIN: (TileOp.MAX, True),
    ReduceOp.OR: (TileOp.MAX, False), ReduceOp.AND: (TileOp.MAX, True),
}  # fmt: skip


def write_reductions(building: Building, *, in_one_sweep: bool) -> Sequence[int]:
    """Write reductions and what follows them; return the inner axes.

    Args:
        building: Where to.
        in_one_sweep: Whether a block has all that is combined, which is loaded once; or there are several sweeps.
    """
    return _Reductions(building).write(in_one_sweep=in_one_sweep)


def needs_elements_again(building: Building) -> bool:
    """Whether what was combined is needed again, for another reduction or for results along the same range."""
    kept = set(building.combined[0].value.ranges)
    return len(_levels(building)) > 1 or any(not set(store.order) <= kept for store in building.stores)


class _Reductions:
    def __init__(self, building: Building) -> None:
        self._building = building
        self._combined = building.combined
        self._kept = self._ranges_kept()
        self._size = self._size_combined()
        self._is_known_zero = all(
            statement.op is ReduceOp.SUM
            and value_in_pads(statement.expr, statement.reduced[0], building.inlined) == 0.0
            for statement in self._combined
        )

    def write(self, *, in_one_sweep: bool) -> Sequence[int]:
        building = self._building
        frame_of, along, inner = self._frames()
        frame = frame_of(self._combined[0].reduced[0])
        if in_one_sweep:
            building.whole += inner
        elif frame.folded is not None:
            building.whole.append(frame.folded[2])
        building.demand(Pads.ZERO if self._is_known_zero else Pads.LAST, frame, along)
        for level in _levels(building):
            results = [
                self._combine(each, frame_of(each.reduced[0]), along, in_one_sweep=in_one_sweep) for each in level
            ]
            if not in_one_sweep:
                building.end_sweep(along)
            for statement, result in zip(level, results, strict=True):
                is_negated = _REDUCE[statement.op][1] if statement.op is not None else False
                value = building.steps.apply1(TileOp.NEG, result) if is_negated else result
                building.steps.accumulators[statement.value] = value
        full = [store for store in building.stores if not set(store.order) <= self._kept]
        for store in full:
            (range_,) = set(store.order) - self._kept
            building.put(store, frame_of(range_))
        if not in_one_sweep:
            building.end_sweep(along) if full else None
            building.steps.pads = {}
        for store in building.stores:
            if store not in full:
                building.put(store, _without(frame, along))
        building.end_sweep(None)
        return inner

    # ---- ranges

    def _ranges_kept(self) -> set[Range]:
        """Return the ranges that all results of reductions have."""
        kept = {frozenset(statement.value.ranges) for statement in self._combined}
        if len(kept) > 1:
            raise UnsupportedError("reductions of which one has more ranges than another have no tile program")
        return set(*kept)

    def _size_combined(self) -> int:
        """Return the size of the one range that all reductions combine, and results may have."""
        for statement in self._combined:
            if statement.op not in _REDUCE or len(statement.reduced) != 1:
                raise UnsupportedError(
                    f"a reduction by {statement.op} along {len(statement.reduced)} ranges is none of tiles"
                )
            if statement.op is ReduceOp.SUM and statement.value.dtype.is_bool:
                raise UnsupportedError("truths are not added up")
        sizes = {statement.reduced[0].size for statement in self._combined}
        for store in self._building.stores:
            more = set(store.order) - self._kept
            if len(more) > 1 or not self._kept <= set(store.order):
                raise UnsupportedError("a reduction whose results are used along more ranges has no tile program")
            sizes |= {range_.size for range_ in more}
        if len(sizes) > 1:
            raise UnsupportedError(f"reductions and results along ranges of {sorted(sizes)} points have no program")
        return sizes.pop()

    def _frames(self) -> tuple[Callable[[Range], Frame], int, list[int]]:
        """Return the frame for a range that is combined, the axis of its blocks, and all its axes."""
        building = self._building
        first = self._combined[0].reduced[0]
        if not self._kept:
            folded = building.folded(first).folded
            assert folded is not None  # as it was just made
            return (lambda range_: Frame(folded=(range_, *folded[1:]))), folded[1], [*folded[1:3]]
        kept = nearest(self._kept, building.stores[-1].index)
        batch = building.batch(kept[:-1])
        if self._is_near(kept[-1]):
            row, (_, along) = building.row_axis(kept[-1]), building.column_axis(first)
            return (lambda range_: Frame(batch, row, (range_, along))), along, [along]
        (_, along), column = building.row_axis(first), building.column_axis(kept[-1])
        return (lambda range_: Frame(batch, (range_, along), column)), along, [along]

    def _is_near(self, kept: Range) -> bool:
        """Whether most that is read for reductions lies side by side along their own range."""
        along = across = 0
        for statement in self._combined:
            reads = [each for each in _below(statement.expr, self._building.inlined) if isinstance(each, e.Read)]
            along += sum(stride_along(read.index, statement.reduced[0]) == 1 for read in reads)
            across += sum(stride_along(read.index, kept) == 1 for read in reads)
        return along >= across

    # ---- steps

    def _combine(self, statement: Compute, frame: Frame, along: int, *, in_one_sweep: bool) -> int:
        """Write a reduction; return its result, negated if what is combined is."""
        assert statement.op is not None  # as it is one of those that combine
        op, is_negated = _REDUCE[statement.op]
        steps, dtype = self._building.steps, tile_dtype_of(statement.value.dtype)
        rows, columns = (axis is not None and self._is_combined(axis, along, frame) for axis in frame.matrix)
        row, column = frame.matrix
        shape = None if rows else row, None if columns else column
        x = steps.spread(steps.value_of(statement.expr, frame, dtype), row, column)
        x = steps.apply1(TileOp.NEG, x) if is_negated else x
        if op is TileOp.ADD and not self._is_known_zero:
            x = self._building.zero_in_pads(x, frame, along)
        part = steps.new(dtype, *shape)
        steps.steps.append(t.Reduce(part, op, x, rows, columns))
        if in_one_sweep:
            return part
        found = steps.new(dtype, *shape)
        steps.steps += (
            t.Begin(found, 0.0 if op is TileOp.ADD else -math.inf, dtype), t.Combine(found, op, part),
        )  # fmt: skip
        return found

    @staticmethod
    def _is_combined(axis: int, along: int, frame: Frame) -> bool:
        return axis == along or frame.folded is not None


def _levels(building: Building) -> list[list[Compute]]:
    """Return the reductions, those together that need no result of each other, in an order in which they can run."""
    level: dict[e.Value, int] = {}
    levels: list[list[Compute]] = []
    for statement in building.combined:
        needed = [
            level[each.value]
            for each in _below(statement.expr, building.inlined)
            if isinstance(each, e.Ref) and each.value in level
        ]
        level[statement.value] = number = max(needed, default=-1) + 1
        levels += [[]] if number == len(levels) else []
        levels[number].append(statement)
    return levels


def _without(frame: Frame, along: int) -> Frame:
    """Return a frame without the axis that was combined."""
    if frame.folded is not None:
        return Frame()
    rows, columns = (None if pair is None or pair[1] == along else pair for pair in (frame.rows, frame.columns))
    return Frame(frame.batch, rows, columns)


def _below(expr: Expr, inlined: Mapping[e.Value, Compute]) -> list[Expr]:
    found = below(expr)
    for each in list(found):
        if isinstance(each, e.Ref) and each.value in inlined:
            found += _below(inlined[each.value].expr, inlined)
    return found
