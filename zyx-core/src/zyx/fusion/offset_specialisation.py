"""Offset specialisation: kernels of one plan that differ only in where they read are one, which is given the offset.

    x[:, 0] @ w, x[:, 1] @ w, ...       steps of a recurrence, over x[16, 32, 20]

    v0[r0, r1] = sum(r2) of p1[r0*640 + r2 + 20*t] * p2[r2*80 + r1]         a nest for each t
    v0[r0, r1] = sum(r2) of p1[r0*640 + r2 + 4*n] * p2[r2*80 + r1]          one for all, 0 <= n <= 155, n = 5*t

Where vectors have to lie at multiples of their size, what is known of that stays known: only starts that are multiples
of the same powers of two share a kernel, as far as that makes a difference to what is read from there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.nest import expr as e
from zyx.nest.accesses import reads_in
from zyx.nest.data import params_of
from zyx.nest.digest import digest_of_nests
from zyx.nest.rebuild import roots_of, transform, with_roots
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from zyx.nest.data import Nest
    from zyx.nest.expr import Expr, Param
    from zyx.nest.pool import Pool

#: Bytes of the longest vectors that have to lie at multiples of their size, those of GPUs.
_LONGEST_VECTOR: Final = 16


@dataclass(frozen=True, slots=True)
class SharedKernel:
    """What a launch computes, for a kernel that others may have, too.

    Attributes:
        nests: The nests.
        starts: The values of the numbers that stand for where they read, in the order of the kernel's numbers; these
            are behind all others.
    """

    nests: Sequence[Nest]
    starts: Mapping[Param, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Reach:
    """Which elements of a buffer are read.

    Attributes:
        low, high: The first and the last.
        unit: The most elements of a vector; see `_unit`.
    """

    low: int
    high: int
    unit: int

    def with_(self, other: _Reach) -> _Reach:
        """Return what this and `other` are together."""
        return _Reach(min(self.low, other.low), max(self.high, other.high), max(self.unit, other.unit))


def clamped_start(pool: Pool, param: Param, most: int, unit: int = 1) -> Expr:
    """Return the index that a number counts in multiples of `unit`, clamped to 0 and `most`."""
    start = pool.number(param)
    limit = most // unit
    for op, bound in ((BinaryOp.MAX, 0), (BinaryOp.MIN, limit)):
        start = pool.binary(op, start, pool.literal(bound, start.dtype))
    return pool.affine([(pool.within(pool.convert(start, e.INDEX), limit + 1), unit)])


def share_kernels(launches: Sequence[Sequence[Nest]]) -> list[SharedKernel]:
    """Return for each launch the nests to compile: the same ones for launches that differ only in where they read."""
    by_id = {id(nests): nests for nests in launches}  # those of launches that are alike are the same
    shared = {number: SharedKernel(nests) for number, nests in by_id.items()}
    for alike in _groups({number: _outline(nests) for number, nests in by_id.items()}):
        reach = {number: _reach(by_id[number]) for number in alike}
        kinds = {number: _kind(by_id[number], reach[number]) for number in alike}
        for group in _groups(kinds):
            for number, one in zip(group, _over_starts([(by_id[n], reach[n]) for n in group]), strict=True):
                shared[number] = one
    return [shared[id(nests)] for nests in launches]


def _groups(keys: Mapping[int, Hashable]) -> list[list[int]]:
    """Return the numbers that have a key in common with others, together."""
    groups: dict[Hashable, list[int]] = {}
    for number, key in keys.items():
        groups.setdefault(key, []).append(number)
    return [group for group in groups.values() if len(group) > 1]


def _outline(nests: Sequence[Nest]) -> Hashable:
    """Return what is seen at once of how nests look."""
    return tuple(
        (
            tuple((param.dtype, param.length, param.mutable, param.by_value, param.is_front) for param in nest.params),
            tuple((type(statement), *(range_.size for range_ in statement.order)) for statement in nest.statements),
        )
        for nest in nests
    )


def _reach(nests: Sequence[Nest]) -> dict[Param, _Reach]:
    """Return what is read of each buffer of which nothing else is reached or written."""
    reach: dict[Param, _Reach] = {}
    for nest in nests:
        for statement in nest.statements:
            for read in reads_in(statement):
                mine, known = _Reach(read.index.low, read.index.high, _unit(read)), reach.get(read.param)
                reach[read.param] = mine if known is None else known.with_(mine)
    return {
        param: one for param, one in reach.items() if not param.mutable and one.low >= 0 and one.high < param.length
    }


def _unit(read: e.Read) -> int:
    """Return the longest vector, in elements, whose alignment all strides of a read keep.

    It begins at multiples of it only if it divides all strides, and goes through the elements of a row without a rest
    only if it divides the row.
    """
    unit = max(_LONGEST_VECTOR // read.param.dtype.itemsize, 1)
    for term, factor in read.index.terms if isinstance(read.index, e.Affine) else ((read.index, 1),):
        unit = math.gcd(unit, factor if abs(factor) != 1 else term.high - term.low + 1)
    return unit


def _kind(nests: Sequence[Nest], reach: Mapping[Param, _Reach]) -> Hashable:
    """Return the key of nests up to their offsets: equal keys may share a kernel."""
    to_zero = {param: (one.low, None) for param, one in reach.items()}
    units = tuple(math.gcd(one.low, one.unit) for one in reach.values())
    return digest_of_nests([_moved(nest, to_zero) for nest in nests]), units


def _over_starts(group: Sequence[tuple[Sequence[Nest], Mapping[Param, _Reach]]]) -> list[SharedKernel]:
    """Return nests of one kind over numbers in place of the starts that differ."""
    params = [params_of(nests) for nests, _ in group]
    starts: list[dict[Param, int]] = [{} for _ in group]
    changes: list[dict[Param, tuple[int, tuple[Param, int, int] | None]]] = [{} for _ in group]
    for place in range(len(params[0])):
        mine = [launch[place] for launch in params]
        if mine[0] not in group[0][1]:
            continue
        lows = [reach[param].low for param, (_, reach) in zip(mine, group, strict=True)]
        if min(lows) == max(lows):
            continue
        unit = math.gcd(*lows)
        dtype = dtypes.int32 if mine[0].length <= dtypes.int32.max else dtypes.int64
        for one, (param, (_, reach)) in enumerate(zip(mine, group, strict=True)):
            low, high = reach[param].low, reach[param].high
            number = e.Param(len(params[one]) + len(starts[one]), dtype, 1, mutable=False, by_value=True)
            starts[one][number] = low // unit
            changes[one][param] = low, (number, param.length - 1 - (high - low), unit)
    return [
        SharedKernel([_moved(nest, change) for nest in nests], start) if start else SharedKernel(nests)
        for (nests, _), change, start in zip(group, changes, starts, strict=True)
    ]


def _moved(nest: Nest, changes: Mapping[Param, tuple[int, tuple[Param, int, int] | None]]) -> Nest:
    """Return `nest` with reads that begin elsewhere.

    Args:
        nest: The nest.
        changes: For buffers, the first element that is read, which becomes element 0; or that which a number says, if
            there is one, with the greatest place and the unit of its value.
    """
    pool = nest.pool
    numbers = [change[0] for param, (_, change) in changes.items() if change is not None and param in nest.params]

    def change(expr: Expr) -> Expr:
        if not isinstance(expr, e.Read) or expr.param not in changes:
            return expr
        low, given = changes[expr.param]
        index = pool.shift(expr.index, -low)
        if given is not None:
            index = pool.affine([(clamped_start(pool, *given), 1), (index, 1)])
        return pool.read(expr.param, index, expr.mask)

    memo: dict[Expr, Expr] = {}
    statements = tuple(
        with_roots(statement, [transform(pool, root, change, memo) for root in roots_of(statement)])
        for statement in nest.statements
    )
    return replace(nest, params=(*nest.params, *numbers), statements=statements)
