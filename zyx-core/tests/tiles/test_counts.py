"""How many tiles programs move, against the least there is: each tile that is read once, and each result once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx.runtime.runtime import use
from zyx.testing.tiles import PaperTileDevice, open_tiles, tiles_info
from zyx.tiles.places import least_tiles_moved, tiles_moved

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.tiles.data import TileProgram

RNG = np.random.default_rng(0)
X, Y = (RNG.standard_normal((256, 512)).astype(np.float32) for _ in range(2))
#: Local memory of a core that buffers may have: as Blackhole's.
LOCAL_BYTES = 1432 << 10
#: Bytes of a tile of 32 x 32 float32.
TILE_BYTES = 4096


def program_of(make: Callable[[], zyx.Tensor], local_bytes: int = LOCAL_BYTES) -> TileProgram:
    """Return the one program of what is made."""
    with open_tiles(tiles_info(local_bytes=local_bytes)) as runtime, use(runtime):
        make().realize()
        device = runtime.device()
        assert isinstance(device, PaperTileDevice)
        (program,) = device.programs
    return program


#: What moves each tile once.
ONCE: dict[str, Callable[[], zyx.Tensor]] = {
    "chain": lambda: zyx.exp(zyx.Tensor(X) + zyx.Tensor(Y)) * zyx.Tensor(X),
    "sum of rows": lambda: (zyx.Tensor(X) * zyx.Tensor(Y)).sum(axis=1),
    "sum of columns": lambda: zyx.Tensor(X).sum(axis=0),
    "sum of all": lambda: zyx.Tensor(X[:16]).sum(),
    "softmax": lambda: zyx.softmax(zyx.Tensor(X), axis=1),
    "softmax of columns": lambda: zyx.softmax(zyx.Tensor(X), axis=0),
    "gradient of softmax": lambda: zyx.grad(lambda x: (zyx.softmax(x, axis=1) * zyx.Tensor(Y)).sum())(zyx.Tensor(X)),
    "product of one block": lambda: zyx.Tensor(X[:128, :256]) @ zyx.Tensor(Y[:, :128]),
}


@pytest.mark.parametrize("name", ONCE)
def test_each_tile_is_moved_once(name: str):
    program = program_of(ONCE[name])
    assert tiles_moved(program) == least_tiles_moved(program)


def test_a_row_that_all_rows_need_is_read_for_each_block_of_rows():
    program = program_of(lambda: zyx.nn.LayerNorm(512)(zyx.Tensor(X)))
    blocks = math.prod(program.axes[axis].blocks for axis in program.outer)
    rows = 2 * 512 // 32  # of weight and bias
    others = least_tiles_moved(program) - rows - 2 * X.size // 1024  # numbers, one tile each
    assert tiles_moved(program) == 2 * X.size // 1024 + blocks * (rows + others)
    assert tiles_moved(program) < 1.5 * least_tiles_moved(program)


@pytest.mark.parametrize(
    ("make", "sweeps"),
    [
        (lambda x: zyx.softmax(x, axis=1), 3),
        (lambda x: zyx.nn.functional.layer_norm(x, (x.shape[1],)), 3),
        (lambda x: zyx.nn.functional.rms_norm(x, (x.shape[1],)), 2),
    ],
    ids=["softmax", "layer norm", "RMS norm"],
)
def test_longer_rows_are_read_once_a_sweep(make: Callable[[zyx.Tensor], zyx.Tensor], sweeps: int):
    x = RNG.standard_normal((32, 4096)).astype(np.float32)
    program = program_of(lambda: make(zyx.Tensor(x)))
    tiles = x.size // 1024
    blocks = max(axis.blocks for axis in program.axes)
    numbers = sum(operand.view.shape == (1, 1) for operand in program.operands)
    assert (sweeps + 1) * tiles <= tiles_moved(program) <= (sweeps + 1) * tiles + sweeps * blocks * numbers


@pytest.mark.parametrize("size", [512, 1024])
def test_products_move_what_their_blocks_need(size: int):
    """Each block of results reads its rows of the one factor, and its columns of the other one.

    No order of a product's steps moves fewer tiles than ``2 * m * n * k / sqrt(S) - 2 * S`` with room for S
    (Smith, Lowery, Langou, van de Geijn: A tight I/O lower bound for matrix multiplication, 2019). Of that room results
    have an eighth here: they are added up, stored while the next ones are, and factors are loaded meanwhile.
    """
    x, w = (RNG.standard_normal((size, size)).astype(np.float32) for _ in range(2))
    bias = RNG.standard_normal(size).astype(np.float32)
    program = program_of(lambda: zyx.relu(zyx.Tensor(x) @ zyx.Tensor(w) + zyx.Tensor(bias)))
    n = size // 32
    row_blocks, column_blocks = (program.axes[axis].blocks for axis in program.outer)
    others = tiles_moved(program) - n * n * (row_blocks + column_blocks) - n * n
    assert 0 <= others <= row_blocks * n + row_blocks * column_blocks  # of bias and the number 0
    room = LOCAL_BYTES // TILE_BYTES
    bound = max(3 * n * n, 2 * n**3 / math.sqrt(room) - 2 * room)
    assert tiles_moved(program) <= 3.5 * bound


def test_more_local_memory_moves_no_more_tiles():
    moved = [
        tiles_moved(program_of(lambda: zyx.Tensor(X) @ zyx.Tensor(Y).T, local_bytes))
        for local_bytes in (1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 21)
    ]
    assert moved == sorted(moved, reverse=True)
    assert moved[0] > moved[-1]
