"""Convolutions of few channels, and short sums of products, have several results a thread."""

from __future__ import annotations

import numpy as np
import pytest
from meanings.formulas import conv

import zyx
from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.verify import verify
from zyx.lowering.lower import lower
from zyx.nest.accesses import reads_in
from zyx.nest.data import Kind
from zyx.nn import functional as F
from zyx.runtime.runtime import use
from zyx.schedule import fallback
from zyx.schedule.choose import choose_schedule
from zyx.testing.paper import open_paper, paper_info
from zyx.testing.traffic import run_counted

CARD = paper_info(
    "card", units=1, warp_size=32, max_group_threads=256, max_group_shape=(256, 256, 64), local_bytes=49152,
    vector_bytes=16, lanes=(2, 4), registers=255, cache_bytes=(1 << 16, 1 << 20), subgroup_size=32,
    swaps=frozenset({dtypes.float32}),
)  # fmt: skip


@pytest.fixture(autouse=True)
def family(only):
    only("thread_tile_seeds")


@pytest.fixture
def scheduled(monkeypatch):
    """Return the nests, scheduled, of what a function computes on the card, and the result."""
    nests = []

    def noting(nest, info, **given):
        found = choose_schedule(nest, info, **given)
        verify(lower(found[0], "test"))
        nests.append(found[0])
        return found

    def run(function, *arrays):
        nests.clear()
        with open_paper(CARD) as runtime, use(runtime):
            result = function(*map(zyx.Tensor, arrays)).numpy()
        return nests, result

    monkeypatch.setattr(fallback, "choose_schedule", noting)
    return run


def whole(seed, *shape):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def kinds(nest, kind):
    return [range_ for range_ in nest.statements[-1].order if nest.kind(range_) is kind]


def stored_sectors(nest):
    """Return how many sectors warps store."""
    kernel = lower(nest, "test")
    buffers = [np.zeros(p.length, p.dtype.numpy) for p in kernel.params if isinstance(p, k.Define)]
    return run_counted(kernel, buffers).sectors[nest.statements[-1].param.number]


@pytest.mark.parametrize(("shape", "weights", "stride", "pad", "groups"), [
    ((2, 6, 23, 19), (7, 6, 2, 2), 1, 1, 1),
    ((2, 6, 33, 27), (10, 3, 6, 3), 2, 1, 2),
    ((1, 1, 40, 31), (5, 1, 3, 3), 1, 0, 1),
    ((2, 3, 29, 31), (13, 3, 3, 3), 1, 1, 1),
    ((1, 4, 30, 40), (67, 4, 1, 1), 1, 0, 1),
    ((60, 5, 9, 8), (6, 5, 3, 2), 1, 1, 1),
], ids=str)  # fmt: skip
def test_threads_have_neighbouring_points_and_several_channels_of_each(scheduled, shape, weights, stride, pad, groups):
    x, w = whole(1, *shape), whole(2, *weights)
    nests, found = scheduled(lambda x, w: F.conv2d(x, w, None, stride, pad, 1, groups), x, w)
    np.testing.assert_array_equal(found, conv(x, w, stride, pad, 1, groups))
    (nest,) = nests
    (threads,) = kinds(nest, Kind.LOCAL)
    assert threads.size > 100
    assert stored_sectors(nest) * 32 < 1.8 * found.nbytes
    assert np.prod([range_.size for range_ in kinds(nest, Kind.UNROLL)]) >= 4


@pytest.mark.parametrize(("shape", "weights", "stride"), [
    ((3, 2, 1301), (28, 2, 1), 1), ((2, 2, 1601), (25, 2, 3), 3), ((1, 3, 700), (9, 3, 5), 2)
], ids=str)  # fmt: skip
def test_what_is_stored_of_few_channels_moves_once(scheduled, shape, weights, stride):
    x, w = whole(3, *shape), whole(4, *weights)
    nests, found = scheduled(lambda x, w: F.conv1d(x, w, None, stride), x, w)
    np.testing.assert_array_equal(found, conv(x, w, stride))
    assert stored_sectors(nests[0]) * 32 < 1.4 * found.nbytes


def test_an_element_is_loaded_once_for_all_channels_of_a_thread(scheduled):
    x, w = whole(5, 1, 8, 40, 40), whole(6, 8, 8, 3, 3)
    nests, _ = scheduled(lambda x, w: F.conv2d(x, w, None), x, w)
    kernel = lower(nests[0], "test")
    arrays = {i: op for i, op in enumerate(kernel.ops) if isinstance(op, k.Define) and op.memory is k.Memory.GLOBAL}
    loads = [op for op in kernel.ops if isinstance(op, k.Load) and op.source in arrays and op.type.dtype.is_float]
    products = [op for op in kernel.ops if isinstance(op, k.Binary) and op.type.dtype.is_float and op.op.name == "MUL"]
    assert len(products) >= 1.9 * len(loads)


def test_weights_are_vectors_in_local_memory(scheduled):
    x, w = whole(7, 1, 7, 60, 60), whole(8, 8, 7, 3, 3)
    nests, found = scheduled(lambda x, w: F.conv2d(x, w, None), x, w)
    np.testing.assert_array_equal(found, conv(x, w))
    kernel = lower(nests[0], "test")
    shared = {i for i, op in enumerate(kernel.ops) if isinstance(op, k.Define) and op.memory is k.Memory.LOCAL}
    loads = [op for op in kernel.ops if isinstance(op, k.Load) and op.source in shared]
    assert len(shared) == 1
    assert loads and {op.type.lanes for op in loads} == {4}
    images = {i for i, op in enumerate(kernel.ops) if isinstance(op, k.Define) and op.length == x.size}
    elements = [op for op in kernel.ops if isinstance(op, k.Load) and op.source in images]
    products = [op for op in kernel.ops if isinstance(op, k.Binary) and op.op.name == "MUL" and op.type.dtype.is_float]
    assert len(products) == 8 * len(elements)


def test_neighbouring_groups_have_the_same_points_of_the_image(scheduled):
    """What one of them loads is in the last cache for those with other channels, however large the image is."""
    x, w = whole(9, 1, 3, 3000), whole(10, 67, 3, 1)
    (nest,), found = scheduled(lambda x, w: F.conv1d(x, w, None), x, w)
    np.testing.assert_array_equal(found, conv(x, w))
    *_, channels = nest.grid
    image = [read for s in nest.statements for read in reads_in(s) if read.param.length == x.size]
    assert len(nest.grid) > 1
    assert image and not any(read.index.free & channels.bit for read in image)
