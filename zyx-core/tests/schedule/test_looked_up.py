"""Loads of lanes from positions that were read: these are computed as vectors, not lane by lane."""

from __future__ import annotations

import numpy as np
import pytest

from zyx.kernel import data as k
from zyx.kernel.verify import verify
from zyx.lowering.lower import lower
from zyx.ops import BinaryOp
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.schedule.choose import choose_schedule


def kernel_of(bench, output):
    """Return the kernel of a graph, having checked its values."""
    (nest,) = bench.check(output, run=bench.run_kernels).nests
    kernel = run_passes(lower(choose_schedule(nest, bench.info)[0], "test"), standard_passes(bench.info))
    verify(kernel)
    return kernel


def comparisons(kernel):
    """Return the lanes of the operations that keep a position from lying beyond the end."""
    return [op.type.lanes for op in kernel.ops if isinstance(op, k.Binary) and op.op is BinaryOp.MIN]


@pytest.mark.parametrize("shape", [(64,), (3, 32), (5, 37)])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int16])
def test_positions_that_lie_side_by_side_are_computed_as_vectors(cpu, shape, dtype):
    axis = len(shape) - 1
    low = 0 if dtype is np.uint8 else -12
    index = cpu.leaf(cpu.random.integers(low, 13, shape).astype(dtype))
    kernel = kernel_of(cpu, cpu.graph.gather(cpu.normal(*shape[:-1], 11), index, axis))
    assert 8 in comparisons(kernel)


def test_positions_of_64_bits_are_loaded_under_their_masks(cpu):
    index = cpu.leaf(cpu.random.integers(-(1 << 40), 1 << 40, 64))
    kernel = kernel_of(cpu, cpu.graph.gather(cpu.normal(11), index, 0))
    assert not comparisons(kernel)


def test_rows_of_one_position_are_loaded_as_they_lie(cpu):
    index = cpu.expand(cpu.leaf(cpu.random.integers(-6, 6, (9, 1)).astype(np.int32)), 9, 32)
    kernel = kernel_of(cpu, cpu.graph.gather(cpu.normal(5, 32), index, 0))
    assert set(comparisons(kernel)) == {1}
    assert any(isinstance(op, k.Load) and op.type.lanes == 8 and op.mask is not None for op in kernel.ops)


@pytest.mark.parametrize("shape", [(8, 11), (9, 11), (23, 64)])
def test_rows_that_share_positions_are_gathered(cpu, shape):
    rows, columns = shape
    index = cpu.expand(cpu.leaf(cpu.random.integers(-columns - 2, columns + 2, (1, 16)).astype(np.int32)), rows, 16)
    assert set(comparisons(kernel_of(cpu, cpu.graph.gather(cpu.normal(*shape), index, 1)))) == {8}
