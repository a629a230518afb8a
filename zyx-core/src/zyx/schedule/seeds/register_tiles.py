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

import functools
import itertools
import math
from typing import TYPE_CHECKING, Final

from zyx.nest.data import Kind
from zyx.schedule.facts import lanes_of
from zyx.schedule.moves.values import conversion_of
from zyx.schedule.seeds.copies import stage_factor
from zyx.schedule.seeds.implicit_gemm import join_loops
from zyx.schedule.seeds.tiling import Block, Instruction, Tiling

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.nest.expr import Range
    from zyx.schedule.contraction import Contraction
    from zyx.schedule.plan import Plan

#: Threads of a warp along the rows and the columns of its results.
_WARP: Final = (4, 8)
#: Fewest threads that run in step for which local memory is as fast as these schedules need it.
_LEAST_WARP: Final = 16
#: Points of the sum that are copied at a time, and those that a thread turns over.
_DEPTHS: Final = (16, 8, 32, 64)
_TURNED: Final = 2
#: Most multiplications that are written out.
_WRITTEN_OUT: Final = 1 << 10
_MOST_LANES: Final = 4
_MOST_THREADS: Final = 256
#: Cycles until memory answers, times multiplications of a processor in a cycle. With the costs of `_instruction`, they
#: rank blocks as their times were on a card.
_LATENCY: Final = 400 * 128


def register_tile_seeds(plan: Plan, found: Contraction, info: DeviceInfo) -> Iterator[Plan]:
    """Yield schedules of the nest of `plan`, whose sum of products is `found`, by the blocks that cost least."""
    tiling = _tiling(found, info)
    if tiling is None:
        return
    for block in tiling.cheapest(_blocks(tiling)):
        other = plan.copy()
        _schedule(other, found, tiling, block)
        yield other


def _schedule(plan: Plan, found: Contraction, tiling: Tiling, block: Block) -> None:
    sides = [_split_side(plan, tiling, block, number) for number in range(2)]
    loop, steps = plan.split(
        tiling.matrices.depth, block.depth
    )  # what is past the end adds nothing, and is not written out
    depth = plan.split_masked(steps, _TURNED) if any(tiling.turned) else (steps,)
    kept, reduced = tiling.matrices.others
    reduced, loop = join_loops(plan, reduced, loop)
    for range_ in kept:
        plan.mark(range_, Kind.GROUP)
    (rows, *of_rows), (columns, *of_columns) = sides
    written_out = [*depth, of_rows[0], of_rows[-1], of_columns[0]]
    threads = [of_rows[1], of_columns[1], of_rows[2], of_columns[2]]
    plan.order([*kept, rows, columns, *reduced, loop, *written_out, *threads, of_columns[-1]])
    for side, is_turned in zip((of_rows, of_columns), tiling.turned, strict=True):
        _copy(plan, repr(found.statement.value), side, depth, block, is_turned=is_turned)
    for range_ in depth:
        plan.mark(range_, Kind.REPEAT)


# ---- what there is, and how large


def _tiling(found: Contraction, info: DeviceInfo) -> Tiling | None:
    """Match a sum as a product of matrices with its epilogue; None if it is not one."""
    statement, reads = found.statement, found.reads
    lanes = min(_MOST_LANES, *[lanes_of(other, info) for other in (statement, *found.others)])
    if not found.is_by_results or len(reads) != 2 or lanes < 2 or info.warp_size < _LEAST_WARP:
        return None
    if not found.is_native(info):
        return None  # a multiplication is many operations: too many to write them out
    matrices = found.matrices(*reads)
    if matrices is None:
        return None
    left, right = (conversion_of(statement, read).dtype.itemsize for read in matrices.reads)
    turned = matrices.near[0] is matrices.depth, matrices.near[1] is matrices.depth
    return Tiling(matrices, (left, right), turned, _instruction(lanes, max(4, left, right) // 4), info)


def _instruction(lanes: int, words: int) -> Instruction:
    """Return the multiplication of vectors by each thread: `lanes` times `lanes`, of so many registers an element."""
    return Instruction(
        part=(_WARP[0] * lanes, _WARP[1] * lanes),
        loaded=(lanes, lanes),
        depth=0,
        registers=(lanes * lanes * words, lanes * words, lanes * words, 24),
        copied_bytes=0,
        threads=(_WARP[1], _WARP[0]),
        all_registers=1 << 16,
        address_registers=24,
        all_local=4,
        copy_cost=16.0,
        load_cost=2.0,
        wait_cost=0.0,
        latency=_LATENCY,
        most_waste=math.inf,
    )


def _blocks(tiling: Tiling) -> Iterator[Block]:
    """Yield blocks small enough to be written out, whose threads all copy as many vectors: several if turned over."""
    sizes = (1, 2, 4)
    lanes = tiling.instruction.loaded[0]
    left, right = (_TURNED if is_turned else 1 for is_turned in tiling.turned)
    for depth, high, wide, down, across in itertools.product(_DEPTHS, (1, 2), (1, 2), sizes, sizes):
        block = Block((high, wide), (down, across), depth)
        if (
            block.threads <= _MOST_THREADS
            and high * wide * lanes**2 * depth <= _WRITTEN_OUT
            and high * down * _WARP[0] * depth // left % block.threads == 0
            and wide * across * _WARP[1] * depth // right % block.threads == 0
        ):
            yield block


# ---- how


def _split_side(plan: Plan, tiling: Tiling, block: Block, number: int) -> list[Range]:
    """Return what becomes of the rows, or of the columns: groups, parts, warps, threads of a warp, neighbours."""
    part, lanes, warps = tiling.instruction.part[number], tiling.instruction.loaded[number], block.warps[number]
    sizes = [part * warps * block.parts[number], part * warps, part, lanes]
    ranges = [tiling.matrices.sides[number]]
    for size in sizes:
        ranges += plan.split_masked(ranges.pop(), size)
    kinds = (Kind.GROUP, Kind.UNROLL, Kind.LOCAL if warps > 1 else Kind.UNROLL, Kind.LOCAL)
    for range_, kind in zip(ranges, (*kinds, Kind.VECTOR if number else Kind.UNROLL), strict=True):
        plan.mark(range_, kind)
    return ranges


def _copy(
    plan: Plan, value: str, side: Sequence[Range], depth: Sequence[Range], block: Block, *, is_turned: bool
) -> None:
    """Let the threads of a group copy what they need of the rows' factor, or of the columns'."""
    part, warp, thread, neighbours = side
    if is_turned:
        tile = [depth[1], part, warp, depth[0], thread, neighbours]
    else:
        tile = [*depth, part, warp, thread, neighbours]
    *ranges, vector = stage_factor(plan, value, side, tile, converted=True)
    plan.mark(vector, Kind.VECTOR)
    if is_turned:
        turned, *ranges = ranges
        plan.mark(turned, Kind.UNROLL)
    rest = functools.reduce(plan.merge, ranges)
    for count in (_WARP[1], _WARP[0], block.warps[1], block.warps[0]):
        if count > 1:
            rest, threads = plan.split_masked(rest, count)
            plan.mark(threads, Kind.LOCAL)
    plan.mark(rest, Kind.UNROLL)
