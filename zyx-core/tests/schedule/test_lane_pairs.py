"""Sums of integers that become floats add neighbouring lanes first, where that cannot wrap, and give what they gave."""

from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel import run as interpreter
from zyx.kernel.verify import verify
from zyx.lowering.lower import lower
from zyx.nest import expr as e
from zyx.nest.accesses import below
from zyx.nest.data import Compute, Kind
from zyx.nest.lane_sums import interval_of, may_pair_lanes
from zyx.nest.run import run_nest
from zyx.ops import BinaryOp
from zyx.schedule.moves import Mark, Split, apply_moves
from zyx.schedule.seeds.processors import vectorisations

from .conftest import CPU, device

RANDOM = np.random.default_rng(11)
ROWS, BLOCKS, LANES = 3, 5, 16


def nest_of(cpu, left, right, *, offset=False, scale_of_lanes=False):
    """Return the nest of ``sum(b, l) of f32(i32(left) * i32(right)) * scale``, with a second such term as an offset."""
    graph = cpu.graph
    x, y = (graph.cast(cpu.leaf(values), dtypes.int32) for values in (left, right))
    scale = cpu.normal(ROWS, BLOCKS, LANES if scale_of_lanes else 1)
    total = cpu.mul(graph.cast(cpu.mul(x, y), dtypes.float32), scale)
    if offset:
        total = cpu.add(total, cpu.mul(graph.cast(x, dtypes.float32), cpu.normal(ROWS, BLOCKS, 1)))
    (nest,) = cpu.schedule(cpu.sum(total, 1, 2)).nests
    return nest


def draw(dtype):
    return RANDOM.integers(-128, 128, (ROWS, BLOCKS, LANES)).astype(dtype)


def sum_of(nest):
    (found,) = [s for s in nest.statements if isinstance(s, Compute) and s.op is not None]
    return found


def lanes_of(nest):
    """Return the range of the lanes: the last one that is combined over."""
    return sum_of(nest).reduced[-1]


def run_with_vectors(nest, lanes):
    """Return (what the nest gives, what its kernel gives with vectors along the lanes, that kernel)."""
    label = lanes_of(nest).label
    moves = [Split(label, lanes), Mark(f"{label}.1", Kind.VECTOR)] if lanes < LANES else [Mark(label, Kind.VECTOR)]
    kernel = lower(apply_moves(nest, moves), "test")
    verify(kernel)
    given = [RANDOM.integers(-100, 100, p.length).astype(p.dtype.numpy) for p in nest.params]
    expected, found = ([array.copy() for array in given] for _ in range(2))
    run_nest(nest, expected)
    interpreter.run(kernel, found)
    return expected[0], found[0], kernel


def conversions(kernel):
    """Return the lanes of what is converted to float32."""
    return {op.type.lanes for op in kernel.ops if isinstance(op, k.Cast) and op.type.dtype is dtypes.float32}


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("offset", [False, True])
def test_half_as_many_lanes_are_converted_and_accumulated(cpu, lanes, offset):
    nest = nest_of(cpu, draw(np.int16), draw(np.int8), offset=offset)
    expected, found, kernel = run_with_vectors(nest, lanes)
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-2)
    assert conversions(kernel) == {lanes // 2}
    registers = [op for op in kernel.ops if isinstance(op, k.Define) and op.memory is k.Memory.REGISTER]
    assert {op.lanes for op in registers} == {lanes // 2}


def test_sums_of_pairs_that_might_wrap_stay_apart(cpu):
    nest = nest_of(cpu, draw(np.int32), draw(np.int8))
    assert not may_pair_lanes(sum_of(nest), lanes_of(nest))
    expected, found, kernel = run_with_vectors(nest, 8)
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-2)
    assert conversions(kernel) == {8}


def test_lanes_with_scales_of_their_own_stay_apart(cpu):
    nest = nest_of(cpu, draw(np.int16), draw(np.int8), scale_of_lanes=True)
    assert not may_pair_lanes(sum_of(nest), lanes_of(nest))
    shared = nest_of(cpu, draw(np.int16), draw(np.int8))
    assert may_pair_lanes(sum_of(shared), lanes_of(shared))


def test_vectors_are_twice_as_long_where_the_device_has_such(cpu):
    nest = nest_of(cpu, draw(np.int16), draw(np.int8))
    longer = device(units=2, vector_bytes=32, cache_bytes=(1 << 15, 1 << 18), lanes=(2, 4, 8, 16))
    lanes = [next(vectorisations(nest, info))[lanes_of(nest)] for info in (CPU, longer)]
    assert lanes == [8, 16]


def test_intervals_are_those_of_the_dtypes_that_were_widened(cpu):
    nest = nest_of(cpu, draw(np.int16), draw(np.int8))
    product = next(x for x in below(sum_of(nest).expr) if isinstance(x, e.Apply2) and x.dtype is dtypes.int32)
    assert product.op is BinaryOp.MUL
    assert interval_of(product) == (32767 * -128, 32768 * 128)
