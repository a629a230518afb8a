"""Groups of bytes that lie side by side in each lane are multiplied together, and added while they are short."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel import run as interpreter
from zyx.kernel.verify import verify
from zyx.lowering.lower import lower
from zyx.nest.data import Compute
from zyx.nest.lane_sums import group_of
from zyx.nest.run import run_nest
from zyx.ops import BinaryOp
from zyx.schedule.choose import choose_schedule

from .conftest import device

RANDOM = np.random.default_rng(5)
PARTS, BLOCKS, LANES, GROUP = 3, 5, 8, 4
LONG = device(units=2, vector_bytes=32, cache_bytes=(1 << 15, 1 << 18), lanes=(2, 4, 8, 16, 32), has_byte_products=True)


def nest_of(cpu, codes, factors, *, terms=1, most=None):
    """Return the nest of ``sum(b, t) of f32(i32(codes & most) * i32(factors)) * scale``, and of so many such products.

    Codes lie ``(parts, blocks, lanes, group)``; a lane is an element of the result.
    """
    graph = cpu.graph
    total = None
    for _ in range(terms):
        x = cpu.leaf(codes)
        if most is not None:
            mask = graph.const(most, x.dtype, "cpu", x.shape)
            x = graph.binary(BinaryOp.AND, x, mask)
        x = graph.permute(x, (0, 2, 1, 3))
        term = cpu.mul(graph.cast(x, dtypes.int32), graph.cast(cpu.leaf(factors), dtypes.int32))
        total = term if total is None else cpu.add(total, term)
    scaled = cpu.mul(graph.cast(total, dtypes.float32), cpu.normal(PARTS, LANES, BLOCKS, 1))
    (nest,) = cpu.schedule(cpu.sum(scaled, 2, 3)).nests
    return nest


def draw(shape, low, high, dtype):
    values = RANDOM.integers(low, high + 1, shape)
    values.flat[:: max(1, values.size // 7)] = high  # extremes, beside each other too
    values[..., :2] = np.where(RANDOM.random(values[..., :2].shape) < 0.5, low, values[..., :2])
    return values.astype(dtype)


def check(nest, info, codes, factors):
    """Run the nest as it is and as its kernel, on bytes of these ranges; return the kernel."""
    scheduled, _ = choose_schedule(nest, info)
    kernel = lower(scheduled, "test")
    verify(kernel)
    given = []
    for param in nest.params:
        if param.dtype is dtypes.float32:
            given.append(RANDOM.standard_normal(param.length).astype(np.float32))
        else:
            source = factors if param.length == factors.size else codes
            given.append(source.reshape(-1).copy())
    expected, found = ([array.copy() for array in given] for _ in range(2))
    run_nest(nest, expected)
    interpreter.run(kernel, found)
    assert np.allclose(found[0], expected[0], rtol=1e-5, atol=1e-1)
    return kernel


def products(kernel):
    """Return the types of products of integers that are vectors."""
    return {
        op.type
        for op in kernel.ops
        if isinstance(op, k.Binary) and op.op is BinaryOp.MUL and op.type.lanes > 1 and op.type.dtype.is_integer
    }


@pytest.mark.parametrize("terms", [1, 3, 12])
@pytest.mark.parametrize("most", [15, 127])
def test_products_that_fit_in_pairs_are_short(cpu, terms, most):
    codes = draw((PARTS, BLOCKS, LANES, GROUP), 0, 255, np.uint8)
    factors = draw((BLOCKS, GROUP), -128, 127, np.int8)
    kernel = check(nest_of(cpu, codes, factors, terms=terms, most=most), LONG, codes, factors)
    assert products(kernel) == {k.Type(dtypes.int16, LANES * GROUP)}


@pytest.mark.parametrize(("dtype", "low", "high"), [(np.uint8, 0, 255), (np.int8, -128, 127)])
def test_products_that_do_not_fit_are_long(cpu, dtype, low, high):
    codes = draw((PARTS, BLOCKS, LANES, GROUP), low, high, dtype)
    factors = draw((BLOCKS, GROUP), -128, 127, np.int8)
    kernel = check(nest_of(cpu, codes, factors, terms=2), LONG, codes, factors)
    assert products(kernel) == {k.Type(dtypes.int32, LANES * GROUP)}


def test_nothing_is_grouped_where_no_instruction_is_for_it_nor_where_groups_are_of_another_size(cpu):
    codes, factors = draw((PARTS, BLOCKS, LANES, GROUP), 0, 255, np.uint8), draw((BLOCKS, GROUP), -128, 127, np.int8)
    nest = nest_of(cpu, codes, factors, most=15)
    kernel = check(nest, replace(LONG, has_byte_products=False), codes, factors)
    assert k.Type(dtypes.int16, LANES * GROUP) not in products(kernel)
    codes, factors = codes[..., :3], factors[..., :3]
    nest = nest_of(cpu, codes, factors, most=15)
    (statement,) = [s for s in nest.statements if isinstance(s, Compute) and s.op is not None]
    assert all(group_of(statement, range_) is None for range_ in statement.value.ranges)
