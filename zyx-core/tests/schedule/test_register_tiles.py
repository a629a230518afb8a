"""Products of matrices that no instruction serves keep tiles of results in the registers of threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.backend.info import STORAGE_ONLY
from zyx.drivers.limits import check_limits
from zyx.graph import Graph
from zyx.kernel import data as k
from zyx.kernel import run as interpreter
from zyx.kernel.verify import verify
from zyx.lowering.lower import lower
from zyx.lowering.thread_axes import MAX_AXES, thread_axes
from zyx.nest.accesses import stride_along
from zyx.nest.data import Kind
from zyx.nest.run import run_nest
from zyx.ops import BinaryOp, ReduceOp
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.schedule.choose import choose_schedule
from zyx.schedule.moves import Stage
from zyx.testing.graphs import GraphCase
from zyx.testing.nests import MACHINES, kernels_of

CARD = replace(MACHINES[2], units=1, registers=128)


@pytest.fixture(autouse=True)
def family(only):
    only("register_tile_seeds")


def product(m, n, depth, dtype=dtypes.float32, *, layout="NN", batch=(), epilogue=False, info=CARD):
    """Return the kernel of a product of matrices of whole numbers."""
    graph = Graph()
    rng = np.random.default_rng(0)
    values = {}

    def leaf(shape):
        node = graph.leaf(shape, dtype, "test:0")
        values[node] = rng.integers(-2, 3, size=shape).astype(dtype.numpy)
        return node

    def factor(rows, columns, shape, is_turned):
        node = leaf((*batch, columns, rows) if is_turned else (*batch, rows, columns))
        if is_turned:
            node = graph.permute(node, (*range(len(batch)), len(batch) + 1, len(batch)))
        if dtype.bits < 32:
            node = graph.cast(node, dtypes.float32 if dtype.is_float else dtypes.int32)
        return graph.expand(graph.reshape(node, (*batch, *shape)), (*batch, m, n, depth))

    a = factor(m, depth, (m, 1, depth), layout[0] == "T")
    b = factor(n, depth, (1, n, depth), layout[1] == "N")
    total = graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, a, b), (len(batch) + 2,))
    total = graph.reshape(total, (*batch, m, n))
    if epilogue:
        bias = graph.reshape(leaf((n,)), (*(1 for _ in batch), 1, n))
        total = graph.binary(BinaryOp.ADD, total, graph.expand(bias, (*batch, m, n)))
    (case,), _ = kernels_of(GraphCase(graph, [total], values), info)
    return case


def scheduled(case, info=CARD):
    """Schedule a kernel, check its values, and return the nest, the kernel and the copies that were made."""
    nest, moves = choose_schedule(case.nests[0], info)
    kernel = lower(nest, "product")
    verify(kernel)
    kernel = run_passes(kernel, standard_passes(info))
    verify(kernel)
    check_limits(kernel, info)
    buffers, expected = case.buffers(), case.buffers()
    interpreter.run(kernel, [buffers[param] for param in nest.params])
    run_nest(case.nests[0], [expected[param] for param in nest.params])
    for param in nest.params:
        np.testing.assert_array_equal(buffers[param], expected[param])
    return nest, kernel, [move for move in moves if isinstance(move, Stage)]


def arrays(kernel, memory):
    return [i for i, op in enumerate(kernel.ops) if isinstance(op, k.Define) and op.memory is memory]


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_threads_load_and_store_vectors_in_local_memory(layout):
    _, kernel, copies = scheduled(product(64, 64, 32, layout=layout))
    assert len(copies) == 2
    shared = arrays(kernel, k.Memory.LOCAL)
    assert len(shared) == 2
    loads = [op for op in kernel.ops if isinstance(op, k.Load) and op.source in shared]
    stores = [op for op in kernel.ops if isinstance(op, k.Store) and op.target in shared]
    assert loads and {op.type.lanes for op in loads} == {4}
    assert stores and {kernel.ops[op.value].type.lanes for op in stores} == {4}
    copied = [op for op in kernel.ops if isinstance(op, k.Load) and op.source in arrays(kernel, k.Memory.GLOBAL)]
    assert {op.type.lanes for op in copied} == {4 if layout[0] == "T" else 2, 4 if layout[1] == "N" else 2}


def test_a_thread_multiplies_all_its_rows_by_all_its_columns():
    nest, kernel, _ = scheduled(product(64, 64, 256))
    start = next(i for i, op in enumerate(kernel.ops) if isinstance(op, k.Loop))
    end = next(i for i, op in enumerate(kernel.ops) if isinstance(op, k.EndLoop))
    shared = arrays(kernel, k.Memory.LOCAL)
    body = kernel.ops[start:end]
    results = sum(kernel.ops[array].length * kernel.ops[array].lanes for array in arrays(kernel, k.Memory.REGISTER))
    products = sum(op.type.lanes for op in body if isinstance(op, k.Mad | k.Binary) and op.type.dtype.is_float)
    loaded = sum(op.type.lanes for op in body if isinstance(op, k.Load) and op.source in shared)
    steps = products // results // (1 if any(isinstance(op, k.Mad) for op in body) else 2)
    assert results * steps >= 2 * loaded
    assert {nest.kind(range_) for range_ in nest.ranges} == {*Kind}


def test_copies_are_made_for_the_next_steps():
    _, kernel, _ = scheduled(product(64, 64, 256))
    start = next(i for i, op in enumerate(kernel.ops) if isinstance(op, k.Loop))
    assert sum(isinstance(op, k.Barrier) for op in kernel.ops[start:]) == 1


def test_groups_may_have_more_axes_than_a_launch():
    nest, moves = choose_schedule(product(256, 256, 256).nests[0], CARD)
    assert len(thread_axes(nest)) > MAX_AXES
    assert sum(isinstance(move, Stage) for move in moves) == 2


@pytest.mark.parametrize("shape", [(64, 64, 40), (61, 64, 32), (64, 67, 32), (50, 61, 37), (62, 64, 7)], ids=str)
def test_sizes_need_not_fit(shape):
    _, _, copies = scheduled(product(*shape, epilogue=True))
    assert copies


@pytest.mark.parametrize("dtype", [dtypes.float64, dtypes.int32, dtypes.bfloat16, dtypes.int64], ids=str)
def test_other_dtypes_have_tiles_too(dtype):
    info = replace(CARD, vector_bytes=16)
    _, _, copies = scheduled(product(64, 64, 32, dtype, info=info), info)
    assert copies


@pytest.mark.parametrize("layout", ["NN", "TT"])
@pytest.mark.parametrize(
    ("dtype", "wide"), [(dtypes.float16, dtypes.float32), (dtypes.uint8, dtypes.int32)], ids=("f16", "u8")
)
def test_factors_of_small_dtypes_are_converted_once_and_copied_so(dtype, wide, layout):
    _, kernel, copies = scheduled(product(64, 64, 256, dtype, layout=layout))
    assert all(copy.converted for copy in copies)
    assert {kernel.ops[array].dtype for array in arrays(kernel, k.Memory.LOCAL)} == {wide}
    start = next(i for i, op in enumerate(kernel.ops) if isinstance(op, k.Loop))
    body = kernel.ops[start:]
    converted = sum(op.type.lanes for op in body if isinstance(op, k.Cast) and op.type.dtype is wide)
    stored = [op for op in body if isinstance(op, k.Store) and op.target in arrays(kernel, k.Memory.LOCAL)]
    assert converted == sum(kernel.ops[op.value].type.lanes for op in stored)


def test_batches_are_groups():
    nest, _, copies = scheduled(product(32, 64, 32, batch=(3, 2), epilogue=True))
    assert copies
    assert sum(nest.kind(range_) is Kind.GROUP for range_ in nest.ranges) >= 3


@pytest.mark.parametrize(
    ("shape", "changes"),
    {
        "no threads in step": ((64, 64, 32), {"warp_size": 1}),
        "no local memory": ((64, 64, 32), {"local_bytes": 0}),
        "few registers": ((64, 64, 32), {"registers": 32}),
        "no vectors": ((64, 64, 32), {"vector_bytes": 4}),
    }.values(),
)
def test_others_stay(shape, changes):
    info = replace(CARD, **changes)
    _, _, copies = scheduled(product(*shape, info=info), info)
    assert not copies


def test_products_that_are_rounded_by_many_operations_stay():
    capabilities = {**CARD.capabilities, dtypes.float32: STORAGE_ONLY}
    info = replace(CARD, capabilities=capabilities)
    _, moves = choose_schedule(product(64, 64, 32).nests[0], info)
    assert not [move for move in moves if isinstance(move, Stage)]


def test_a_small_device_has_small_groups():
    info = replace(CARD, max_group_threads=64, max_group_shape=(64, 64, 64), local_bytes=1 << 14)
    _, kernel, copies = scheduled(product(64, 64, 32, info=info), info)
    assert copies
    assert np.prod(kernel.grid[1]) <= 64


def test_columns_are_those_along_which_results_lie_side_by_side():
    graph = Graph()
    m, height, width, depth = 32, 150, 130, 16
    rng = np.random.default_rng(0)
    values = {}

    def leaf(shape):
        node = graph.leaf(shape, dtypes.float32, "test:0")
        values[node] = rng.integers(-2, 3, size=shape).astype(np.float32)
        return node

    shape = (m, height, width, depth)
    weights = graph.expand(graph.reshape(leaf((m, depth)), (m, 1, 1, depth)), shape)
    image = graph.shrink(leaf((height, width + 3, depth)), [(0, height), (1, width + 1), (0, depth)])
    image = graph.expand(graph.reshape(image, (1, height, width, depth)), shape)
    total = graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, weights, image), (3,))
    (case,), _ = kernels_of(GraphCase(graph, [total], values), CARD)
    nest, _, copies = scheduled(case)
    assert len(copies) == 2
    lanes = [range_ for range_ in nest.statements[-1].order if nest.kind(range_) is Kind.VECTOR]
    assert [stride_along(nest.statements[-1].index, range_) for range_ in lanes] == [1]
