"""Which kinds of ranges go together: what a nest must not be scheduled as, since its values would change.

1. What runs in order (the ranges of a scan, of stores that may hit one place) runs on one thread; but the threads of
   a group may share one range of a scan, inside its loops.
2. Its loops are outside what is written out, and that outside the lanes: the ranges, most significant first, are of
   kind LOOP, then UNROLL or REPEAT, then VECTOR. Stores that combine may run in any order.
3. Two stores to one buffer happen on the same threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.errors import ScheduleError
from zyx.nest.data import Compute, Kind, Scan, Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.nest.data import Nest
    from zyx.nest.expr import Param, Range

_PARALLEL: Final = (Kind.GROUP, Kind.LOCAL)
_DEPTH: Final = {Kind.LOOP: 0, Kind.UNROLL: 1, Kind.REPEAT: 1, Kind.LOCAL: 1, Kind.VECTOR: 2}


def check_kinds(nest: Nest) -> None:
    """Check a nest before it is lowered.

    Raises:
        ScheduleError: It breaks a rule of this module; the text has the ranges.
    """
    stores: dict[Param, Store] = {}
    for statement in nest.statements:
        match statement:
            case Compute():
                pass
            case Scan(along=along):
                shared = [range_ for range_ in along if nest.kind(range_) is Kind.LOCAL]
                _check_order(nest, along, "scanned along", shared[:1])
            case Store(serial=serial, param=param):
                _check_order(nest, serial, "stored in order", any_order=statement.combine is not None)
                earlier = stores.setdefault(param, statement)
                if earlier is not statement:
                    _check_threads(nest, param, (earlier, statement))


def _check_order(
    nest: Nest, ranges: Sequence[Range], what: str, shared: Sequence[Range] = (), *, any_order: bool = False
) -> None:
    for range_ in ranges:
        if nest.kind(range_) in _PARALLEL and range_ not in shared:
            raise ScheduleError(f"{range_} is {what}: it cannot be a {nest.kind(range_).value} range")
    depths = [_DEPTH[nest.kind(range_)] for range_ in ranges if range_.size > 1]
    if depths != sorted(depths) and not any_order:
        raise ScheduleError(f"{list(ranges)} are {what}: of these, loops come before what is written out")


def _check_threads(nest: Nest, param: Param, stores: tuple[Store, Store]) -> None:
    for range_ in nest.ranges:
        if nest.kind(range_) in _PARALLEL and not all(range_ in store.order for store in stores):
            raise ScheduleError(f"{param} is stored to twice, by different threads: {range_} must run on one of them")
