"""Count the memory of threads and groups."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.errors import ScheduleError
from zyx.lowering.storage import InArray, place_values
from zyx.lowering.thread_axes import thread_axes
from zyx.lowering.tree import build_tree
from zyx.nest.accesses import combined_ranges
from zyx.nest.data import Compute, Kind, Scan, Store

if TYPE_CHECKING:
    from zyx.lowering.thread_axes import Axis
    from zyx.nest.data import Nest
    from zyx.nest.expr import Value

_WRITTEN_OUT: Final = (Kind.UNROLL, Kind.REPEAT, Kind.VECTOR)


def local_bytes(nest: Nest) -> int:
    """Return the local memory of all statements of a nest, in bytes, with those of peeled iterations.

    They are arrays that threads read from each other, and what reductions and scans over threads pass on.
    """
    found = arrays_of(nest)
    if found is None:
        return 0
    total = sum(found.shared.values())
    threads = math.prod(axis[0].size for axis in found.axes)
    for statement in nest.statements:
        combined = combined_ranges(statement)
        local = [range_ for range_ in combined if nest.kind(range_) is Kind.LOCAL]
        if isinstance(statement, Store) or not local:
            continue
        # A thread passes on one value, but a scan along threads one for each time that they stand along it again.
        inner = combined if isinstance(statement, Compute) else combined[combined.index(local[0]) :]
        kept = [r for r in statement.order if r not in inner and nest.kind(r) in _WRITTEN_OUT]
        together = math.prod(math.gcd(nest.swapping.get(range_, 1), range_.size) for range_ in combined)
        times = 2 if isinstance(statement, Scan) and together == 1 else 1
        values = times * max(1, threads // together) * math.prod(range_.size for range_ in kept)
        total += (
            0 if together == math.prod(range_.size for range_ in local) else values * statement.value.dtype.itemsize
        )
    return total


@dataclass(frozen=True, slots=True)
class Arrays:
    """The bytes of the arrays of a nest.

    Attributes:
        own: Of those that each thread has to itself.
        shared: Of those that the threads of a group share.
        axes: Along which these threads stand.
    """

    own: dict[Value, int]
    shared: dict[Value, int]
    axes: list[Axis]


@functools.lru_cache(maxsize=4)  # a schedule that is looked at is asked several times, and then no more
def arrays_of(nest: Nest) -> Arrays | None:
    """Return the arrays of a nest, None of a schedule that lowering refuses."""
    try:
        places = place_values(nest, build_tree(nest))
        axes = thread_axes(nest)
    except ScheduleError:
        return None
    sizes: tuple[dict[Value, int], dict[Value, int]] = {}, {}
    for value, place in places.items():
        if isinstance(place, InArray):
            sizes[place.shared][value] = place.length * value.dtype.itemsize
    return Arrays(*sizes, axes)
