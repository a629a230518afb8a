"""Recognise products of matrices in nests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.backend.library import Gemm
from zyx.libraries.results import has_library_types, is_stored
from zyx.nest import expr as e
from zyx.nest.accesses import stride_along
from zyx.nest.data import Store
from zyx.schedule.contraction import find_contraction
from zyx.schedule.plan import Plan, simplify_ranges

if TYPE_CHECKING:
    from zyx.nest.data import Nest
    from zyx.nest.expr import Param, Range
    from zyx.schedule.contraction import Contraction, Sides


def match_gemm(nest: Nest) -> tuple[Gemm, tuple[Param, Param, Param]] | None:
    """Return the product of matrices that `nest` is, with the params of a, b and c, if it is one and nothing more.

    At most one batch axis, operands and result without gaps.
    """
    plan = Plan(nest)
    simplify_ranges(plan)
    nest = plan.nest
    found = find_contraction(nest)
    if found is None or len(found.others) != 1 or len(found.reads) != 2 or len(found.statement.reduced) != 1:
        return None
    (store,), kept = found.others, found.statement.value.ranges
    if not isinstance(store, Store) or not _is_plain(found, store) or not has_library_types(found, store):
        return None
    for a, b in (found.reads, reversed(found.reads)):
        sides = found.sides(a, b)
        if len(sides.rows) == len(sides.columns) == 1 and len(kept) == 2 + len(sides.batch) <= 3:
            problem = _problem(store, a, b, sides, found.statement.reduced[0])
            if problem is not None:
                return problem, (a.param, b.param, store.param)
    return None


def _is_plain(found: Contraction, store: Store) -> bool:
    """Whether the results are stored as they are, and buffers are read and written everywhere, from their start."""
    is_from_start = all(_is_from_start(index) for index in (store.index, *(read.index for read in found.reads)))
    return is_stored(found, store) and is_from_start and all(read.mask is None for read in found.reads)


def _is_from_start(index: e.Expr) -> bool:
    """Whether an index begins at 0 at every launch, if its strides are positive, as `_problem` checks.

    Where a launch says where something begins, the least place is 0, too: what no range moves has no stride, and a
    library is given nothing but buffers.
    """
    terms = index.terms if isinstance(index, e.Affine) else ((index, 1),)
    return index.low == 0 and all(term.free for term, _ in terms)


def _problem(store: Store, a: e.Read, b: e.Read, sides: Sides, k: Range) -> Gemm | None:
    (i,), (j,) = sides.rows, sides.columns
    m, n, size = i.size, j.size, k.size
    group = sides.batch[0] if sides.batch else None

    def strides(index: e.Expr, *ranges: Range | None) -> list[int | None]:
        return [0 if range_ is None else stride_along(index, range_) for range_ in ranges]

    groups = 1 if group is None else group.size
    if strides(store.index, group, i, j) != [m * n if group else 0, n, 1]:
        return None
    straight = [m * size if group else 0, size, 1]
    turned = [m * size if group else 0, 1, m]
    in_a = strides(a.index, group, i, k)
    in_b = strides(b.index, group, k, j)
    b_step = size * n if group else 0
    if in_a not in (straight, turned) or in_b not in ([b_step, n, 1], [b_step, 1, size]):
        return None
    return Gemm(groups, m, n, size, a.param.dtype, store.param.dtype, in_a != straight, in_b != [b_step, n, 1])
