"""Products of matrices go to the instruction for them where a device has one that fits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.builtin.dummy import DummyDevice, DummyPool
from zyx.drivers.limits import check_limits
from zyx.graph import Graph
from zyx.kernel import data as k
from zyx.kernel import run as interpreter
from zyx.kernel.verify import verify
from zyx.lowering.lower import lower
from zyx.nest.data import Compute, Kind
from zyx.nest.run import run_nest
from zyx.ops import BinaryOp, ReduceOp
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.schedule.choose import choose_schedule
from zyx.schedule.moves import Stage, TensorCore
from zyx.testing.graphs import GraphCase
from zyx.testing.nests import MACHINES, kernels_of

CARD = replace(
    MACHINES[2], units=4, registers=255, local_bytes=1 << 14,
    wmma=tuple(((16, 8, depth), dtype) for depth in (8, 16) for dtype in (dtypes.float16, dtypes.bfloat16)),
)  # fmt: skip


#: The card, where float32 products may leave bits out.
WITH_TF32 = replace(CARD, wmma=(*CARD.wmma, ((16, 8, 8), dtypes.float32)))


@pytest.fixture(autouse=True)
def family(only):
    only("tensor_core_seeds")


def product(m, n, depth, dtype=dtypes.float16, *, layout="NN", batch=(), epilogue=False):
    """Return the kernel of a product of matrices of whole numbers; with a bias, its result is in float32."""
    graph = Graph()
    rng = np.random.default_rng(0)
    values = {}

    def leaf(shape, of):
        node = graph.leaf(shape, of, "test:0")
        values[node] = rng.integers(-2, 3, size=shape).astype(of.numpy)
        return node

    def factor(rows, columns, shape, is_turned):
        node = leaf((*batch, columns, rows) if is_turned else (*batch, rows, columns), dtype)
        if is_turned:
            node = graph.permute(node, (*range(len(batch)), len(batch) + 1, len(batch)))
        node = graph.reshape(graph.cast(node, dtypes.float32), (*batch, *shape))
        return graph.expand(node, (*batch, m, n, depth))

    a = factor(m, depth, (m, 1, depth), layout[0] == "T")
    b = factor(n, depth, (1, n, depth), layout[1] == "N")
    total = graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, a, b), (len(batch) + 2,))
    total = graph.reshape(total, (*batch, m, n))
    if epilogue:
        bias = graph.reshape(leaf((n,), dtypes.float32), (*(1 for _ in batch), 1, n))
        total = graph.binary(BinaryOp.ADD, total, graph.expand(bias, (*batch, m, n)))
    else:
        total = graph.cast(total, dtype)
    (case,), _ = kernels_of(GraphCase(graph, [total], values), CARD)
    return case


def scheduled(case, info=CARD):
    """Schedule a kernel, check its values, and return the kernel and the move if it was chosen."""
    nest, moves = choose_schedule(case.nests[0], info)
    kernel = lower(nest, "product")
    verify(kernel)
    kernel = run_passes(kernel, standard_passes(info), check=True)
    check_limits(kernel, info)
    buffers, expected = case.buffers(), case.buffers()
    interpreter.run(kernel, [buffers[param] for param in nest.params])
    run_nest(case.nests[0], [expected[param] for param in nest.params])
    for param in nest.params:
        np.testing.assert_array_equal(buffers[param], expected[param])
    chosen = [move for move in moves if isinstance(move, TensorCore)]
    assert len(chosen) == any(isinstance(op, k.Wmma) for op in kernel.ops)
    return kernel, chosen


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float32], ids=str)
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_products_use_it_from_copies_in_local_memory(dtype, layout):
    kernel, chosen = scheduled(product(64, 64, 64, dtype, layout=layout), WITH_TF32)
    assert chosen
    shared = [op for op in kernel.ops if isinstance(op, k.Define) and op.memory is k.Memory.LOCAL]
    assert [op.dtype for op in shared] == [dtype] * 2
    loads = [op for op in kernel.ops if isinstance(op, k.Load) and kernel.ops[op.source] in shared]
    assert {op.type.lanes * dtype.itemsize for op in loads} == {16}
    copied = {
        op.type.lanes for op in kernel.ops if isinstance(op, k.Load) and op not in loads and op.type.dtype is dtype
    }
    assert copied <= {4, 8}


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((64, 32, 32), {"batch": (3,)}),
        ((32, 16, 32), {"batch": (2, 3), "epilogue": True}),
        ((100, 44, 70), {"epilogue": True}),
        ((16, 8, 16), {}),
        ((48, 24, 40), {"layout": "TN"}),
    ],
)
def test_batches_epilogues_and_sizes_that_need_little_padding(sizes, options):
    _, chosen = scheduled(product(*sizes, **options))
    assert chosen


@pytest.mark.parametrize(
    "sizes", [(100, 44, 70), (16, 8, 16), (64, 32, 8), pytest.param((128, 64, 64), marks=pytest.mark.slow)]
)
def test_products_in_float32_use_it_where_the_device_offers_it(sizes):
    case = product(*sizes, dtypes.float32)
    assert not scheduled(case)[1]
    kernel, chosen = scheduled(case, WITH_TF32)
    assert chosen
    assert {op.dims for op in kernel.ops if isinstance(op, k.Wmma)} == {(16, 8, 8)}


@pytest.mark.parametrize("depth", [8, 16])
def test_the_depth_that_a_device_has_is_used(depth):
    info = replace(CARD, wmma=(((16, 8, depth), dtypes.float16),))
    kernel, _ = scheduled(product(32, 32, 48), info)
    assert {op.dims for op in kernel.ops if isinstance(op, k.Wmma)} == {(16, 8, depth)}


def test_a_sum_shorter_than_the_deepest_tile_takes_the_other():
    kernel, _ = scheduled(product(32, 32, 8))
    assert {op.dims for op in kernel.ops if isinstance(op, k.Wmma)} == {(16, 8, 8)}


def test_a_larger_device_gets_smaller_blocks_and_more_groups():
    case = product(128, 128, 32)
    groups = []
    for units in (1, 64):
        kernel, chosen = scheduled(case, replace(CARD, units=units))
        assert chosen
        groups.append(np.prod(kernel.grid[0]))
    assert groups[0] < groups[1]


@pytest.mark.parametrize(
    "limits",
    [
        {"max_group_threads": 32}, {"max_group_shape": (32, 1, 1)}, {"max_group_shape": (64,)}, {"local_bytes": 3072},
        {"registers": 64},
    ],
    ids=str,
)  # fmt: skip
def test_blocks_keep_within_the_limits(limits):
    _, chosen = scheduled(product(128, 128, 32), replace(CARD, **limits))
    assert chosen


@pytest.mark.parametrize(
    "info",
    [
        replace(CARD, wmma=()),
        replace(CARD, wmma=(((16, 8, 16), dtypes.bfloat16),)),
        replace(CARD, max_group_shape=(16, 64, 64)),
        replace(CARD, local_bytes=1024),
        replace(CARD, registers=16),
    ],
    ids=["none", "dtype", "threads", "memory", "registers"],
)
def test_devices_without_or_with_too_little_go_without(info):
    _, chosen = scheduled(product(32, 32, 32), info)
    assert not chosen


@pytest.mark.parametrize("sizes", [(1, 64, 64), (64, 3, 64), (9, 8, 16), (64, 64, 9)])
def test_what_would_be_padding_for_the_most_part_goes_without(sizes):
    _, chosen = scheduled(product(*sizes))
    assert not chosen


def test_other_types_go_without():
    _, chosen = scheduled(product(32, 32, 32, dtypes.float32))
    assert not chosen


def test_only_a_product_without_further_reductions_uses_it():
    graph = Graph()
    x = graph.leaf((32, 32), dtypes.float16, "test:0")
    wide = [
        graph.expand(graph.reshape(graph.cast(x, dtypes.float32), s), (32,) * 3) for s in ((32, 1, 32), (1, 32, 32))
    ]
    total = graph.reshape(graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, *wide), (2,)), (32, 32))
    rows = graph.reduce(ReduceOp.MAX, total, (1,))
    kernels, _ = kernels_of(GraphCase(graph, [rows], {x: np.ones((32, 32), np.float16)}), CARD)
    for case in kernels:
        _, chosen = scheduled(case)
        reductions = [s.op for s in case.nests[0].statements if isinstance(s, Compute) and s.op is not None]
        assert bool(chosen) == (reductions == [ReduceOp.SUM])


def summed_products(left, right, axes):
    """Return the kernel that sums up products of what is made of two float16 leaves; both sides are (shape, make)."""
    graph = Graph()
    rng = np.random.default_rng(0)
    values = {}

    def leaf(*shape):
        node = graph.leaf(shape, dtypes.float16, "test:0")
        values[node] = rng.integers(-2, 3, size=shape).astype(np.float16)
        return node

    first = leaf(*left[0])
    second = first if right[0] is None else leaf(*right[0])
    sides = [graph.cast(make(graph, node), dtypes.float32) for make, node in ((left[1], first), (right[1], second))]
    total = graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, *sides), axes)
    kept = tuple(size for axis, size in enumerate(total.shape) if axis not in axes)
    (case,), _ = kernels_of(GraphCase(graph, [graph.reshape(total, kept)], values), CARD)
    return case


def spread(shape, wide):
    return lambda graph, node: graph.expand(graph.reshape(node, shape), wide)


def test_a_matrix_times_itself_turned():
    wide = (32, 32, 48)
    case = summed_products(((32, 48), spread((32, 1, 48), wide)), (None, spread((1, 32, 48), wide)), (2,))
    _, chosen = scheduled(case)
    assert chosen


def test_a_convolution():
    """16 channels of 18 places, windows of 3: sums over channels and windows of 16 places by 8 results."""
    wide = (16, 8, 16, 3)

    def windows(graph, node):
        repeated = graph.expand(graph.reshape(node, (16, 18, 1)), (16, 18, 3))
        slid = graph.permute(graph.slide(repeated, 1, 2, 16), (1, 0, 2))
        return graph.expand(graph.reshape(slid, (16, 1, 16, 3)), wide)

    case = summed_products(((16, 18), windows), ((8, 16, 3), spread((1, 8, 16, 3), wide)), (2, 3))
    _, chosen = scheduled(case)
    assert chosen


def test_a_factor_that_is_the_same_all_along_the_sum_goes_without():
    wide = (32, 32, 48)
    case = summed_products(((32, 48), spread((32, 1, 48), wide)), ((32,), spread((1, 32, 1), wide)), (2,))
    _, chosen = scheduled(case)
    assert not chosen


def test_the_dummy_device_shows_what_a_graphics_card_is_given():
    info = DummyDevice("dummy:0", DummyPool("dummy")).info
    nest, moves = choose_schedule(product(256, 256, 64).nests[0], info)
    assert isinstance(moves[-1], TensorCore)
    assert sum(isinstance(move, Stage) for move in moves) == 2
    assert Kind.LOCAL in nest.kinds.values()
    check_limits(lower(nest, "product"), info)
