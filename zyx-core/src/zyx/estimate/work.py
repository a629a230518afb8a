"""How many instructions a nest takes, by kind: each expression as often as the loops run that it depends on.

An expression is computed in the outermost loop where all that it depends on is known, so ``x * scale[r0]`` in a loop
over r1 loads `scale` once for each r0. Along a vector range it is one instruction for all lanes, if it depends on that
range, and a single scalar if it does not. What reads or stores lanes that do not lie side by side takes one access a
lane.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.dtype import accumulator
from zyx.estimate.layout import WRITTEN_OUT, position_in
from zyx.lowering.emit import LONGEST_STEP
from zyx.lowering.storage import InArray
from zyx.nest import expr as e
from zyx.nest.accesses import combined_ranges, stride_along
from zyx.nest.data import Compute, Kind, Scan, Store
from zyx.nest.lane_sums import written_out_group
from zyx.ops import TRANSCENDENTAL, BinaryOp, ReduceOp, UnaryOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.dtype import DType
    from zyx.estimate.layout import ScheduledNest
    from zyx.nest.data import Statement
    from zyx.nest.expr import Expr, Range

_SLOW: Final = frozenset({UnaryOp.SQRT, UnaryOp.RECIPROCAL, BinaryOp.DIV, BinaryOp.MOD})

#: The kinds of instructions that are counted; see `Work`.
KINDS: Final = (
    "vector", "scalar", "fused", "division", "transcendental", "load", "store", "lane", "address", "mask", "turn",
    "swap", "atomic", "product",
)  # fmt: skip

#: Updates of accumulators that a processor looks ahead: about 500 instructions, 8 for each.
_AHEAD: Final = 64


@dataclass(frozen=True, slots=True)
class Work:
    """The instructions of all threads together.

    Attributes:
        instructions: By kind. ``vector``, ``scalar``: simple operations on vectors and on single values; ``fused``:
            multiply-adds on vectors, or by threads; ``division``: also roots and remainders; ``transcendental``:
            functions, and powers; ``load``, ``store``: of single values, and of vectors that lie side by side;
            ``lane``: accesses of single lanes of vectors; ``address``: quotients and remainders of positions; ``mask``:
            tests of positions; ``turn``: turns of loops; ``swap``: values from other threads; ``atomic``; ``product``:
            multiply-adds of tensor cores. Of vectors that are longer than those of the device, each part counts; so do
            values of 8 bytes as two of 4.
        chain: Updates of accumulators that wait for each other, of all threads.
        live: Registers that the accumulators of a thread take, of the statement that has most.
        barriers: Meetings of the threads of a group.
    """

    instructions: dict[str, float]
    chain: float
    live: int
    barriers: float


def work_of(layout: ScheduledNest, info: DeviceInfo) -> Work:
    """Count the instructions of a nest."""
    counting = _Counting(layout, info)
    for statement in layout.nest.statements:
        counting.statement(statement)
    counting.loops()
    return Work(dict(counting.total), counting.chain, counting.live, counting.barriers)


class _Counting:
    def __init__(self, layout: ScheduledNest, info: DeviceInfo) -> None:
        self.total: defaultdict[str, float] = defaultdict(float)
        self.chain = 0.0
        self.live = 0
        self.barriers = 0.0
        self._layout = layout
        self._info = info
        self._group: Range | None = None
        self._grid = float(layout.group_count * layout.threads)

    def statement(self, statement: Statement) -> None:
        """Count a statement's expressions and what becomes of its value."""
        if isinstance(statement, Compute) and statement.matrix is not None:
            points = math.prod(range_.size for range_ in statement.order)
            self.total["product"] += points
            self.total["load"] += 2 * points / 32
            return
        vector = self._layout.vectors[statement]
        self._group = written_out_group(self._layout.nest, statement)
        fused = _fused(statement, self._layout.expressions[statement])
        for expr in self._layout.expressions[statement]:
            if (expr.free and expr not in fused) or isinstance(expr, e.Read | e.Ref):
                self._expression(statement, expr, vector)
        self._result(statement, vector)

    def loops(self) -> None:
        """Count the turns of all loops."""
        seen = set()
        for path in self._layout.tree.paths.values():
            turns = self._grid
            for loop in path:
                turns *= loop.range.size
                if loop not in seen:
                    seen.add(loop)
                    self.total["turn"] += turns

    # ---- one expression

    def _runs(self, statement: Statement, free: int) -> float:
        """Return how often something is computed that depends on so many ranges of a statement, lanes aside."""
        runs, outside = self._grid, 1.0
        for range_ in self._layout.loops[statement]:
            outside *= range_.size
            if free & range_.bit:
                runs *= outside
                outside = 1.0
        for range_ in statement.order:
            is_written_out = self._layout.nest.kind(range_) in (Kind.UNROLL, Kind.REPEAT) and range_ is not self._group
            if free & range_.bit and is_written_out:
                runs *= range_.size
        return runs

    def _parts(self, dtype: DType, lanes: int) -> float:
        """Return how many instructions an operation on so many lanes takes."""
        if dtype is e.INDEX or dtype.is_bool:
            return 1.0
        itemsize = max(dtype.itemsize, 4 if accumulator(dtype).itemsize >= 4 and dtype.is_float else 1)
        if self._info.max_group_threads > 1 or not self._info.vector_bytes:
            return lanes * max(1.0, itemsize / 4)
        return max(1.0, lanes * itemsize / self._info.vector_bytes)

    def _expression(self, statement: Statement, expr: Expr, vector: Range | None) -> None:
        runs = self._runs(statement, expr.free)
        is_vector = vector is not None and bool(expr.free & vector.bit)
        lanes = vector.size if vector is not None and is_vector else 1
        parts = self._parts(expr.dtype, lanes)
        match expr:
            case e.Quotient() | e.Remainder():
                self.total["address"] += runs * lanes
            case e.NonNegative() | e.IsZero():
                last = [range_.size for range_ in self._layout.nest.peeled if expr.free & range_.bit]
                # In the last point only; and of a vector the positions of all lanes are computed first.
                self.total["mask"] += runs / max(last, default=1) * (2 if is_vector else 1)
            case e.Read(index=index):
                width = self._parts(expr.dtype, lanes) if expr.dtype.itemsize >= 4 else max(1.0, lanes / 16)
                self._access("load", statement, index, vector if is_vector else None, runs, width)
            case e.Ref():
                place = self._layout.storage[expr.value]
                if isinstance(place, InArray):
                    index = position_in(self._layout, place, dict(zip(expr.value.ranges, expr.indices, strict=True)))
                    self._access("load", statement, index, vector if is_vector else None, runs, parts)
            case e.Apply1(op=op):
                self._operation(op, expr.dtype, runs, parts, is_vector=is_vector)
            case e.Apply2(op=op, x=x):
                self._operation(op, x.dtype, runs, self._parts(x.dtype, lanes), is_vector=is_vector)
            case e.Select() | e.Convert() | e.Reinterpret() if expr.dtype is not e.INDEX:
                self.total["vector" if is_vector else "scalar"] += runs * parts
            case _:
                pass  # sums of positions are part of addresses, or stay from turn to turn

    def _operation(self, op: UnaryOp | BinaryOp, dtype: DType, runs: float, parts: float, *, is_vector: bool) -> None:
        capability = self._info.capabilities.get(dtype)
        native = capability is not None and (op in capability.unary or op in capability.binary)
        if op in TRANSCENDENTAL or op is BinaryOp.POW:
            amount = 2.0 if op is BinaryOp.POW else 1.0
            self.total["transcendental"] += runs * parts * amount
        elif op in _SLOW:
            self.total["division"] += runs * parts * (1.0 if native else 2.0)
        else:
            self.total["vector" if is_vector else "scalar"] += runs * parts

    def _access(
        self, kind: str, statement: Statement, index: Expr, vector: Range | None, runs: float, parts: float
    ) -> None:
        """Count an access by its step from lane to lane."""
        step = 0 if vector is None else stride_along(index, vector)
        if vector is None or step == 0:
            self.total[kind] += runs
        elif step == 1 or (self._group is not None and step == self._group.size):
            self.total[kind] += runs * parts
        elif step is not None and self._is_turned(statement, index, vector):
            self.total[kind] += runs * parts
            self.total["vector"] += runs * parts * math.log2(vector.size)
        elif step is not None and abs(step) <= LONGEST_STEP < vector.size and kind == "load":
            self.total[kind] += runs * parts * abs(step)
            self.total["vector"] += runs * parts * abs(step)
        else:
            self.total["lane"] += runs * vector.size

    def _is_turned(self, statement: Statement, index: Expr, vector: Range) -> bool:
        """Whether blocks of lanes are loaded along another range that is written out, and turned over."""
        return any(
            range_.size == vector.size
            and self._layout.nest.kind(range_) in (Kind.UNROLL, Kind.REPEAT)
            and stride_along(index, range_) == 1
            for range_ in statement.order
        )

    # ---- what becomes of a value

    def _result(self, statement: Statement, vector: Range | None) -> None:
        every = 0
        for range_ in statement.order:
            every |= range_.bit
        runs = self._runs(statement, every)
        lanes = 1 if vector is None else vector.size
        if isinstance(statement, Store):
            parts = self._parts(statement.param.dtype, lanes)
            if statement.atomic:
                self.total["atomic"] += runs * lanes
            elif statement.combine is not None and statement.serial:
                self.total["lane"] += 2 * runs * lanes
                self.total["scalar"] += runs * lanes
                self.chain += runs * lanes
            else:
                self._access("store", statement, statement.index, vector, runs, parts)
                self.total["load"] += runs * parts if statement.combine is not None else 0
            return
        parts = self._parts(statement.value.dtype, lanes)
        in_array = isinstance(self._layout.storage[statement.value], InArray)
        if statement.op is None:
            self.total["store"] += runs * parts if in_array else 0
            return
        is_fused = isinstance(statement, Compute) and statement.op is ReduceOp.SUM and _is_product(statement.expr)
        is_fast = vector is not None or self._info.max_group_threads > 1
        kind = "vector" if vector is not None else "scalar"
        self.total["fused" if is_fused and is_fast else kind] += runs * parts
        self._combination(statement, vector, runs, parts, in_array=in_array)

    def _combination(
        self, statement: Compute | Scan, vector: Range | None, runs: float, parts: float, *, in_array: bool
    ) -> None:
        nest = self._layout.nest
        combined = combined_ranges(statement)
        kept = [r for r in statement.order if nest.kind(r) in WRITTEN_OUT and r is not vector]
        own = math.prod(r.size for r in kept if r not in combined or nest.kind(r) is Kind.UNROLL)
        if isinstance(statement, Scan):
            own = math.prod(r.size for r in kept if r not in combined)
            along = vector.size if vector is not None and vector in combined else 1
            self.total["vector" if along > 1 else "scalar"] += runs * along
            self.chain += runs * along / max(1, own)
        else:
            self.chain += runs / max(1, own) * self._waiting(statement, combined)
            self.live = max(self.live, math.ceil(own * parts))
        inside = self._layout.loops[statement]
        last = max((n for n, r in enumerate(inside) if r in combined), default=-1)
        first = min((n for n, r in enumerate(inside) if r in combined), default=0)
        if in_array and any(r not in combined for r in inside[first : last + 1] + inside[last + 1 :]):
            self.total["load"] += runs * parts  # the accumulators are an array
            self.total["store"] += runs * parts
        local = [r for r in combined if nest.kind(r) is Kind.LOCAL]
        if local:
            threads = math.prod(range_.size for range_ in local)
            ends = runs / math.prod(r.size for r in (*inside, *kept) if r in combined)
            if any(r in nest.swapping for r in local):
                self.total["swap"] += ends * math.log2(max(2, threads))
            else:
                self.barriers += ends / self._layout.threads * (1 + math.log2(max(2, threads)))

    def _waiting(self, statement: Compute | Scan, combined: Sequence[Range]) -> float:
        """Return the part of the updates that wait for each other: results after short sums are begun meanwhile."""
        if self._layout.threads > 1:
            return 1.0
        one_by_one = [r for r in combined if self._layout.nest.kind(r) in (Kind.LOOP, Kind.REPEAT)]
        return min(1.0, math.prod(range_.size for range_ in one_by_one) / _AHEAD)


def _fused(statement: Statement, expressions: list[Expr]) -> set[Expr]:
    """Return the products that are one instruction with the sum that they are a term of."""
    sums = [statement.expr] if isinstance(statement, Compute) and statement.op is ReduceOp.SUM else []
    for expr in expressions:
        if isinstance(expr, e.Apply2) and expr.op in (BinaryOp.ADD, BinaryOp.SUB):
            sums.append(expr.y if _is_product(expr.y) else expr.x)
    return {expr for expr in sums if _is_product(expr)}


def _is_product(expr: Expr) -> bool:
    return isinstance(expr, e.Apply2) and expr.op is BinaryOp.MUL and expr.dtype.is_float
