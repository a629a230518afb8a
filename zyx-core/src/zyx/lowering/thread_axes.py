"""Find which ranges count the same threads.

Ranges of kind LOCAL are run by the threads of a group, which stand along axes. Ranges of one size that no statement
has both of share an axis, so that statements take turns with the threads:

    v0[r0, r1] = p0[..]            r0 group, r1 < 256 local
    p1[..] = .. v0[r0, ..] ..      r0 group, r2 < 256 local      256 threads: r1 and r2 are the number of the thread

All threads along an axis that a statement has no range of do the same for it. Warps that multiply matrices stand
along the first axis, and threads that swap values as well, where no matrices are multiplied.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

from zyx.errors import ScheduleError
from zyx.nest.data import Compute, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.nest.data import Nest, Statement
    from zyx.nest.expr import Range

#: Most axes of a launch.
MAX_AXES: Final = 3

#: Ranges of one size.
Axis: TypeAlias = "tuple[Range, ...]"


def thread_axes(nest: Nest) -> list[Axis]:
    """Return the axes along which the threads of a group stand, the fastest (of neighbouring threads) first.

    Raises:
        ScheduleError: The warps of two products of matrices meet in a statement.
    """
    local = {statement: _local_ranges(nest, statement) for statement in nest.statements}
    axes: list[list[Range]] = []
    known: set[Range] = set()
    # Statements with many axes first: those of others find their places among them.
    for ranges in sorted(local.values(), key=len, reverse=True):
        for range_ in reversed(ranges):
            if range_ in known:
                continue
            known.add(range_)
            beside = {other for others in local.values() if range_ in others for other in others}
            shared = next((axis for axis in axes if axis[0].size == range_.size and beside.isdisjoint(axis)), None)
            if shared is None:
                axes.append([range_])
            else:
                shared.append(range_)
    lanes = {s.matrix.lane for s in nest.statements if isinstance(s, Compute) and s.matrix is not None}
    swapping = set(nest.swapping)
    axes.sort(key=lambda axis: (lanes.isdisjoint(axis), swapping.isdisjoint(axis)))  # the others stay in order
    if not lanes <= set(axes[0] if axes else ()):
        raise ScheduleError(
            f"{sorted(map(repr, lanes))} are the threads of warps: no statement can have several of them"
        )
    return [tuple(axis) for axis in axes]


def group_shape(sizes: Sequence[int]) -> list[int]:
    """Return the threads along each axis of a launch, of axes of so many: where these are too many, all are one."""
    return list(sizes) if len(sizes) <= MAX_AXES else [math.prod(sizes)]


def axes_without(axes: Sequence[Axis], ranges: Sequence[Range]) -> list[Range]:
    """Return a range of each axis that none of `ranges` is along."""
    return [axis[0] for axis in axes if not any(range_ in axis for range_ in ranges)]


def _local_ranges(nest: Nest, statement: Statement) -> list[Range]:
    return [range_ for range_ in statement.order if nest.kind(range_) is Kind.LOCAL]
