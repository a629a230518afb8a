"""Schedules for products of matrices by warps, on devices that have an instruction for it.

    c[i, j] = sum(k) of a[i, k] * b[k, j]

A group has a block of results, each of its warps a part of that, made of tiles of 16 x 8. All threads of the group
copy what the block needs of both factors for a part of the sum to local memory; then the warps multiply, and meanwhile
`zyx.passes.copy_ahead` has them copy the next part.

    i = groups, warps, tiles, 16
    j = groups, warps, tiles, 8
    k = loop, k.0 < 4, k.1 < 8

A copy has as neighbours what a warp reads together: vectors along k, those of four threads beside each other, and of
the rows or columns of a tile. So no two threads of a warp, of those that memory serves at a time, read or write the
same bank of it. Of what lies side by side along k, a thread copies vectors:

    warps, tiles, i, k.0, k.1 vector

What lies side by side along j (or i) is divided among tiles by turns, four at a time: then a thread copies from four
neighbours to four tiles, and turns what it copies over on the way. Threads beside each other copy from neighbours.

    j = groups, warps, tiles.0, 8, tiles.1 < 4
    copy: tiles.1 unrolled, warps, k.0, tiles.0, (j + 2 * k.0) % 8, k.1 vector
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.errors import ScheduleError
from zyx.kernel.wmma import WARP
from zyx.lowering.fragments import factors_of
from zyx.nest import expr as e
from zyx.nest.data import Kind
from zyx.schedule.moves import TensorCore
from zyx.schedule.seeds.copies import stage_factor
from zyx.schedule.seeds.implicit_gemm import join_loops
from zyx.schedule.seeds.tiling import Block, Instruction, Tiling

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.nest.expr import Range
    from zyx.schedule.contraction import Contraction
    from zyx.schedule.plan import Plan

#: Bytes of a row or column that are copied at a time: vectors of 16 that a thread loads, for 4 threads.
_COPIED_BYTES: Final = 64
#: Threads of a processor that can all have as many registers as one can.
_ALL_REGISTERS: Final = 256
#: Threads that share a row or column of a factor, and the tiles that neighbours go to by turns.
_SHARE: Final = 4
_TURNS: Final = 4
#: Places in a copy that the same rows or columns of threads that share one are apart.
_SKEW: Final = 2
#: A thread's copies are written out up to this many.
_WRITTEN_OUT: Final = 8


@dataclass(frozen=True, slots=True)
class _Side:
    """What became of the rows, or of the columns: groups, warps, tiles, in a tile, and tiles by turns."""

    group: Range
    warp: Range
    tile: Range
    inner: Range
    turn: Range | None

    @property
    def ranges(self) -> list[Range]:
        """Those within a group, as results lie side by side."""
        return [self.warp, self.tile, self.inner, *([] if self.turn is None else [self.turn])]


def tensor_core_seeds(plan: Plan, found: Contraction, info: DeviceInfo) -> Iterator[Plan]:
    """Yield schedules of the nest of `plan`, whose sum of products is `found`, if the device has an instruction for it.

    They are by the blocks that cost least.
    """
    tiling = _tiling(plan, found, info)
    if tiling is None:
        return
    depth = most = _COPIED_BYTES // tiling.itemsizes[0]
    if tiling.instruction.depth * 2 != most or tiling.matrices.depth.size < most:
        depth = tiling.instruction.depth
    sizes = itertools.product((1, 2, 4), (1, 2, 4, 8), (1, 2, 4), (1, 2, 4))
    blocks = [Block((high, wide), (down, across), depth) for high, wide, down, across in sizes]
    # Without turns, threads copy element by element: only where there is no other way.
    turned = tiling.cheapest([block for block in blocks if _takes_turns(tiling, block)])
    for block in turned or tiling.cheapest(blocks):
        other = plan.copy()
        _schedule(other, found, tiling, block)
        yield other


def _schedule(plan: Plan, found: Contraction, tiling: Tiling, block: Block) -> None:
    value = repr(found.statement.value)
    sides = [_split_side(plan, tiling, block, number) for number in range(2)]
    loop, depth = plan.split(tiling.matrices.depth, block.depth)
    kept, reduced = tiling.matrices.others
    reduced, loop = join_loops(plan, reduced, loop)
    for range_ in kept:
        plan.mark(range_, Kind.GROUP)
    inner = [range_ for side in sides for range_ in side.ranges]
    plan.order([*kept, *(side.group for side in sides), *reduced, loop, *inner, depth])
    parts = plan.split(depth, depth.size // _SHARE)
    for side in sides:
        _copy(plan, value, side, parts, block)
    rows, columns = (side.inner.label for side in sides)
    plan.do(TensorCore(value, rows, columns, plan.merge(*parts).label))


# ---- what there is, and how large


def _tiling(plan: Plan, found: Contraction, info: DeviceInfo) -> Tiling | None:
    """Match a sum as a product of matrices with its epilogue; None if it is not one."""
    if not info.wmma or not found.is_by_results or len(found.reads) != 2:
        return None
    try:
        x, y = factors_of(plan.nest.pool, found.statement)
    except ScheduleError:
        return None
    depths = [dims for dims, dtype in info.wmma if dtype is x.dtype]
    if not isinstance(x, e.Read) or not isinstance(y, e.Read) or not depths:
        return None
    matrices = found.matrices(x, y)
    if matrices is None:
        return None
    points = matrices.depth.size
    dims = max(depths, key=lambda dims: (dims[2] <= points, dims[2] if dims[2] <= points else -dims[2]))
    turned = matrices.near[0] is matrices.sides[0], matrices.near[1] is matrices.sides[1]
    return Tiling(matrices, (x.dtype.itemsize, x.dtype.itemsize), turned, _instruction(dims, info), info)


def _instruction(dims: tuple[int, int, int], info: DeviceInfo) -> Instruction:
    """Return the instruction for tiles of so many rows, columns and points of the sum.

    A thread has two factors of 16 bytes a row, and that of one column at a time. The costs rank blocks as their times
    were for products of 4096 x 4096 matrices, on a card that found room for one to three groups a processor.
    """
    return Instruction(
        part=dims[:2],
        loaded=dims[:2],
        depth=dims[2],
        registers=(4, 8, 0, 20),
        copied_bytes=_COPIED_BYTES,
        threads=(WARP,),
        all_registers=info.registers * _ALL_REGISTERS,
        address_registers=0,
        all_local=math.inf,
        copy_cost=32,
        load_cost=16,
        wait_cost=2,
        latency=0,
        most_waste=1.5,
    )


def _takes_turns(tiling: Tiling, block: Block) -> bool:
    """Whether the sides that are turned over have tiles for neighbours to go to by turns, or are too short for them."""
    sides = zip(tiling.matrices.sides, block.parts, tiling.instruction.part, tiling.turned, strict=True)
    return all(tiles % _TURNS == 0 or side.size <= tiles * dim for side, tiles, dim, is_turned in sides if is_turned)


# ---- how


def _split_side(plan: Plan, tiling: Tiling, block: Block, number: int) -> _Side:
    tiles, warps, dim = block.parts[number], block.warps[number], tiling.instruction.part[number]
    turns = min(_TURNS, tiles) if tiling.turned[number] else 1
    group, rest = plan.split(tiling.matrices.sides[number], warps * tiles * dim)
    warp, rest = plan.split(rest, tiles * dim)
    tile, inner = plan.split(rest, turns * dim)
    turn = None
    if turns > 1:
        inner, turn = plan.split(inner, turns)
        plan.mark(turn, Kind.UNROLL)
    plan.mark(group, Kind.GROUP)
    plan.mark(warp, Kind.LOCAL if warps > 1 else Kind.UNROLL)
    plan.mark(tile, Kind.UNROLL)
    return _Side(group, warp, tile, inner, turn)


def _copy(plan: Plan, value: str, side: _Side, depth: Sequence[Range], block: Block) -> None:
    """Let the threads of a group copy what they need of the rows' factor, or of the columns'."""
    skew = None
    if side.turn is None:
        tile = [*side.ranges, *depth]
    else:
        tile = [side.turn, side.warp, depth[0], side.tile, side.inner, depth[1]]
        skew = (depth[0].label, side.inner.label, _SKEW)
    *blocks, along = stage_factor(plan, value, side.ranges, tile, skew=skew)
    plan.mark(along, Kind.VECTOR)
    if side.turn is not None:
        turn, *blocks = blocks
        plan.mark(turn, Kind.UNROLL)
    _share_out(plan, functools.reduce(plan.merge, blocks), block)


def _share_out(plan: Plan, rest: Range, block: Block) -> None:
    """Let the threads of a group, as many as there is work for, run a range together."""
    for count in (WARP, block.warps[1], block.warps[0]):
        if count > 1 and rest.size % count == 0:
            rest, threads = plan.split(rest, count)
            plan.mark(threads, Kind.LOCAL)
    if rest.size <= _WRITTEN_OUT:
        plan.mark(rest, Kind.UNROLL)
