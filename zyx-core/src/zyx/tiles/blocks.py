"""How many tiles a block has along each axis: as many as the local memory of a processor has room for."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zyx.errors import UnsupportedError
from zyx.tiles.data import Begin, Cast, Load, Put, TileProgram
from zyx.tiles.places import tiles_moved

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.tiles.data import Axis

#: Blocks of a buffer: one is filled while the other is used.
BLOCKS_OF_A_BUFFER: Final = 2
#: Tiles of a block along one axis that is not whole: what is gained by more is little.
_MOST_ALONG: Final = 32
#: A block has at most this part of a core's memory, since results in flight take room, too.
_PART_OF_BLOCK: Final = 5


def local_bytes(program: TileProgram) -> int:
    """Return how many bytes of local memory the buffers of a program take."""
    height, width = program.tile
    total = 0
    for number, operand in enumerate(program.operands):
        rows, columns = program.block_of_operand(number)
        total += BLOCKS_OF_A_BUFFER * rows * columns * height * width * operand.view.tile_dtype.itemsize
    for step in itertools.chain.from_iterable(sweep.steps for sweep in program.sweeps):
        if isinstance(step, Cast | Begin):
            rows, columns = program.block_of(step.to)
            blocks = BLOCKS_OF_A_BUFFER if isinstance(step, Cast) else 1
            total += blocks * rows * columns * height * width * step.dtype.itemsize
    return total + sum(BLOCKS_OF_A_BUFFER * height * width * dtype.itemsize for dtype in program.doubted)


def buffers_of(program: TileProgram) -> int:
    """Return how many buffers a program has: for each operand that it loads or stores, each cast, and doubts."""
    steps = [step for sweep in program.sweeps for step in sweep.steps]
    operands = {step.operand for step in steps if isinstance(step, Load | Put)}
    return len(operands) + sum(isinstance(step, Cast) for step in steps) + len(program.doubted)


def with_blocks(program: TileProgram, info: DeviceInfo, whole: Sequence[int] = ()) -> TileProgram:
    """Return the program with blocks that move the fewest tiles, of those that fit; of such, with the fewest blocks.

    `whole` are axes of one block.

    Raises:
        UnsupportedError: No blocks fit, or there are more buffers than the device has.
    """
    assert info.tiles is not None  # or nothing were built for it
    if (count := buffers_of(program)) > info.tiles.most_buffers:
        raise UnsupportedError(
            f"{program.name} takes {count} buffers in local memory; {info.model} has {info.tiles.most_buffers}"
        )
    best: TileProgram | None = None
    least: tuple[int, int] | None = None
    smallest = 0
    for axes in _choices(program, whole):
        tried = replace(program, axes=axes)
        needed = local_bytes(tried)
        smallest = min(smallest or needed, needed)
        if needed > info.local_bytes or _largest(tried) > info.local_bytes // _PART_OF_BLOCK:
            continue
        blocks = 1
        for axis in tried.axes:
            blocks *= axis.blocks
        cost = (tiles_moved(tried), blocks)
        if least is None or cost < least:
            best, least = tried, cost
    if best is None:
        raise UnsupportedError(
            f"{program.name} takes {smallest} bytes of local memory with the smallest blocks; {info.model} has "
            f"{info.local_bytes}"
        )
    return best


def _largest(program: TileProgram) -> int:
    """Return how many bytes the largest block of an operand has."""
    height, width = program.tile
    blocks = map(program.block_of_operand, range(len(program.operands)))
    sizes = [
        rows * columns * height * width * operand.view.tile_dtype.itemsize
        for (rows, columns), operand in zip(blocks, program.operands, strict=True)
    ]
    return max(sizes, default=0)


def _choices(program: TileProgram, whole: Sequence[int]) -> Iterator[tuple[Axis, ...]]:
    matrix = {axis for operand in program.operands for axis in operand.axes[-2:] if axis is not None}
    choices: list[list[Axis]] = []
    for number, axis in enumerate(program.axes):
        if number in whole:
            choices.append([replace(axis, block=axis.tiles)])
        elif number not in matrix:
            choices.append([axis])
        else:
            sizes = [size for size in range(1, min(axis.tiles, _MOST_ALONG) + 1) if axis.tiles % size == 0]
            choices.append([replace(axis, block=size) for size in sizes])
    yield from itertools.product(*choices)
