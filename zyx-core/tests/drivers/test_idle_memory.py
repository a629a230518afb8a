"""Memory that waits to be used again."""

import pytest

from zyx.drivers.idle_memory import IdleMemory, rounded


@pytest.mark.parametrize("nbytes", [1, 255, 256, 257, 1024, 1025, 1280, 4097, 1 << 20, (1 << 20) + 1, 3_000_001])
def test_a_size_is_rounded_up_by_a_quarter_at_most_beyond_the_grain(nbytes):
    size = rounded(nbytes)
    assert size >= nbytes
    assert size % 256 == 0
    assert size - nbytes < max(256, nbytes / 4)
    assert rounded(size) == size


def test_a_piece_is_used_again_for_what_it_fits():
    idle: IdleMemory[str] = IdleMemory()
    idle.put(1024, "first")
    idle.put(1024, "second")
    idle.put(4096, "large")
    assert idle.nbytes == 6144
    assert idle.take(1100) is None  # a quarter of it would be left over, and more
    assert idle.take(820) == (1024, "second")
    assert idle.take(1024) == (1024, "first")
    assert idle.take(1024) is None
    assert idle.nbytes == 4096


def test_clearing_returns_every_piece():
    idle: IdleMemory[int] = IdleMemory()
    for number in range(5):
        idle.put(256 * (1 + number % 2), number)
    assert sorted(idle.clear()) == [0, 1, 2, 3, 4]
    assert idle.nbytes == 0
    assert idle.take(256) is None
