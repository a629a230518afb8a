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

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.errors import ScheduleError
from zyx.ir import expr as e
from zyx.ir.nest import Kind
from zyx.ir.wmma import WARP
from zyx.schedule.fragments import factors_of
from zyx.schedule.heuristics.products import merge, stage_factor
from zyx.schedule.moves import TensorCore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.ir.expr import Range
    from zyx.ir.nest import Nest
    from zyx.schedule.contraction import Contraction
    from zyx.schedule.heuristics.plan import Plan

#: Bytes of a row or column that are copied at a time: vectors of 16 that a thread loads, for 4 threads.
_COPIED_BYTES: Final = 64
#: Copies there are of everything: of what is multiplied, and of what comes next.
_COPIES: Final = 2
#: Most of what is computed, relative to what is needed.
_MOST_WASTE: Final = 1.5
#: Registers of a thread that are not results or factors.
_OTHER_REGISTERS: Final = 16
#: Threads of a processor that can all have as many registers as one can.
_ALL_REGISTERS: Final = 256
#: Threads that share a row or column of a factor, and the tiles that neighbours go to by turns.
_SHARE: Final = 4
_TURNS: Final = 4
#: Places in a copy that the same rows or columns of threads that share one are apart.
_SKEW: Final = 2
#: A thread's copies are written out up to this many.
_WRITTEN_OUT: Final = 8
#: Threads of a group that keep a processor busy.
_BUSY: Final = 128
#: What it costs to copy an element for a row or column, and to load it for a tile, relative to a multiplication; and
#: to wait for that while no other group has room beside. They rank blocks as their times were for products of
#: 4096 x 4096 matrices, on a card that found room for one to three groups a processor.
_COPY_COST: Final = 32
_LOAD_COST: Final = 16
_WAIT_COST: Final = 2


@dataclass(frozen=True, slots=True)
class _Product:
    """A product of matrices in a nest.

    Attributes:
        value: Label of the sum.
        sides: Rows and columns.
        depth: What is summed up by tiles.
        others: Other ranges of the results, and of the sum.
        dims: Rows, columns and depth of a tile.
        itemsize: Bytes of an element of a factor.
        turned: For rows and columns, whether their factor lies side by side along them, not along the depth.
    """

    value: str
    sides: tuple[Range, Range]
    depth: Range
    others: tuple[Sequence[Range], Sequence[Range]]
    dims: tuple[int, int, int]
    itemsize: int
    turned: tuple[bool, bool]

    @property
    def at_a_time(self) -> int:
        """Points of the sum that are copied at a time."""
        most = _COPIED_BYTES // self.itemsize
        return most if self.dims[2] * 2 == most and self.depth.size >= most else self.dims[2]


@dataclass(frozen=True, slots=True)
class _Block:
    """The results of a group: tiles of a warp, and warps, along rows and along columns."""

    tiles: tuple[int, int]
    warps: tuple[int, int]

    @property
    def threads(self) -> int:
        """Threads of the group."""
        return WARP * self.warps[0] * self.warps[1]


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


def schedule_tensor_cores(plan: Plan, found: Contraction, info: DeviceInfo) -> bool:
    """Schedule the nest of `plan`, whose sum of products is `found`, if the device has an instruction for it.

    Returns:
        Whether it is; if not, the plan is as it was.
    """
    product = _product(plan.nest, found, info)
    block = None if product is None else _choose_block(product, info)
    if product is None or block is None:
        return False
    sides = [_split_side(plan, product, block, number) for number in range(2)]
    loop, depth = plan.split(product.depth, product.at_a_time)
    kept, reduced = product.others
    for range_ in kept:
        plan.mark(range_, Kind.GROUP)
    inner = [range_ for side in sides for range_ in side.ranges]
    plan.order([*kept, *(side.group for side in sides), *reduced, loop, *inner, depth])
    parts = plan.split(depth, depth.size // _SHARE)
    for side in sides:
        _copy(plan, product, side, parts, block)
    rows, columns = (side.inner.label for side in sides)
    plan.do(TensorCore(product.value, rows, columns, merge(plan, parts)))
    return True


# ---- what there is


def _product(nest: Nest, found: Contraction, info: DeviceInfo) -> _Product | None:
    """Return the product of matrices that a nest computes, with what becomes of each result, if it is one."""
    statement = found.statement
    if not info.wmma or not found.is_by_results or len(found.reads) != 2:
        return None
    try:
        x, y = factors_of(nest.pool, statement)
    except ScheduleError:
        return None
    depths = [dims for dims, dtype in info.wmma if dtype is x.dtype]
    if not isinstance(x, e.Read) or not isinstance(y, e.Read) or not depths:
        return None
    matrices = found.matrices(x, y)
    if matrices is None:
        return None
    depth = matrices.depth
    dims = max(depths, key=lambda dims: (dims[2] <= depth.size, dims[2] if dims[2] <= depth.size else -dims[2]))
    turned = (matrices.near[0] is matrices.sides[0], matrices.near[1] is matrices.sides[1])
    return _Product(repr(statement.value), matrices.sides, depth, matrices.others, dims, x.dtype.itemsize, turned)


# ---- how large


def _choose_block(product: _Product, info: DeviceInfo) -> _Block | None:
    """Return the block of results of a group that costs least, by a rough count; None if none fits."""
    blocks = [
        _Block((high, wide), (down, across))
        for high, wide, down, across in itertools.product((1, 2, 4), (1, 2, 4, 8), (1, 2, 4), (1, 2, 4))
    ]
    costs = {block: _cost(product, block, info) for block in blocks if _fits(product, block, info)}
    found = [block for block, cost in costs.items() if cost is not None]
    # Without turns, threads copy element by element: only where there is no other way.
    return min(found, key=lambda block: (not _takes_turns(product, block), costs[block]), default=None)


def _fits(product: _Product, block: _Block, info: DeviceInfo) -> bool:
    rows, columns = _shape(product, block)
    shape = (WARP, *(count for count in reversed(block.warps) if count > 1))
    copied = (rows + columns) * product.at_a_time * product.itemsize * _COPIES
    return (
        block.threads <= info.max_group_threads
        and len(shape) <= len(info.max_group_shape)
        and all(size <= most for size, most in zip(shape, info.max_group_shape, strict=False))
        and copied <= info.local_bytes
        and _registers(block) <= info.registers
        and _room(block, info) >= 1
    )


def _takes_turns(product: _Product, block: _Block) -> bool:
    """Whether the sides that are turned over have tiles for neighbours to go to by turns, or are too short for them."""
    return all(
        not is_turned or tiles % _TURNS == 0 or side.size <= tiles * dim
        for is_turned, side, tiles, dim in zip(product.turned, product.sides, block.tiles, product.dims, strict=False)
    )


def _registers(block: _Block) -> int:
    """Return the registers that a thread needs: results, two factors of 16 bytes a row, and what it copies."""
    high, wide = block.tiles
    copied = sum(tiles * warps * dim for tiles, warps, dim in zip(block.tiles, block.warps, (16, 8), strict=True))
    return 4 * high * wide + 8 * high + 4 + copied * _COPIED_BYTES // 4 // block.threads + _OTHER_REGISTERS


def _room(block: _Block, info: DeviceInfo) -> float:
    """Return how many groups one processor has registers for."""
    return info.registers * _ALL_REGISTERS / (_registers(block) * block.threads)


def _shape(product: _Product, block: _Block) -> tuple[int, int]:
    """Return the rows and columns of a block."""
    rows, columns = (block.tiles[i] * block.warps[i] * product.dims[i] for i in range(2))
    return rows, columns


def _cost(product: _Product, block: _Block, info: DeviceInfo) -> float | None:
    """Return the cost of a result, relative to that of multiplying for it; None if too much is computed in vain."""
    shape = _shape(product, block)
    groups = math.prod(range_.size for range_ in product.others[0])
    waste = -(-product.depth.size // product.dims[2]) * product.dims[2] / product.depth.size
    for range_, size in zip(product.sides, shape, strict=True):
        count = -(-range_.size // size)
        groups *= count
        waste *= count * size / range_.size
    if waste > _MOST_WASTE:
        return None
    copying = _COPY_COST * sum(1 / size for size in shape)
    loading = _LOAD_COST * sum(warps / size for size, warps in zip(shape, block.warps, strict=True))
    busy = min(1.0, groups / info.units) * min(1.0, block.threads / _BUSY)
    waiting = 1 + _WAIT_COST / _room(block, info) ** 2
    return waste * (1 + copying + loading) * waiting / busy


# ---- how


def _split_side(plan: Plan, product: _Product, block: _Block, number: int) -> _Side:
    tiles, warps, dim = block.tiles[number], block.warps[number], product.dims[number]
    turns = min(_TURNS, tiles) if product.turned[number] else 1
    group, rest = plan.split(product.sides[number], warps * tiles * dim)
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


def _copy(plan: Plan, product: _Product, side: _Side, depth: Sequence[Range], block: _Block) -> None:
    """Let the threads of a group copy what they need of the rows' factor, or of the columns'."""
    skew = None
    if side.turn is None:
        tile = [*side.ranges, *depth]
    else:
        tile = [side.turn, side.warp, depth[0], side.tile, side.inner, depth[1]]
        skew = (depth[0].label, side.inner.label, _SKEW)
    *blocks, along = stage_factor(plan, product.value, side.ranges, tile, skew=skew)
    plan.mark(along, Kind.VECTOR)
    if side.turn is not None:
        turn, *blocks = blocks
        plan.mark(turn, Kind.UNROLL)
    _share_out(plan, merge(plan, blocks), block)


def _share_out(plan: Plan, label: str, block: _Block) -> None:
    """Let the threads of a group, as many as there is work for, run a range together."""
    rest = plan.range(label)
    for count in (WARP, block.warps[1], block.warps[0]):
        if count > 1 and rest.size % count == 0:
            rest, threads = plan.split(rest, count)
            plan.mark(threads, Kind.LOCAL)
    if rest.size <= _WRITTEN_OUT:
        plan.mark(rest, Kind.UNROLL)
