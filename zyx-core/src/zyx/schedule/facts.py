"""What there is to know of a nest for its schedule: how accesses move along ranges, what points cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.lowering.emit import LONGEST_STEP
from zyx.nest import expr as e
from zyx.nest.accesses import expressions_of, reads_in, stride_along
from zyx.nest.data import Scan, Store
from zyx.ops import TRANSCENDENTAL

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.dtype import DType
    from zyx.nest.data import Nest, Statement
    from zyx.nest.expr import Expr, Range

#: Operations that a transcendental function is written as, about.
_FUNCTION: Final = 100


def lanes_of(statement: Statement, info: DeviceInfo) -> int:
    """Return the lanes of the widest dtype that a statement computes with; 1 if one of them has no vectors."""
    return min((info.lanes(dtype) for dtype in _dtypes_of(statement)), default=1)


def has_lanes(statement: Statement, lanes: int, info: DeviceInfo) -> bool:
    """Whether there are vectors of so many lanes, though longer than registers, of all that a statement computes."""
    found = (info.capabilities.get(dtype) for dtype in _dtypes_of(statement))
    return all(capability is not None and lanes in capability.lanes for capability in found)


def _dtypes_of(statement: Statement) -> set[DType]:
    dtypes: set[DType] = set()
    for expr in expressions_of(statement):
        if (expr.dtype is not e.INDEX and not expr.dtype.is_bool) or isinstance(expr, e.Read | e.Ref):
            dtypes.add(expr.dtype)
    if isinstance(statement, Store):
        dtypes.add(statement.param.dtype)
    return dtypes


def operations(statement: Statement) -> int:
    """Return about how many operations a point of a statement is written as."""
    expressions = expressions_of(statement)
    functions = sum(isinstance(expr, e.Apply1) and expr.op in TRANSCENDENTAL for expr in expressions)
    return len(expressions) + _FUNCTION * functions


def may_be_vector(range_: Range, statement: Statement) -> bool:
    """Whether the points of a range of a statement need not run in order."""
    if isinstance(statement, Scan) and range_ in statement.along:
        return False
    return range_.size > 1 and not (isinstance(statement, Store) and range_ in statement.serial)


def accesses_of_a_vector(statement: Statement, range_: Range, lanes: int) -> tuple[float, int]:
    """Return how many accesses a vector of points along a range takes, and how many a point does.

    One that lies side by side there takes one, one that stays the same none, lanes a few elements apart the vectors
    that they are taken out of, others one for each lane. Values that are kept for each point lie side by side.
    """
    steps: list[int | None] = []
    for expr in expressions_of(statement):
        if isinstance(expr, e.Read):
            steps.append(stride_along(expr.index, range_))
        elif isinstance(expr, e.Ref):
            named = zip(expr.value.ranges, expr.indices, strict=True)
            is_own = all(not index.free & range_.bit or e.is_current(index, r) for r, index in named)
            steps.append(int(bool(expr.free & range_.bit)) if is_own else None)
    if isinstance(statement, Store):
        steps.append(stride_along(statement.index, range_))
    total = 0.0
    for step in steps:
        total += abs(step) if step is not None and abs(step) <= LONGEST_STEP else lanes
    return total, len(steps)


def whole_lanes(nest: Nest, range_: Range, info: DeviceInfo) -> int:
    """Return the lanes of vectors along a range: 1 unless what is large lies side by side there, at whole vectors."""
    concerned = [statement for statement in nest.statements if range_ in statement.order]
    lanes = min(lanes_of(statement, info) for statement in concerned)
    apart, found = 0, False
    for statement in concerned if lanes > 1 else ():
        for read in reads_in(statement):
            step = _whole_step(read.index, read.mask, range_, lanes)
            apart += 0 if step in (0, 1) else min(read.index.high - read.index.low + 1, read.param.length)
            found = found or step == 1
        if isinstance(statement, Store):
            if statement.combine is not None or _whole_step(statement.index, statement.mask, range_, lanes) != 1:
                return 1
            found = True
    return lanes if found and 2 * apart <= range_.size else 1


def _whole_step(index: Expr, mask: Expr | None, range_: Range, lanes: int) -> int | None:
    """Return the stride of `index` along a range; None if it is not constant, or vectors are cut or unaligned."""
    if mask is not None and mask.free & range_.bit:
        return None
    step = stride_along(index, range_)
    if step != 1:
        return step
    terms, constant = (index.terms, index.constant) if isinstance(index, e.Affine) else (((index, 1),), 0)
    others = [factor for term, factor in terms if not (isinstance(term, e.RangeRef) and term.range is range_)]
    return 1 if all(factor % lanes == 0 for factor in (*others, constant)) else None
