"""Stores past the caches: which ones pay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.nest.accesses import stride_along
from zyx.nest.data import Kind, Store
from zyx.schedule.moves import Stream
from zyx.schedule.moves.ranges import statement_labels

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.schedule.plan import Plan

#: Of the caches of nearly all processors.
LINE_BYTES: Final = 64
_CACHES_TO_KEEP: Final = 8


def stream_stores(plan: Plan, info: DeviceInfo, *, by_lines: bool = False) -> None:
    """Use non-temporal stores for results larger than the caches; if `by_lines`, only of whole cache lines.

    A plain store reads the line that it writes to first, which doubles the traffic; one past the caches makes the next
    reader go to memory. A last-level cache that is many times the others belongs to more than this program, so that its
    size alone says little: what a reader gains there is less than what stores lose from about `_CACHES_TO_KEEP` times
    the caches of the units.
    """
    for statement, label in list(statement_labels(plan.nest).items()):
        if not isinstance(statement, Store) or not passes_caches(statement, info):
            continue
        vector = next((r for r in statement.order if plan.nest.kind(r) is Kind.VECTOR), None)
        if vector is None or stride_along(statement.index, vector) != 1:
            continue
        if not by_lines or vector.size * statement.param.dtype.itemsize >= LINE_BYTES:
            plan.do(Stream(label))


def passes_caches(store: Store, info: DeviceInfo) -> bool:
    """Whether what is stored is so much that its lines are gone from the caches before they are read."""
    if not info.has_streaming or not info.cache_bytes or store.combine is not None:
        return False
    kept = info.cache_bytes[-1]
    if len(info.cache_bytes) > 2:
        kept = min(kept, _CACHES_TO_KEEP * info.cache_bytes[-2] * info.units)
    return store.param.length * store.param.dtype.itemsize >= kept
