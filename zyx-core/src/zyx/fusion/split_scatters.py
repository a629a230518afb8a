"""Split a scatter into two launches, which no single one does well: its base, and the updates on top of it.

    p0[r0*3 + r1] = p1[r0*3 + r1]                   | r0, r1       one launch: nothing of it depends on the rest
    p0[p2[r2]*3 + r3] sum= p3[r2*3 + r3] if ..      | r3, r2       another one, behind it

Within a launch groups do not meet, so both would run on one thread. By themselves, the base is stored as any elements
are, and the updates run in parallel along what lies beside the indexed axis. Where the device combines indivisibly,
and the order in which updates of one place are combined does not matter, they all do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zyx.nest import expr as e
from zyx.nest.accesses import expressions_of, reads_in
from zyx.nest.data import Nest, Store
from zyx.schedule.plan import work_of

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.dtype import DType
    from zyx.ops import ReduceOp

#: A second launch takes as long as one thread takes for so many points, on devices with threads and on processors.
_SMALL_FOR_THREADS: Final = 32
_SMALL: Final = 1 << 13


def split_scatter(nest: Nest, info: DeviceInfo, *, deterministic: bool) -> list[Nest]:
    """Return nests that, run one after the other, compute what `nest` does.

    Args:
        nest: That of one kernel, which nothing has been done to.
        info: The device.
        deterministic: Whether floats are to be combined in one order, always the same.
    """
    if len(nest.statements) != 2:
        return [nest]
    base, updates = nest.statements
    if not isinstance(base, Store) or not isinstance(updates, Store) or base.param is not updates.param:
        return [nest]
    is_there = _stores_what_is_there(base)
    small = 0 if is_there else _SMALL_FOR_THREADS if info.max_group_threads > 1 else _SMALL
    if work_of(base) + work_of(updates) <= small:
        return [nest]
    is_exact = not updates.param.dtype.is_float or not deterministic
    if (
        info.max_group_threads > 1
        and updates.serial
        and is_exact
        and combines_indivisibly(info, updates.combine, updates.param.dtype)
    ):
        # In row-major order: so neighbouring threads find their updates side by side.
        order = tuple(sorted(updates.order, key=lambda range_: range_.number))
        updates = replace(updates, order=order, serial=(), atomic=True)
    nests = [_of_one(nest, updates)]
    return nests if is_there else [_of_one(nest, base), *nests]


def combines_indivisibly(info: DeviceInfo, op: ReduceOp | None, dtype: DType) -> bool:
    """Whether the device has an indivisible form of `op` for `dtype`."""
    capability = info.capabilities.get(dtype)
    return capability is not None and op in capability.atomic


def _of_one(nest: Nest, store: Store) -> Nest:
    used = {store.param, *(expr.param for expr in expressions_of(store) if isinstance(expr, e.Read | e.Number))}
    return Nest(tuple(param for param in nest.params if param in used), (store,), nest.pool)


def _stores_what_is_there(store: Store) -> bool:
    """Whether a store writes each element over itself, as where a base's buffer is taken over."""
    return any(
        read is store.expr and read.param is store.param and read.index is store.index and read.mask is None
        for read in reads_in(store)
    )
