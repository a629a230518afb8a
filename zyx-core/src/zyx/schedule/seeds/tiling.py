"""Blocks of the results of a product of matrices: what the threads of a group compute together, and what it costs.

    c[i, j] = sum(k) of a[i, k] * b[k, j]

A group copies what its block needs of both factors to local memory, for some points of the sum at a time. Its warps
load from there and multiply, and meanwhile `zyx.passes.copy_ahead` has them copy the next part. Along rows and along
columns, a block is some warps times some parts of each. A part is what an instruction gives the threads of a warp,
whether each of them multiplies or all do together: what that takes is data, and blocks are counted alike.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.kernel.wmma import WARP
from zyx.lowering.thread_axes import group_shape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zyx.backend.info import DeviceInfo
    from zyx.schedule.contraction import Matrices

#: Copies there are of everything: of what is multiplied, and of what comes next.
_COPIES: Final = 2
#: Blocks whose schedules are looked at.
_FEW: Final = 2
#: Threads that keep a processor busy.
_BUSY: Final = 128


@dataclass(frozen=True, slots=True)
class Instruction:
    """What multiplies. Pairs are for rows and columns; costs are relative to multiplying for a result.

    Attributes:
        part: Results of a warp.
        loaded: Those of them that a load is for.
        depth: Points of the sum that are multiplied at a time; 0 if it is all that are copied.
        registers: Those of a thread for the results of a part, for its rows, and for its columns; then all others.
        copied_bytes: Fewest bytes of a row or column for which the threads that copy it have registers.
        threads: Those of a warp, along the axes of a group.
        all_registers: Registers of a processor.
        address_registers: What compilers take for addresses of a thread's registers there.
        all_local: Local memory of a processor, relative to that of a group.
        copy_cost: To copy an element of a row or column.
        load_cost: To load one for what a load serves.
        wait_cost: To wait for what is copied while no other group has room beside.
        latency: Multiplications of a processor until memory answers, in which the groups that have room beside a group
            can compute; 0 if groups are not told apart by rounds of all processors.
        most_waste: Most of what is computed, relative to what is needed.
    """

    part: tuple[int, int]
    loaded: tuple[int, int]
    depth: int
    registers: tuple[int, int, int, int]
    copied_bytes: int
    threads: tuple[int, ...]
    all_registers: int
    address_registers: int
    all_local: float
    copy_cost: float
    load_cost: float
    wait_cost: float
    latency: float
    most_waste: float


@dataclass(frozen=True, slots=True)
class Block:
    """The results of a group: parts of a warp, and warps, along rows and columns; and points of the sum copied."""

    parts: tuple[int, int]
    warps: tuple[int, int]
    depth: int

    @property
    def threads(self) -> int:
        """Threads of the group."""
        return WARP * self.warps[0] * self.warps[1]


@dataclass(frozen=True, slots=True)
class Tiling:
    """A product of matrices that is to be computed by blocks.

    Attributes:
        matrices: The product.
        itemsizes: Bytes of an element of the rows' factor, and of the columns', as they are copied.
        turned: Whether copying turns over the rows' factor, and the columns'.
        instruction: What multiplies.
        info: The device.
    """

    matrices: Matrices
    itemsizes: tuple[int, int]
    turned: tuple[bool, bool]
    instruction: Instruction
    info: DeviceInfo

    def cheapest(self, blocks: Iterable[Block]) -> list[Block]:
        """Return the few blocks with which a multiplication costs least."""
        costs = self.costs(blocks)
        return sorted(costs, key=costs.__getitem__)[:_FEW]

    def costs(self, blocks: Iterable[Block]) -> dict[Block, float]:
        """Return the cost of a multiplication with each of the blocks that the device has room for, by a rough count.

        Those that compute too much in vain are left out too.
        """
        rooms = {block: self._room(block) for block in blocks}
        costs = {block: self._cost(block, room) for block, room in rooms.items() if room >= 1}
        return {block: cost for block, cost in costs.items() if cost < math.inf}

    def _shape(self, block: Block) -> tuple[int, int]:
        """Return the rows and columns of a block."""
        (high, wide), (down, across), part = block.parts, block.warps, self.instruction.part
        return high * down * part[0], wide * across * part[1]

    def _room(self, block: Block) -> float:
        """Return how many groups one processor has registers and memory for; 0 if the device has no such groups."""
        unit, info, threads = self.instruction, self.info, block.threads
        (high, wide), (rows, columns) = block.parts, self._shape(block)
        left, right = self.itemsizes
        copied = _COPIES * block.depth * (rows * left + columns * right)
        left, right = max(block.depth * left, unit.copied_bytes), max(block.depth * right, unit.copied_bytes)
        results, of_rows, of_columns, registers = unit.registers
        registers += results * high * wide + of_rows * high + of_columns * wide
        registers += (rows * left + columns * right) // (4 * threads)
        axes = group_shape([*unit.threads, *[count for count in reversed(block.warps) if count > 1]])
        is_too_large = any(map(operator.gt, axes, info.max_group_shape)) or len(axes) > len(info.max_group_shape)
        if is_too_large or threads > info.max_group_threads or copied > info.local_bytes or registers > info.registers:
            return 0.0
        of_groups = unit.all_registers / ((registers + unit.address_registers) * threads)
        return min(of_groups, unit.all_local * info.local_bytes / copied)

    def _cost(self, block: Block, room: float) -> float:
        """Return the cost of a multiplication; infinity if too much is computed in vain."""
        unit, units, threads = self.instruction, self.info.units, block.threads
        shape, points, depth = self._shape(block), self.matrices.depth.size, unit.depth or block.depth
        waste = -(-points // depth) * depth / points
        groups = math.prod([range_.size for range_ in self.matrices.others[0]])
        for side, size in zip(self.matrices.sides, shape, strict=True):
            count = -(-side.size // size)
            groups *= count
            waste *= count * size / side.size
        if waste > unit.most_waste:
            return math.inf
        copying = unit.copy_cost * sum([1 / size for size in shape])
        loading = unit.load_cost * sum([1 / (parts * n) for parts, n in zip(block.parts, unit.loaded, strict=True)])
        rounds = -(-groups // units) if unit.latency else 1
        busy = min(1.0, groups / (rounds * units)) * min(1.0, rounds * threads / _BUSY)
        if unit.latency:
            waiting = unit.latency / (block.depth * math.prod(shape) * min(rounds, int(room)) ** 2)
        else:
            waiting = unit.wait_cost / room**2
        return waste * (1 + copying + loading) * (1 + waiting) / busy
