"""Small pieces share blocks of the driver's memory, large ones have one each, and none overlaps another."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from zyx.drivers.faults import Cause, Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("cffi", reason="the package vulkan is not installed")


class _Handle:
    def __init__(self, number: int) -> None:
        self.number = number
        self.native = number


class _Block:
    view = None
    address = 1 << 20

    def __init__(self, number: int, nbytes: int) -> None:
        self.buffer, self.nbytes = _Handle(number), nbytes


class FakeHeaps:
    """Gives blocks out of so many bytes."""

    def __init__(self, nbytes: int) -> None:
        self.free_bytes = nbytes
        self.given: list[_Block] = []

    def obtain(self, nbytes: int, memory_type: int) -> Any:
        if nbytes > self.free_bytes:
            raise Fault(Cause.MEMORY, "no memory")
        self.free_bytes -= nbytes
        self.given.append(_Block(len(self.given), nbytes))
        return self.given[-1]

    def free(self, block: _Block) -> None:
        self.free_bytes += block.nbytes


@pytest.fixture
def blocks_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    try:
        from zyx_backend_vulkan import blocks
    except OSError as error:
        pytest.skip(f"Vulkan's loader is not installed: {error}")
    monkeypatch.setattr(blocks, "described", lambda *_: None)
    return lambda heaps, nbytes: blocks.Blocks(heaps, 0, nbytes, nbytes)


@pytest.mark.parametrize("seed", range(8))
def test_pieces_never_overlap_and_all_memory_comes_back(blocks_of: Any, seed: int):
    draw = random.Random(seed)
    heaps = FakeHeaps(1 << 30)
    blocks = blocks_of(heaps, 1 << 30)
    pieces: list[Any] = []
    for _ in range(600):
        if pieces and draw.random() < 0.45:
            blocks.discard(pieces.pop(draw.randrange(len(pieces))))
        else:
            pieces.append(blocks.obtain(draw.choice((1, 255, 256, 257, 4096, 70_000, 1 << 20, 9 << 20))))
        taken = sorted((piece.block.buffer.number, piece.offset, piece.offset + piece.nbytes) for piece in pieces)
        assert all(a[0] != b[0] or a[2] <= b[1] for a, b in pairwise(taken))
        assert all(piece.offset % 256 == 0 and piece.offset + piece.nbytes <= piece.block.nbytes for piece in pieces)
    for piece in pieces:
        blocks.discard(piece)
    assert heaps.free_bytes == 1 << 30
    assert blocks.nbytes == 0


def test_a_thousand_small_pieces_are_few_of_the_driver(blocks_of: Any):
    heaps = FakeHeaps(1 << 30)
    blocks = blocks_of(heaps, 1 << 30)
    pieces = [blocks.obtain(1000) for _ in range(1000)]
    assert len(heaps.given) == 1
    assert len({piece.number for piece in pieces}) == 1000


def test_without_room_for_a_block_a_small_piece_has_one_of_its_own(blocks_of: Any):
    blocks = blocks_of(FakeHeaps(1000), 1 << 30)
    piece = blocks.obtain(600)
    assert (piece.nbytes, piece.block.nbytes) == (768, 768)
    with pytest.raises(Fault, match="no memory"):
        blocks.obtain(600)
    blocks.discard(piece)
    blocks.discard(blocks.obtain(600))
