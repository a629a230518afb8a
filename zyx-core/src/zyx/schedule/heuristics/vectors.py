"""Choose the ranges to run as vectors.

For every statement, each of its ranges is rated by what one vector of work would cost: a read or store that lies side
by side costs one access, one that does not change with the range next to nothing, lanes a few elements apart the
vectors they are taken out of, any other one access a lane. Lanes that are combined have to be added up in the end. The
statement with the most work chooses first; no statement may have two vector ranges.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx.ir import expr as e
from zyx.ir.accesses import expressions_of, stride_along
from zyx.ir.nest import Compute, Scan, Store
from zyx.ir.powers import next_power
from zyx.lowering.emit import LONGEST_STEP
from zyx.schedule.heuristics.plan import work_of

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.dtype import DType
    from zyx.ir.expr import Range
    from zyx.ir.nest import Nest, Statement

_UNCHANGED_COST = 0.25
_TURNED_COST = 2.0
#: Of each vector that lanes a few elements apart are taken out of.
_STEP_COST = 1.5
#: Of adding up a lane.
_ADD_UP_COST = 4.0


def choose_vector_ranges(nest: Nest, info: DeviceInfo) -> dict[Range, int]:
    """Return the ranges to vectorise, each with its number of lanes."""
    chosen: dict[Range, int] = {}
    for statement in sorted(nest.statements, key=work_of, reverse=True):
        if any(range_ in chosen for range_ in statement.order):
            continue
        lanes = lanes_of(statement, info)
        if lanes == 1:
            continue
        others = [s for s in nest.statements if s is not statement]
        candidates = [r for r in statement.order if _allowed(r, statement) and _alone(r, others, chosen)]
        scored = [(cost(statement, range_, lanes), -number, range_) for number, range_ in enumerate(candidates)]
        if not scored:
            continue
        best, _, range_ = min(scored, key=lambda item: item[:2])
        if best < lanes * 0.75:
            chosen[range_] = min(lanes, next_power(range_.size))
    return {range_: lanes for range_, lanes in chosen.items() if lanes > 1}


def lanes_of(statement: Statement, info: DeviceInfo) -> int:
    """Return the lanes of the widest dtype that a statement computes with; 1 if one of them has no vectors."""
    dtypes: set[DType] = set()
    for expr in expressions_of(statement):
        if (expr.dtype is not e.INDEX and not expr.dtype.is_bool) or isinstance(expr, e.Read | e.Ref):
            dtypes.add(expr.dtype)
    if isinstance(statement, Store):
        dtypes.add(statement.param.dtype)
    return min((info.lanes(dtype) for dtype in dtypes), default=1)


def cost(statement: Statement, range_: Range, lanes: int) -> float:
    """Return the accesses that a vector of `lanes` points along `range_` takes, for each access of a point."""
    total = 0.0
    count = 0
    for expr in expressions_of(statement):
        if isinstance(expr, e.Read):
            total += _read(statement, expr, range_, lanes)
            count += 1
        elif isinstance(expr, e.Ref):
            total += _reference(expr, range_, lanes)
            count += 1
    if isinstance(statement, Store):
        step = stride_along(statement.index, range_)
        total += 1 if step == 1 else lanes
        count += 1
    waste = -(-range_.size // lanes) * lanes / range_.size
    return total / max(count, 1) * waste + _adding_up(statement, range_, lanes)


def _adding_up(statement: Statement, range_: Range, lanes: int) -> float:
    """Return what it costs to combine the lanes at the end: all points that are combined share that."""
    if not isinstance(statement, Compute) or range_ not in statement.reduced:
        return 0.0
    return _ADD_UP_COST * lanes / math.prod(other.size for other in statement.reduced)


def _read(statement: Statement, read: e.Read, range_: Range, lanes: int) -> float:
    step = stride_along(read.index, range_)
    if step == 1:
        return 1.0
    if step == 0:
        return _UNCHANGED_COST
    is_turned = turned_range(statement, read, range_, lanes) is not None
    return min(_TURNED_COST if is_turned else float(lanes), cost_of_steps(step, lanes))


def cost_of_steps(step: int | None, lanes: int) -> float:
    """Return what loading a vector costs whose lanes are `step` apart."""
    is_short = step is not None and 2 <= abs(step) <= LONGEST_STEP < lanes
    return _STEP_COST * abs(step) if step is not None and is_short else float(lanes)


def turned_range(statement: Statement, read: e.Read, vector: Range, lanes: int) -> Range | None:
    """Return the range along which a read lies side by side, if blocks of it can be loaded so and turned over."""
    if stride_along(read.index, vector) is None or not (isinstance(statement, Store) or statement.op is None):
        return None
    for range_ in statement.order:
        if range_ is not vector and range_.size >= lanes and stride_along(read.index, range_) == 1:
            if _allowed(range_, statement):
                return range_
    return None


def _reference(ref: e.Ref, range_: Range, lanes: int) -> float:
    """References to values kept for each point are as good as reads side by side if they name the current point."""
    if not ref.free & range_.bit:
        return _UNCHANGED_COST
    named = zip(ref.value.ranges, ref.indices, strict=True)
    return 1.0 if all(not i.free & range_.bit or e.is_current(i, r) for r, i in named) else lanes


def _allowed(range_: Range, statement: Statement) -> bool:
    if isinstance(statement, Scan) and range_ in statement.along:
        return False
    return not (isinstance(statement, Store) and range_ in statement.serial)


def _alone(range_: Range, others: list[Statement], chosen: dict[Range, int]) -> bool:
    """Whether no other statement would get a second vector range, or may not have this one."""
    for statement in others:
        if range_ in statement.order and (
            any(other in chosen for other in statement.order) or not _allowed(range_, statement)
        ):
            return False
    return True
