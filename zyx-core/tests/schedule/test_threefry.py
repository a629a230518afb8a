"""Random words in kernels: the published answers, and the same words as the graph's meaning says."""

from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.fusion.threefry import random_word, threefry
from zyx.nest import expr as e
from zyx.nest.data import Nest, Store
from zyx.nest.pool import Pool
from zyx.nest.run import run_nest

# Known answers that come with the authors' library, Random123: threefry2x32, 20 rounds.
ANSWERS = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


def words_of(make, given: list[int], dtype, count: int = 1) -> list[int]:
    """Return `count` words that ``make(pool, given as expressions, index)`` says, computed by a nest."""
    pool = Pool()
    target = e.Param(0, dtype, count, mutable=True)
    source = e.Param(1, dtypes.uint32, len(given), mutable=False)
    range_ = pool.range(count)
    word = make(pool, [pool.read(source, pool.index(i)) for i in range(len(given))], pool.ref(range_))
    nest = Nest((target, source), (Store(target, pool.ref(range_), word, None, (range_,)),), pool)
    result = np.zeros(count, dtype.numpy)
    run_nest(nest, [result, np.array(given, np.uint32)])
    return result.tolist()


@pytest.mark.parametrize(("key", "counter", "block"), ANSWERS)
def test_blocks_are_the_published_ones(key, counter, block):
    for number in (0, 1):
        found = words_of(lambda pool, x, _, n=number: threefry(pool, *x)[n], [*key, *counter], dtypes.uint32)
        assert found == [block[number]]


@pytest.mark.parametrize(("key", "counter", "block"), ANSWERS)
def test_blocks_of_literals_are_computed_when_the_kernel_is_planned(key, counter, block):
    pool = Pool()
    found = threefry(pool, *(pool.literal(word, dtypes.uint32) for word in (*key, *counter)))
    assert [word.value for word in found if isinstance(word, e.Literal)] == list(block)


@pytest.mark.parametrize(("key", "counter", "block"), ANSWERS)
def test_words_are_made_of_blocks(key, counter, block):
    for dtype, word in ((dtypes.uint32, block[0] ^ block[1]), (dtypes.uint64, block[0] | block[1] << 32)):

        def make(pool, x, index, dtype=dtype):
            return random_word(pool, x, index, dtype)

        assert words_of(make, [*key, *counter], dtype) == [word]


def test_positions_carry_into_the_second_word_of_the_counter():
    def make(pool, x, index):
        return random_word(pool, x, pool.shift(index, (1 << 32) - 2), dtypes.uint64)

    def block(pool, x, index):
        return random_word(pool, x, pool.index(0), dtypes.uint64)

    start = 0xFFFFFFFE  # position p of this stream is block number start + p
    found = words_of(make, [7, 9, start, 5], dtypes.uint64, 4)
    for i, word in enumerate(found):
        at = start + (5 << 32) + (1 << 32) - 2 + i
        assert [word] == words_of(block, [7, 9, at & 0xFFFFFFFF, at >> 32], dtypes.uint64)


@pytest.mark.parametrize("dtype", [dtypes.uint32, dtypes.uint64])
def test_random_nodes_are_the_same_in_kernels(bench, dtype):
    state = bench.leaf(np.array([7, 9, 0xFFFFFFF0, 3], np.uint32))
    bits = bench.graph.random_bits(state, (6, 5), dtype, 11)
    moved = bench.graph.permute(bits, (1, 0))
    scheduled = bench.schedule(bits, moved, run=bench.run_kernels)
    assert scheduled.value(0).tolist() == scheduled.value(1).T.tolist()
    bench.check(bits, tolerance=0)
