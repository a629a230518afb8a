"""Schedules for products of matrices on machines with many threads: a tile of results in the registers of each thread.

    c[i, j] = sum(k) of a[i, k] * b[k, j]

A group has a block of results. All its threads copy what the block needs of both factors for some steps of the sum to
local memory; then each loads a few rows and columns of them, and multiplies every one with every other. Meanwhile
`zyx.passes.copy_ahead` has them load the next part.

    i = groups, parts written out, warps, 4 threads of a warp, 4 written out
    j = groups, parts written out, warps, 8 threads of a warp, vectors of 4
    k = loop, 8, 2 written out

So the threads of a warp load vectors that lie side by side, or the same ones. Copies are laid out for that:

    of b[k, j]    k, parts, warps, threads, vector         of a[i, k]    k.1, parts, warps, k.0, threads, vector

The second is turned over on the way: a thread loads all k.1 from 4 rows, and stores 4 rows of each k.1. Neighbouring
threads store neighbouring vectors.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.ir.nest import Kind
from zyx.schedule.accesses import stride_along
from zyx.schedule.heuristics.products import merge, stage_factor
from zyx.schedule.heuristics.vectors import lanes_of
from zyx.schedule.moves import Split
from zyx.schedule.moves.values import conversion_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.ir import expr as e
    from zyx.ir.expr import Range
    from zyx.ir.nest import Nest
    from zyx.schedule.contraction import Contraction
    from zyx.schedule.heuristics.plan import Plan

#: Threads of a warp along the rows and the columns of its results.
_WARP: Final = (4, 8)
#: Fewest threads that run in step for which local memory is as fast as these schedules need it.
_LEAST_WARP: Final = 16
#: Points of the sum that are copied at a time, and those that a thread turns over.
_DEPTHS: Final = (16, 8, 32, 64)
_TURNED: Final = 2
#: Most multiplications that are written out, and fewest in all that are worth it.
_WRITTEN_OUT: Final = 1 << 10
_SMALL: Final = 1 << 22
_MOST_LANES: Final = 4
_MOST_THREADS: Final = 256
#: Registers of a thread beside results, factors, and what it copies; and what compilers take for addresses.
_OTHER_REGISTERS: Final = 24
_ADDRESS_REGISTERS: Final = 24
#: Registers of all threads of a processor, and its local memory relative to that of a group.
_ALL_REGISTERS: Final = 1 << 16
_ALL_LOCAL: Final = 4
#: What it costs to load a factor from local memory, and to copy an element there, relative to a multiplication.
_LOAD_COST: Final = 2.0
_COPY_COST: Final = 16.0
#: Cycles until memory answers, and multiplications of a processor in a cycle: a group waits where the other groups that
#: have room beside it do not compute for so long. With the costs above, they rank blocks as their times were on a card.
_LATENCY: Final = 400
_MULTIPLICATIONS: Final = 128
#: Threads that keep a processor busy, by tiles and where each has a result; and what a multiplication costs there.
_BUSY: Final = 128
_BUSY_ALONE: Final = 1024
COST_ALONE: Final = 18.0


@dataclass(frozen=True, slots=True)
class _Product:
    """A product of matrices in a nest.

    Attributes:
        value: Label of the sum.
        sides: Rows and columns.
        reads: Their factors.
        itemsizes: Bytes of an element of each, as it is copied.
        depth: What is summed up in steps.
        others: Other ranges of the results, and of the sum.
        lanes: Of vectors.
    """

    value: str
    sides: tuple[Range, Range]
    reads: tuple[e.Read, e.Read]
    itemsizes: tuple[int, int]
    depth: Range
    others: tuple[Sequence[Range], Sequence[Range]]
    lanes: int

    def is_turned(self, number: int) -> bool:
        """Whether the factor of a side lies side by side along the sum."""
        index = self.reads[number].index
        return stride_along(index, self.depth) == 1 and stride_along(index, self.sides[number]) != 1


@dataclass(frozen=True, slots=True)
class _Block:
    """The results of a group: parts of a thread, and warps, along rows and columns; and steps copied at a time."""

    parts: tuple[int, int]
    warps: tuple[int, int]
    depth: int

    @property
    def threads(self) -> int:
        """Threads of the group."""
        return math.prod(_WARP) * math.prod(self.warps)

    def size(self, number: int, lanes: int) -> int:
        """Return its rows, or its columns."""
        return self.parts[number] * self.warps[number] * _WARP[number] * lanes

    def vectors(self, number: int, lanes: int, *, is_turned: bool) -> int:
        """Return how many vectors are copied for a side; of what is turned over, several are one."""
        return self.size(number, lanes) // lanes * self.depth // (_TURNED if is_turned else 1)


def schedule_register_tiles(plan: Plan, found: Contraction, info: DeviceInfo, below: float = math.inf) -> bool:
    """Schedule the nest of `plan`, whose sum of products is `found`, if tiles of it pay, and cost less than `below`.

    Returns:
        Whether they do; if not, the plan is as it was.
    """
    product = _product(plan.nest, found, info)
    block = None if product is None else _choose_block(product, info, below)
    if product is None or block is None:
        return False
    sides = [_split_side(plan, product, block, number) for number in range(2)]
    loop, steps = plan.split(product.depth, block.depth)  # what is past the end adds nothing, and is not written out
    turned = any(product.is_turned(number) for number in range(2))
    depth = _split(plan, steps, _TURNED) if turned else (steps,)
    kept, reduced = product.others
    for range_ in kept:
        plan.mark(range_, Kind.GROUP)
    (rows, *of_rows), (columns, *of_columns) = sides
    written_out = [*depth, of_rows[0], of_rows[-1], of_columns[0]]
    threads = [of_rows[1], of_columns[1], of_rows[2], of_columns[2]]
    plan.order([*kept, rows, columns, *reduced, loop, *written_out, *threads, of_columns[-1]])
    for number, side in enumerate((of_rows, of_columns)):
        _copy(plan, product, number, side, depth, block)
    for range_ in depth:
        plan.mark(range_, Kind.REPEAT)
    return True


# ---- what there is


def _product(nest: Nest, found: Contraction, info: DeviceInfo) -> _Product | None:
    """Return the product of matrices that a nest computes, with what becomes of each result, if it is one."""
    statement, reads = found.statement, found.reads
    lanes = min(_MOST_LANES, *(lanes_of(other, info) for other in nest.statements))
    if not found.is_by_results or len(reads) != 2 or lanes < 2 or info.warp_size < _LEAST_WARP:
        return None
    if not found.is_native(info):
        return None  # a multiplication is many operations: too many to write them out
    matrices = found.matrices(*reads)
    if matrices is None:
        return None
    left, right = matrices.reads
    itemsizes = (conversion_of(statement, left).dtype.itemsize, conversion_of(statement, right).dtype.itemsize)
    return _Product(
        repr(statement.value), matrices.sides, matrices.reads, itemsizes, matrices.depth, matrices.others, lanes
    )


# ---- how large


def _choose_block(product: _Product, info: DeviceInfo, below: float) -> _Block | None:
    """Return the block that costs least, by a rough count; None if it costs no less than `below`, or none fits.

    Neither if one thread a result costs less.
    """
    results = math.prod(r.size for r in (*product.sides, *product.others[0]))
    if results * product.depth.size * math.prod(r.size for r in product.others[1]) < _SMALL:
        return None
    costs = {block: _cost(product, block, info) for block in _blocks() if _fits(product, block, info)}
    alone = COST_ALONE / min(1.0, results / (info.units * _BUSY_ALONE))
    best = min(costs, key=lambda block: costs[block], default=None)
    return best if best is not None and costs[best] < min(alone, below) else None


def _blocks() -> Iterator[_Block]:
    sizes = (1, 2, 4)
    for depth, *parts, down, across in itertools.product(_DEPTHS, (1, 2), (1, 2), sizes, sizes):
        yield _Block((parts[0], parts[1]), (down, across), depth)


def _fits(product: _Product, block: _Block, info: DeviceInfo) -> bool:
    lanes, threads = product.lanes, block.threads
    shape = (_WARP[1], _WARP[0], *(count for count in block.warps if count > 1))
    shape = shape if len(shape) <= len(info.max_group_shape) else (threads,)
    return (
        threads <= min(_MOST_THREADS, info.max_group_threads)
        and all(size <= most for size, most in zip(shape, info.max_group_shape, strict=False))
        and 2 * _copied_bytes(product, block) <= info.local_bytes
        and math.prod(block.parts) * lanes**2 * block.depth <= _WRITTEN_OUT
        and _registers(product, block) <= info.registers
        and all(block.vectors(i, lanes, is_turned=product.is_turned(i)) % threads == 0 for i in range(2))
    )


def _registers(product: _Product, block: _Block) -> int:
    """Return the registers that a thread needs: results, a row and a column of factors, and what it copies."""
    lanes = product.lanes
    results, factors = (function(parts * lanes for parts in block.parts) for function in (math.prod, sum))
    words = max(4, *product.itemsizes) // 4
    return (results + factors) * words + _copied_bytes(product, block) // (4 * block.threads) + _OTHER_REGISTERS


def _copied_bytes(product: _Product, block: _Block) -> int:
    """Return the bytes that are copied at a time."""
    return sum(block.size(i, product.lanes) * block.depth * product.itemsizes[i] for i in range(2))


def _room(product: _Product, block: _Block, info: DeviceInfo) -> int:
    """Return how many groups one processor has registers and memory for."""
    registers = (_registers(product, block) + _ADDRESS_REGISTERS) * block.threads
    return max(
        1, min(_ALL_REGISTERS // registers, _ALL_LOCAL * info.local_bytes // (2 * _copied_bytes(product, block)))
    )


def _cost(product: _Product, block: _Block, info: DeviceInfo) -> float:
    """Return the cost of a multiplication, relative to that of the instruction for it on a busy device."""
    groups = math.prod(range_.size for range_ in product.others[0])
    waste = -(-product.depth.size // block.depth) * block.depth / product.depth.size
    step = block.depth / _MULTIPLICATIONS
    copying = loading = 0.0
    for number, side in enumerate(product.sides):
        size = block.size(number, product.lanes)
        count = -(-side.size // size)
        groups *= count
        waste *= count * size / side.size
        step *= size
        copying += _COPY_COST / size
        loading += _LOAD_COST / (block.parts[number] * product.lanes)
    rounds = -(-groups // info.units)
    busy = groups / (rounds * info.units) * min(1.0, rounds * block.threads / _BUSY)
    waiting = _LATENCY / (step * min(rounds, _room(product, block, info)) ** 2)
    return waste * (1 + copying + loading) * (1 + waiting) / busy


# ---- how


def _split_side(plan: Plan, product: _Product, block: _Block, number: int) -> list[Range]:
    """Return what becomes of the rows, or of the columns: groups, parts, warps, threads of a warp, neighbours."""
    lanes, threads = product.lanes, _WARP[number]
    group, rest = _split(plan, product.sides[number], block.size(number, lanes))
    part, rest = _split(plan, rest, block.warps[number] * threads * lanes)
    warp, rest = _split(plan, rest, threads * lanes)
    thread, neighbours = _split(plan, rest, lanes)
    kinds = (Kind.GROUP, Kind.UNROLL, Kind.LOCAL if warp.size > 1 else Kind.UNROLL, Kind.LOCAL)
    ranges = [group, part, warp, thread, neighbours]
    for range_, kind in zip(ranges, (*kinds, Kind.VECTOR if number else Kind.UNROLL), strict=True):
        plan.mark(range_, kind)
    return ranges


def _split(plan: Plan, range_: Range, factor: int) -> tuple[Range, Range]:
    """Split a range; what is past the end is masked off, where copies are made and results stored."""
    plan.do(Split(range_.label, factor))
    return plan.range(f"{range_.label}.0"), plan.range(f"{range_.label}.1")


def _copy(
    plan: Plan, product: _Product, number: int, side: Sequence[Range], depth: Sequence[Range], block: _Block
) -> None:
    """Let the threads of a group copy what they need of the rows' factor, or of the columns'."""
    part, warp, thread, neighbours = side
    is_turned = product.is_turned(number)
    if is_turned:
        tile = [depth[1], part, warp, depth[0], thread, neighbours]
    else:
        tile = [*depth, part, warp, thread, neighbours]
    *ranges, vector = stage_factor(plan, product.value, side, tile, converted=True)
    plan.mark(vector, Kind.VECTOR)
    if is_turned:
        turned, *ranges = ranges
        plan.mark(turned, Kind.UNROLL)
    rest = plan.range(merge(plan, ranges))
    for count in (_WARP[1], _WARP[0], block.warps[1], block.warps[0]):
        if count > 1:
            rest, threads = _split(plan, rest, count)
            plan.mark(threads, Kind.LOCAL)
    plan.mark(rest, Kind.UNROLL)
