"""Which blocks a program has, and where they lie in the tiles of its operands."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from zyx.tiles.data import Load, Put
from zyx.tiles.staging import shape_in_tiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zyx.tiles.data import TileProgram


def blocks_of_results(program: TileProgram) -> Iterator[dict[int, int]]:
    """Yield the number of the block along each outer axis, of all blocks of results."""
    counts = [range(program.axes[axis].blocks) for axis in program.outer]
    for numbers in itertools.product(*counts):
        yield dict(zip(program.outer, numbers, strict=True))


def matrices_before(program: TileProgram, operand: int) -> list[tuple[int, int]]:
    """Return the axes of the batch of an operand, and how many rows of tiles lie between its matrices along each."""
    own = program.operands[operand]
    step = -(-own.view.shape[-2] // program.tile[0])
    found: list[tuple[int, int]] = []
    for axis, size in zip(reversed(own.axes[:-2]), reversed(own.view.shape[:-2]), strict=True):
        if axis is not None:
            found.append((axis, step))
        step *= size
    return found[::-1]


def place_of(program: TileProgram, operand: int, place: Mapping[int, int]) -> tuple[int, int]:
    """Return the row and column of tiles where the block of an operand begins.

    `place` has the number of the block along each axis; along one that it does not have, there is one block.
    """
    axes = program.operands[operand].axes
    row, column = (0 if axis is None else place.get(axis, 0) * program.axes[axis].block for axis in axes[-2:])
    return row + sum(place.get(axis, 0) * step for axis, step in matrices_before(program, operand)), column


def blocks_in_order(program: TileProgram) -> tuple[int, int]:
    """Return rows and columns of a table with a place for each block of results: the last outer axis is the columns."""
    counts = [program.axes[axis].blocks for axis in program.outer]
    return math.prod(counts[:-1]), math.prod(counts[-1:])


def least_tiles_moved(program: TileProgram) -> int:
    """Return how many tiles there are to load and to store, each once; those of numbers and ramps as well."""
    least = 0
    for operand in program.operands:
        rows, columns = shape_in_tiles(operand.view, program.tile)
        least += rows * columns
    return least


def tiles_moved(program: TileProgram) -> int:
    """Return how many tiles a program loads and stores."""
    results = 1
    for axis in program.outer:
        results *= program.axes[axis].blocks
    moved = 0
    for sweep in program.sweeps:
        times = 1 if sweep.along is None else program.axes[sweep.along].blocks
        for step in sweep.steps:
            if isinstance(step, Load | Put):
                rows, columns = program.block_of_operand(step.operand)
                moved += times * rows * columns
    return results * moved
