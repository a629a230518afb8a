"""Matrix fragments against the tables of the PTX manual, and their product against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.ir.builder import Builder
from zyx.ir.interpreter import run
from zyx.ir.kernel import Axis, Memory
from zyx.ir.wmma import DIMENSIONS, fragment_lanes, fragment_positions
from zyx.ops import BinaryOp


@pytest.mark.parametrize("dims", DIMENSIONS)
@pytest.mark.parametrize(("matrix", "shape"), [("a", (0, 2)), ("b", (2, 1)), ("c", (0, 1))])
def test_the_threads_of_a_warp_hold_every_element_once(dims, matrix, shape):
    rows, columns = fragment_positions(dims, matrix)
    held = set(zip(rows.ravel().tolist(), columns.ravel().tolist(), strict=True))
    assert held == {(row, column) for row in range(dims[shape[0]]) for column in range(dims[shape[1]])}
    assert rows.size == len(held)


def test_the_layout_is_that_of_the_manual():
    # PTX ISA, 9.7.15.5.8: a of m16n8k16 in thread 5 (group 1, second pair), then b and c.
    rows, columns = fragment_positions((16, 8, 16), "a")
    assert list(zip(rows[5].tolist(), columns[5].tolist(), strict=True)) == [
        (1, 2), (1, 3), (9, 2), (9, 3), (1, 10), (1, 11), (9, 10), (9, 11),
    ]  # fmt: skip
    rows, columns = fragment_positions((16, 8, 16), "b")
    assert list(zip(rows[5].tolist(), columns[5].tolist(), strict=True)) == [(2, 1), (3, 1), (10, 1), (11, 1)]
    rows, columns = fragment_positions((16, 8, 16), "c")
    assert list(zip(rows[5].tolist(), columns[5].tolist(), strict=True)) == [(1, 2), (1, 3), (9, 2), (9, 3)]
    rows, columns = fragment_positions((16, 8, 8), "a")
    assert list(zip(rows[31].tolist(), columns[31].tolist(), strict=True)) == [(7, 6), (7, 7), (15, 6), (15, 7)]
    rows, columns = fragment_positions((16, 8, 8), "b")
    assert list(zip(rows[31].tolist(), columns[31].tolist(), strict=True)) == [(6, 7), (7, 7)]


@pytest.mark.parametrize("factor", [dtypes.float16, dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("dims", DIMENSIONS)
def test_two_warps_multiply_matrices(dims, factor):
    """Each thread loads its fragments from where they lie in memory, and stores its part of the product."""
    m, n, depth = dims
    lanes = dict(zip("abc", fragment_lanes(dims), strict=True))
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, m, depth)).astype(factor.numpy), rng.normal(size=(2, depth, n)).astype(factor.numpy)
    c = rng.normal(size=(2, m, n)).astype(np.float32)
    builder = Builder()
    arrays = {
        name: builder.define(Memory.GLOBAL, dtype, 2 * 32 * lanes[name])
        for name, dtype in (("a", factor), ("b", factor), ("c", dtypes.float32))
    }
    thread = builder.index(Axis.LOCAL, 0, 64, dtypes.int32)
    parts = {}
    for name, count in lanes.items():
        parts[name] = builder.binary(BinaryOp.MUL, thread, builder.const(count, dtypes.int32))
    fragments = [builder.load(arrays[name], parts[name], lanes[name]) for name in "abc"]
    builder.store(arrays["c"], parts["c"], builder.wmma(dims, *fragments))
    memory = []
    for name, matrices in (("a", a), ("b", b), ("c", c)):
        rows, columns = fragment_positions(dims, name)
        memory.append(np.ascontiguousarray(matrices[:, rows, columns]).reshape(-1))
    run(builder.finish("multiply"), memory)
    rows, columns = fragment_positions(dims, "c")
    expected = (a.astype(np.float64) @ b.astype(np.float64) + c)[:, rows, columns].reshape(-1)
    np.testing.assert_allclose(memory[2], expected, rtol=1e-6, atol=1e-6)
