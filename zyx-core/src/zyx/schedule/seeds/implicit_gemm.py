"""Implicit GEMM: sums of products as products of few, long matrices, whose ranges, also of the sum, are joined to one.

    c[n, o, y, x] = sum(i, ky, kx) of image[n, i, y + ky, x + kx] * weight[o, i, ky, kx]

Rows are o here and columns y+x, of each n; the depth is i, of each ky and kx, or i+ky+kx where that has too few points.
What is read at a place that takes divisions to find is copied first, once for all results of a block that need it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from zyx.errors import ScheduleError
from zyx.nest.accesses import step_along
from zyx.schedule.contraction import find_contraction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.nest.expr import Range
    from zyx.schedule.contraction import Contraction
    from zyx.schedule.plan import Plan

#: Points of a side that any block of results has room for, and of which it leaves few places empty.
_LONG: Final = 256
#: Points of the sum that are copied at a time; of more than this share of them in vain, another range is joined.
_DEPTH: Final = 32
_MOST_WASTE: Final = 1.25


def join_sides(plan: Plan, found: Contraction) -> Contraction:
    """Join ranges of the sum of products `found` in the nest of `plan`, from the innermost outwards, while that helps.

    Returns:
        The sum as it is then; `found` if nothing was joined.
    """
    if len(found.reads) != 2:
        return found
    sides = found.sides(*found.reads)
    before = len(plan.moves)
    for ranges in (sides.rows, sides.columns):
        plan.merge_inner(ranges, lambda _, inner: inner.size < _LONG)
    lie_together = any(all(step_along(read.index, r) == 1 for read in found.reads) for r in sides.depth)
    if not lie_together and all(map(_is_wasteful, sides.depth)):
        plan.merge_inner(sides.depth, lambda _, inner: _is_wasteful(inner))
    if len(plan.moves) == before:
        return found
    joined = find_contraction(plan.nest)
    assert joined is not None  # other names for the ranges of the same sum
    return joined


def join_loops(plan: Plan, reduced: Sequence[Range], loop: Range) -> tuple[Sequence[Range], Range]:
    """Join the loops `reduced` around `loop` to it, in which copies are made ahead, and return those left and the loop.

    One that is peeled stays by itself: it would be peeled in each of the others.
    """
    if loop in plan.nest.peeled:
        return reduced, loop
    try:
        return (), functools.reduce(plan.merge, [*reduced, loop])
    except ScheduleError:
        return reduced, loop


def _is_wasteful(depth: Range) -> bool:
    return -(-depth.size // _DEPTH) * _DEPTH > _MOST_WASTE * depth.size
