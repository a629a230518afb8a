"""Turn a scheduled nest into a kernel of the linear IR.

loops     `zyx.lowering.tree` finds the loops, this module opens and closes them
grid      ranges of kind GROUP and LOCAL become `Index` operations, the innermost the fastest axis; which ones the
          threads share, `zyx.lowering.thread_axes` says
peeling   a peeled range's last point is written out apart, with its masks simplified for it
cases     where vectors have masks, an innermost loop is cut into stretches, or has branches, without them
          (`zyx.lowering.unswitching`)
values    `zyx.lowering.storage` says where they live, `zyx.lowering.statements` writes the statements
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.data import Kernel, Type
from zyx.lowering.emit import Emitter
from zyx.lowering.ends import end_of
from zyx.lowering.rules import check_kinds
from zyx.lowering.scopes import ScopedBuilder
from zyx.lowering.statements import StatementWriter
from zyx.lowering.storage import place_values
from zyx.lowering.thread_axes import MAX_AXES, thread_axes
from zyx.lowering.tree import RangeLoop, build_tree, statements_in
from zyx.lowering.unswitching import unswitched_cases
from zyx.lowering.writer import LoweringState
from zyx.nest import expr as e
from zyx.nest.accesses import below, expressions_of, roots_of
from zyx.nest.data import Kind, params_of
from zyx.nest.rebuild import pad_range
from zyx.ops import BinaryOp, UnaryOp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zyx.dtype import DType
    from zyx.kernel.data import ValueId
    from zyx.lowering.ends import End
    from zyx.lowering.thread_axes import Axis
    from zyx.lowering.tree import Item
    from zyx.lowering.unswitching import Case
    from zyx.nest.data import Nest, Statement
    from zyx.nest.expr import Expr, Param, Range

#: Expressions in the body of a loop that branches with bodies of their own are written for, at most.
_LARGEST_BODY: Final = 512


def lower(nest: Nest, name: str, *, with_ends: bool = True) -> Kernel:
    """Return the kernel of one nest; its params are the nest's, see `params_of`, and `with_ends` as below.

    Raises:
        ScheduleError: The kinds of the ranges do not go together.
    """
    return lower_together([nest], name, with_ends=with_ends)


def lower_together(nests: Sequence[Nest], name: str, *, with_ends: bool = True) -> Kernel:
    """Return one kernel that runs independent nests side by side: its groups are those of all of them.

    Its params are those of the nests, see `params_of`. `with_ends` says that its loops may have ends.

    Raises:
        ScheduleError: The kinds of the ranges do not go together.
    """
    for nest in nests:
        check_kinds(nest)
    nests, threads = _with_equal_groups(nests)
    builder = ScopedBuilder()
    params = {param: builder.param(_param(param)) for param in params_of(nests)}
    index = dtypes.int64  # `narrow_indices` makes int32 of what fits
    if len(nests) == 1:
        _NestWriter(nests[0], builder, params, index, with_ends=with_ends).write()
        return builder.finish(name)
    counts = [math.prod([range_.size for range_ in nest.grid]) for nest in nests]
    total = builder.add(k.Index(k.Axis.GROUP, 0, sum(counts), Type(index)))
    thread = builder.add(k.Index(k.Axis.LOCAL, 0, threads, Type(index))) if threads else None
    start = 0
    for nest, count in zip(nests, counts, strict=True):
        writer = _NestWriter(nest, builder, params, index, with_ends=with_ends)
        first = builder.add(k.Const(start, Type(index)), 0)
        last = builder.add(k.Const(start + count - 1, Type(index)), 0)
        above = builder.add(k.Binary(BinaryOp.LE, first, total, Type(dtypes.bool_)))
        below = builder.add(k.Binary(BinaryOp.LE, total, last, Type(dtypes.bool_)))
        builder.open(k.If(builder.add(k.Binary(BinaryOp.AND, above, below, Type(dtypes.bool_)))))
        group = builder.add(k.Binary(BinaryOp.SUB, total, first, Type(index)))
        if thread is not None and not thread_axes(nest):  # work for one thread
            zero = builder.add(k.Const(0, Type(index)), 0)
            builder.open(k.If(builder.add(k.Binary(BinaryOp.EQ, thread, zero, Type(dtypes.bool_)))))
            writer.write(group)
            builder.close()
        else:
            writer.write(group, thread)
        builder.close()
        start += count
    return builder.finish(name)


def _param(param: Param) -> k.Define | k.Variable:
    if param.by_value:
        return k.Variable(Type(param.dtype), f"n{param.number}")
    return k.Define(k.Memory.GLOBAL, param.dtype, param.length, param.mutable, is_front=param.is_front)


def _with_equal_groups(nests: Sequence[Nest]) -> tuple[Sequence[Nest], int]:
    """Pad nests to the same number of threads a group, and return that number with them; 0 without threads.

    Ranges along the slowest axis of a nest are padded if it has fewer threads than another.
    """
    axes = [thread_axes(nest) for nest in nests]
    if len(nests) == 1 or not any(axes):
        return nests, 0
    beside = [math.prod(axis[0].size for axis in found[:-1]) for found in axes]  # threads of a point of that axis
    most = max(size * found[-1][0].size for size, found in zip(beside, axes, strict=True) if found)
    step = math.lcm(*beside)
    threads = -(-most // step) * step
    padded = []
    for nest, size, found in zip(nests, beside, axes, strict=True):
        for axis in found[-1:]:
            for range_ in axis:
                nest = pad_range(nest, range_, threads // size)
        padded.append(nest)
    return padded, threads


class _NestWriter:
    """Writes one nest into a builder."""

    def __init__(
        self, nest: Nest, builder: ScopedBuilder, params: Mapping[Param, ValueId], index: DType, *, with_ends: bool
    ) -> None:
        self._nest = nest
        self._with_ends = with_ends
        self._around = sum(range_.bit for range_ in nest.grid)  # what is known in the loop that is being written
        self._builder = builder
        self._index = index
        self._tree = build_tree(nest)
        self._emitter = Emitter(nest.pool, builder, params, index)
        self._writer = LoweringState(nest, self._tree, place_values(nest, self._tree), self._emitter, params)
        self._statements = StatementWriter(self._writer)

    def write(self, group: ValueId | None = None, thread: ValueId | None = None) -> None:
        """Write the nest; `group` and `thread` are positions in a grid that it shares, None for one of its own."""
        grid = self._nest.grid
        self._bind_grid(k.Axis.GROUP, [(range_,) for range_ in reversed(grid)], group)
        self._bind_grid(k.Axis.LOCAL, self._writer.thread_axes, thread)
        self._guarded([range_ for range_ in grid if range_ in self._nest.peeled and range_.size > 1], {})

    def _bind_grid(self, scope: k.Axis, axes: Sequence[Axis], position: ValueId | None) -> None:
        """Let the ranges along each axis, the fastest axis first, be a part of the grid's position."""
        type_ = Type(self._index)
        if position is None and len(axes) <= MAX_AXES:
            for number, axis in enumerate(axes):
                self._bind(axis, self._builder.add(k.Index(scope, number, axis[0].size, type_)))
            return
        if position is None:
            position = self._builder.add(k.Index(scope, 0, math.prod([axis[0].size for axis in axes]), type_))
        for number, axis in enumerate(axes):
            if number == len(axes) - 1:
                self._bind(axis, position)
                break
            size = self._builder.add(k.Const(axis[0].size, type_))
            self._bind(axis, self._builder.add(k.Binary(BinaryOp.MOD, position, size, type_)))
            position = self._builder.add(k.Binary(BinaryOp.DIV, position, size, type_))

    def _bind(self, ranges: Axis, value: ValueId) -> None:
        for range_ in ranges:
            self._emitter.bind(range_, value)

    def _guarded(self, peeled: list[Range], env: dict[Range, Expr]) -> None:
        """Write the body once for the last point of each peeled grid range, and once for the others."""
        if not peeled:
            self._writer.base_depth = self._builder.floor = self._builder.depth
            self._items(self._tree.body, env)
            self._builder.floor = 0
            return
        range_, *others = peeled
        if not self._is_tested(range_, self._nest.statements, env):
            self._guarded(others, env)
            return
        pool = self._nest.pool
        value = self._emitter.emit(pool.ref(range_))
        bool_ = Type(dtypes.bool_)
        last = self._emitter.constant(range_.size - 1, pool.ref(range_).dtype)
        is_last = self._builder.add(k.Binary(BinaryOp.EQ, value, last, bool_))
        is_other = self._builder.add(k.Binary(BinaryOp.NE, value, last, bool_))
        self._builder.open(k.If(is_other))
        inner = pool.range(range_.size - 1)
        if inner.size > 1:
            # A copy of the value that belongs to this region: what relies on the smaller range must not leave it.
            zero = self._builder.add(k.Const(0, Type(self._index)), self._builder.depth)
            copy = self._builder.add(k.Binary(BinaryOp.ADD, value, zero, Type(self._index)))
            self._emitter.bind(inner, copy)
        self._guarded(others, {**env, range_: pool.ref(inner)})
        self._builder.close()
        self._builder.open(k.If(is_last))
        self._guarded(others, {**env, range_: pool.index(range_.size - 1)})
        self._builder.close()

    def _is_tested(self, range_: Range, statements: Iterable[Statement], env: Mapping[Range, Expr]) -> bool:
        """Whether masks depend on a peeled range still, at the points that `env` has for others that are peeled."""
        if not env:
            return True
        roots = [root for statement in statements for root in roots_of(statement)]
        found = below(*self._nest.pool.substitute(roots, env))
        return any(isinstance(expr, e.NonNegative | e.IsZero) and expr.free & range_.bit for expr in found)

    def _items(self, items: Sequence[Item], env: dict[Range, Expr]) -> None:
        for item in items:
            if isinstance(item, RangeLoop):
                self._loop(item, env)
            else:
                self._statements.write(item, env)

    def _loop(self, loop: RangeLoop, env: dict[Range, Expr]) -> None:
        self._statements.before(loop, env)
        range_ = loop.range
        pool = self._nest.pool
        end = end_of(pool, self._tree, loop, env, ~self._around) if self._with_ends and range_.size > 1 else None
        if range_.size == 1:
            self._body(loop, env)
        elif loop in self._writer.blocks.lengths:
            self._blocks(loop, self._writer.blocks.lengths[loop], env, end)
        elif range_ in self._nest.peeled and self._is_tested(range_, statements_in(loop), env):
            for first, count in self._stretches(loop, range_.size - 1, env) or [(0, range_.size - 1)]:
                self._points(loop, pool.index(first), count, env, end)
            self._body(loop, {**env, range_: pool.index(range_.size - 1)})
        elif stretches := self._stretches(loop, range_.size, env):
            for first, count in stretches:
                self._points(loop, pool.index(first), count, env, end)
        else:
            self._open(range_, range_.size, end and end.at)
            self._body(loop, env, end)
            self._close(range_)
        self._statements.after(loop, env)

    def _open(self, range_: Range, count: int, end: Expr | None = None) -> None:
        """Open a loop, over so many points, that binds a range."""
        last = None if end is None else self._emitter.emit(end)
        self._emitter.bind(range_, self._builder.open(k.Loop(count, Type(self._index), last)))
        self._around |= range_.bit

    def _close(self, range_: Range) -> None:
        self._builder.close()
        self._around &= ~range_.bit

    def _stretches(self, loop: RangeLoop, points: int, env: dict[Range, Expr]) -> list[tuple[int, int]]:
        """Return stretches (first, count) of an innermost loop in which masks hold or fail as a whole, and the rest.

        Empty if masks depend on more than the loop: its body has branches then, if that pays.
        """
        own = ((self._nest.pool.ref(loop.range), 1),)
        found = [stretch for case in self._cases(loop, env, of_lanes=False) for stretch in case.stretches]
        if any(position != own for position, _, _ in found):
            return []
        edges = {0, points}
        for _, first, last in found:
            edges.update((min(first, points), min(last + 1, points)))
        return [(first, stop - first) for first, stop in itertools.pairwise(sorted(edges))] if len(edges) > 2 else []

    def _blocks(self, loop: RangeLoop, length: int, env: dict[Range, Expr], end: End | None) -> None:
        """Write a loop block by block; what is left over is the last block, with the point that is written apart."""
        pool = self._nest.pool
        is_peeled = self._writer.blocks.is_peeled(loop)
        count, rest = divmod(loop.range.size - is_peeled, length)
        if count:
            block = pool.range(count)
            if count > 1:
                self._open(block, count, end and pool.divide(pool.shift(end.at, length - 1), length))
            number = pool.ref(block)
            self._statements.before_block(loop, env)
            self._points(loop, pool.scale(number, length), length, env, end)
            self._statements.after_block(loop, number, env)
            if count > 1:
                self._close(block)
        if rest or is_peeled:
            self._statements.before_block(loop, env)
            if rest:
                self._points(loop, pool.index(count * length), rest, env, end)
            if is_peeled:
                self._body(loop, {**env, loop.range: pool.index(loop.range.size - 1)})
            self._statements.after_block(loop, pool.index(count), env)

    def _points(self, loop: RangeLoop, first: Expr, count: int, env: dict[Range, Expr], end: End | None) -> None:
        """Write `count` points of a loop from `first` on.

        Also as a loop if there is one: what it loads of arrays is not what is there at the next point.
        """
        pool = self._nest.pool
        inner = pool.range(count)
        self._open(inner, count, end and pool.affine([(end.at, 1), (first, -1)]))
        self._body(loop, {**env, loop.range: pool.add(first, pool.ref(inner))}, end)
        self._close(inner)

    def _body(self, loop: RangeLoop, env: dict[Range, Expr], end: End | None = None) -> None:
        self._writer.loop_depths[loop] = self._builder.depth
        known = self._writer.known
        if end is not None and end.known:
            self._writer.known = known.union(self._nest.pool.substitute([*end.known], env))
        cases = self._cases(loop, env)
        bool_ = Type(dtypes.bool_)
        others: ValueId | None = None
        for case in cases:
            allowed = self._holds(case)
            self._branch(allowed, loop, env, case)
            is_other = self._builder.add(k.Unary(UnaryOp.NOT, allowed, bool_))
            others = is_other if others is None else self._builder.add(k.Binary(BinaryOp.AND, others, is_other, bool_))
        if others is None:
            self._items(loop.body, env)
        else:
            self._branch(others, loop, env, None)
        del self._writer.loop_depths[loop]
        self._writer.known = known

    def _branch(self, condition: ValueId, loop: RangeLoop, env: dict[Range, Expr], case: Case | None) -> None:
        """Write the body of a loop once more, for where `condition` holds."""
        self._builder.open(k.If(condition))
        self._builder.load_floor, self._writer.case = self._builder.depth, case
        self._items(loop.body, env)
        self._builder.load_floor, self._writer.case = 0, None
        self._emitter.forget_blocks()
        self._builder.close()

    def _cases(self, loop: RangeLoop, env: dict[Range, Expr], *, of_lanes: bool = True) -> list[Case]:
        """Return the cases that the body of a loop is written apart for; only if masks differ `of_lanes`, if so."""
        statements = [item for item in loop.body if not isinstance(item, RangeLoop)]
        kinds = self._nest.kind
        ranges = [r for s in statements for r in s.order if kinds(r) in (Kind.VECTOR, Kind.UNROLL, Kind.REPEAT)]
        is_vector = any(kinds(range_) is Kind.VECTOR for range_ in ranges)
        if len(statements) < len(loop.body) or not is_vector or self._writer.thread_axes:
            return []
        size = 0
        for statement in statements:
            points = math.prod(range_.size for range_ in self._writer.unrolled(statement))
            size += points * len(expressions_of(statement))
        if size > _LARGEST_BODY:
            return []
        pool = self._nest.pool
        roots = [root for s in statements for root in self._writer.assume(pool.substitute(roots_of(s), env))]
        written_out = functools.reduce(operator.or_, (range_.bit for range_ in ranges))
        return unswitched_cases(pool, roots, written_out, of_lanes=of_lanes)

    def _holds(self, case: Case) -> ValueId:
        """Return whether a case holds here."""
        pool, bool_ = self._nest.pool, Type(dtypes.bool_)
        tests = [self._emitter.emit(pool.true)]
        for position, first, last in case.stretches:
            whole = pool.affine(position)
            at = self._emitter.emit(whole)
            if first > whole.low:
                tests.append(
                    self._builder.add(k.Binary(BinaryOp.LE, self._emitter.constant(first, e.INDEX), at, bool_))
                )
            if last < whole.high:
                tests.append(self._builder.add(k.Binary(BinaryOp.LE, at, self._emitter.constant(last, e.INDEX), bool_)))
        return functools.reduce(lambda x, y: self._builder.add(k.Binary(BinaryOp.AND, x, y, bool_)), tests)
