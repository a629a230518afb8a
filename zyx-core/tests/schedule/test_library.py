"""Which nests are products of matrices that a library may compute, and which are not."""

from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.backend.library import Gemm
from zyx.fusion.build import build_nest
from zyx.fusion.library import suits_threads
from zyx.fusion.partition import partition
from zyx.graph.given import Box, Number
from zyx.graph.walk import topological
from zyx.libraries.product import match_gemm
from zyx.ops import BinaryOp, ReduceOp


def product(bench, a, b):
    """Return ``sum over l of a[.., i, l] * b[.., l, j]`` of nodes with the same leading axes."""
    graph, (*batch, m, k), n = bench.graph, a.shape, b.shape[-1]
    full = (*batch, m, n, k)
    turned = graph.permute(b, (*range(len(batch)), len(batch) + 1, len(batch)))
    left = graph.expand(graph.reshape(a, (*batch, m, 1, k)), full)
    right = graph.expand(graph.reshape(turned, (*batch, 1, n, k)), full)
    total = bench.sum(graph.binary(BinaryOp.MUL, left, right), len(full) - 1)
    return graph.reshape(total, full[:-1])


def turned(bench, *shape):
    """Return a leaf seen with its last two axes exchanged."""
    x = bench.normal(*shape[:-2], shape[-1], shape[-2])
    axes = range(x.ndim)
    return bench.graph.permute(x, (*axes[:-2], axes[-1], axes[-2]))


def matched(bench, output):
    (nest,) = bench.schedule(output).nests
    return match_gemm(nest)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("is_turned", [(False, False), (True, False), (False, True), (True, True)])
def test_products_of_matrices_are_found_however_they_lie(cpu, batch, is_turned):
    a = turned(cpu, *batch, 4, 6) if is_turned[0] else cpu.normal(*batch, 4, 6)
    b = turned(cpu, *batch, 6, 8) if is_turned[1] else cpu.normal(*batch, 6, 8)
    output = product(cpu, a, b)
    found = matched(cpu, output)
    assert found is not None
    problem, (first, second, result) = found
    assert (problem.batch, problem.m, problem.n, problem.k) == (int(np.prod(batch)), 4, 8, 6)
    assert (problem.dtype, problem.out_dtype) == (dtypes.float32, dtypes.float32)
    # A product is also that of the factors turned over and exchanged; here it is in the order of the result.
    assert (problem.transpose_a, problem.transpose_b) == is_turned
    count = problem.batch
    assert (first.length, second.length, result.length) == (count * 24, count * 48, count * 32)


def test_the_result_may_be_converted(cpu):
    a = cpu.graph.cast(cpu.normal(4, 6, dtype=np.float16), dtypes.float32)
    b = cpu.graph.cast(cpu.normal(6, 8, dtype=np.float16), dtypes.float32)
    found = matched(cpu, cpu.graph.cast(product(cpu, a, b), dtypes.float16))
    assert found is not None
    assert (found[0].dtype, found[0].out_dtype) == (dtypes.float16, dtypes.float16)


def test_what_is_more_than_a_product_is_left_to_generated_kernels(cpu):
    graph = cpu.graph
    a, b = cpu.normal(4, 6), cpu.normal(6, 8)
    plain = product(cpu, a, b)
    for output in (
        cpu.tanh(plain),  # an epilogue
        cpu.add(plain, cpu.normal(8)),
        graph.flip(plain, (0,)),
        product(cpu, graph.shrink(cpu.normal(5, 6), [(1, 5), (0, 6)]), b),  # not from the start of its buffer
        product(cpu, graph.shrink(cpu.normal(4, 7), [(0, 4), (0, 6)]), b),  # rows with gaps
        product(cpu, graph.pad(cpu.normal(4, 5), [(0, 0), (0, 1)]), b),  # masked
        cpu.sum(cpu.normal(4, 6), 1),
        graph.reduce(ReduceOp.MAX, graph.binary(BinaryOp.MUL, cpu.normal(4, 6), cpu.normal(4, 6)), (1,)),
        cpu.tanh(a),
    ):
        assert matched(cpu, output) is None


def at_the_launch(data, *shape, apart=0):
    """Return a box of a leaf that begins where the launch says, and whose rows lie where it says along `apart` axes."""
    start, *strides = (Number((), dtypes.int32, data.device) for _ in range(1 + apart))
    return Box(shape, data.dtype, data.device, data, start, tuple(strides))


@pytest.mark.parametrize("apart", [0, 1])
@pytest.mark.parametrize("place", [0, 1])
def test_a_factor_that_begins_where_the_launch_says_is_left_to_generated_kernels(cpu, place, apart):
    """The least place is the start of the buffer: the index alone does not tell that it is one of many."""
    factors = [cpu.normal(4, 6), cpu.normal(6, 8)]
    shape = factors[place].shape
    factors[place] = at_the_launch(cpu.normal(200) if apart else cpu.normal(20, shape[1]), *shape, apart=apart)
    output = product(cpu, *factors)
    (part,) = partition(topological([output]), [output], cpu.info)
    assert match_gemm(build_nest(part, {})) is None


@pytest.mark.parametrize("apart", [0, 1])
def test_a_result_that_is_stored_where_the_launch_says_is_left_to_generated_kernels(cpu, apart):
    output = product(cpu, cpu.normal(4, 6), cpu.normal(6, 8))
    (part,) = partition(topological([output]), [output], cpu.info)
    assert match_gemm(build_nest(part, {})) is not None
    part.rows = {output: [at_the_launch(cpu.normal(200), 4, 8, apart=apart)]}
    part.only_rows = {output}
    assert match_gemm(build_nest(part, {})) is None


def test_the_transpose_of_a_product_is_the_product_of_the_transposes(cpu):
    output = cpu.graph.permute(product(cpu, cpu.normal(4, 6), cpu.normal(6, 8)), (1, 0))
    found = matched(cpu, output)
    assert found is not None
    problem, (first, second, _) = found
    assert (problem.m, problem.n, problem.k) == (8, 4, 6)
    assert (problem.transpose_a, problem.transpose_b) == (True, True)
    assert (first.length, second.length) == (48, 24)


@pytest.mark.parametrize(("first", "second"), [(np.float16, np.float32), (np.float32, np.float16)])
def test_factors_that_are_stored_in_different_dtypes_are_left_to_generated_kernels(cpu, first, second):
    a, b = (
        cpu.graph.cast(cpu.graph.cast(cpu.normal(*shape, dtype=dtype), dtypes.float16), dtypes.float32)
        for shape, dtype in (((4, 6), first), ((6, 8), second))
    )
    assert matched(cpu, cpu.graph.cast(product(cpu, a, b), dtypes.float16)) is None


@pytest.mark.parametrize(
    ("stored", "added_up", "out"),
    [
        ("float32", "float64", "float64"),  # more digits than the library has
        ("float32", "float16", "float16"),
        ("int8", "float32", "float32"),
        ("float16", "float32", "bfloat16"),
        ("float32", "float32", "int32"),
    ],
)
def test_products_in_other_dtypes_than_a_library_s_are_left_to_generated_kernels(cpu, stored, added_up, out):
    a, b = (cpu.graph.cast(cpu.leaf(np.ones(shape, stored)), getattr(dtypes, added_up)) for shape in ((4, 6), (6, 8)))
    assert matched(cpu, cpu.graph.cast(product(cpu, a, b), getattr(dtypes, out))) is None


def test_factors_that_are_rounded_on_the_way_are_left_to_generated_kernels(cpu):
    a, b = (
        cpu.graph.cast(cpu.graph.cast(cpu.normal(*shape), dtypes.float16), dtypes.float32) for shape in ((4, 6), (6, 8))
    )
    assert matched(cpu, product(cpu, a, b)) is None


def test_a_factor_that_is_computed_is_stored_as_it_is_rounded(cpu):
    graph = cpu.graph
    a = graph.cast(cpu.normal(4, 6, dtype=np.float16), dtypes.float32)
    b = graph.cast(graph.cast(cpu.tanh(cpu.normal(6, 8)), dtypes.float16), dtypes.float32)
    *_, nest = cpu.schedule(graph.cast(product(cpu, a, b), dtypes.float16)).nests
    found = match_gemm(nest)
    assert found is not None
    assert [param.dtype for param in found[1]] == [dtypes.float16] * 3


@pytest.mark.parametrize(
    ("shape", "turned_factors", "dtype", "suits"),
    [
        ((1, 5000, 7000, 3), "", dtypes.bfloat16, True),
        ((1, 5000, 7000, 3), "", dtypes.float32, False),
        ((1, 5000, 7000, 32), "", dtypes.float16, False),
        ((60, 11, 7000, 200), "a", dtypes.bfloat16, True),
        ((60, 11, 7000, 201), "b", dtypes.bfloat16, False),
        ((1, 8, 7000, 201), "b", dtypes.bfloat16, True),
        ((1, 8, 7000, 200), "b", dtypes.bfloat16, False),
        ((1, 8, 7000, 200), "b", dtypes.float32, True),
        ((1, 8, 7000, 200), "", dtypes.float32, False),
        ((1, 9, 7000, 200), "b", dtypes.float32, False),
        ((2, 8, 7000, 256), "b", dtypes.float32, True),
        ((2, 8, 7000, 257), "b", dtypes.float32, False),
        ((2, 9, 7000, 256), "b", dtypes.float32, False),
        ((2, 8, 512, 7000), "", dtypes.float32, True),
        ((2, 8, 513, 7000), "", dtypes.float32, False),
        ((2, 8, 512, 7000), "", dtypes.float64, False),
        ((60, 8, 7000, 200), "", dtypes.bfloat16, False),
        ((60, 16, 7000, 201), "", dtypes.bfloat16, False),
        ((60, 11, 100, 201), "", dtypes.bfloat16, False),
        ((60, 64, 64, 64), "ab", dtypes.float32, True),
        ((60, 3, 2, 5), "", dtypes.float16, True),
        ((60, 65, 64, 64), "", dtypes.float32, False),
        ((60, 64, 64, 65), "", dtypes.float32, False),
        ((1, 64, 64, 64), "", dtypes.float32, False),
    ],
)
def test_thin_products_of_short_floats_and_small_ones_suit_threads_better_than_a_library(
    shape, turned_factors, dtype, suits
):
    problem = Gemm(*shape, dtype, dtype, "a" in turned_factors, "b" in turned_factors)
    assert suits_threads(problem) is suits
